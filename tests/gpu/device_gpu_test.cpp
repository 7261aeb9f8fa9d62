// What the harness says of a GPU's memory.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <gtest/gtest.h>

#include "harness/machine/device.h"

namespace rtfx {
namespace {

TEST(DeviceGpu, AllocationsAreWatched) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
  const at::Device device(at::kCUDA, 0);
  const auto bytes = at::TensorOptions(at::kByte).device(device);
  at::empty({int64_t{9} << 20}, bytes);  // gone, and before the watch
  at::Tensor old = at::empty({int64_t{1} << 20}, bytes);
  const AllocationWatch watch(device);
  EXPECT_EQ(watch.held(), 0);
  EXPECT_EQ(watch.peak(), 0);
  const at::Tensor kept = at::empty({int64_t{2} << 20}, bytes);
  at::empty({int64_t{4} << 20}, bytes);
  EXPECT_EQ(watch.held(), int64_t{2} << 20);
  EXPECT_EQ(watch.peak(), int64_t{6} << 20);
  old.reset();
  EXPECT_EQ(watch.held(), int64_t{1} << 20);
}

}  // namespace
}  // namespace rtfx
