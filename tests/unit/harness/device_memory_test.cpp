#include "harness/machine/device_memory.h"

#include <gtest/gtest.h>

namespace rtfx {
namespace {

using Segment = c10::CachingDeviceAllocator::SegmentInfo;

Segment segment(size_t total, size_t allocated, c10::MempoolId_t pool = {0, 0}) {
  Segment out;
  out.total_size = total;
  out.allocated_size = allocated;
  out.owner_private_pool_id = pool;
  return out;
}

TEST(KeptMemory, TensorsCountAsTheyAreAndGraphsWithAllTheyWorkIn) {
  const std::vector<Segment> tensors = {segment(20 << 20, 3 << 20), segment(2 << 20, 0)};
  EXPECT_EQ(kept_memory(tensors), 3 << 20);
  std::vector<Segment> graph = tensors;
  graph.push_back(segment(20 << 20, 512, {0, 7}));
  EXPECT_EQ(kept_memory(graph), (20 << 20) + (3 << 20));
  EXPECT_EQ(kept_memory(std::vector<Segment>()), 0);
}

TEST(KeptMemory, ACpuHasNone) {
  EXPECT_EQ(kept_memory(at::Device(at::kCPU)), 0);
  EXPECT_EQ(PeakMemory(at::kCPU).bytes(), 0);
}

}  // namespace
}  // namespace rtfx
