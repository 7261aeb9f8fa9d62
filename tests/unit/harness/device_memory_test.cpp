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

TEST(KeptMemory, BlocksThatBelongToNoOneAreLeftOut) {
  Segment of_tensors = segment(20 << 20, 7 << 20);
  of_tensors.address = 1 << 30;
  for (const auto& [size, allocated] : {std::pair(2 << 20, true), std::pair(4 << 20, true),
                                        std::pair(1 << 20, true), std::pair(13 << 20, false)}) {
    auto& block = of_tensors.blocks.emplace_back();
    block.size = static_cast<size_t>(size);
    block.allocated = allocated;
  }
  const size_t second = (1 << 30) + (2 << 20), free = (1 << 30) + (7 << 20);
  EXPECT_EQ(kept_memory({of_tensors}, {second}), 3 << 20);
  EXPECT_EQ(kept_memory({of_tensors}, {second + 512, free}), 7 << 20);
}

TEST(KeptMemory, ACpuHasNone) {
  EXPECT_EQ(kept_memory(at::Device(at::kCPU)), 0);
  EXPECT_EQ(PeakMemory(at::kCPU).bytes(), 0);
}

}  // namespace
}  // namespace rtfx
