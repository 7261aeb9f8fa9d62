// Tests that cuFFT's plans are made on the default stream, once for each size.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "models/encoder/transform_plans.h"

namespace rtfx {
namespace {

TEST(TransformPlansGpu, AreMadeOnTheDefaultStreamOnceForEachSize) {
  if (c10::cuda::device_count() == 0) GTEST_SKIP() << "no GPU";
  const at::Device device(at::kCUDA, 0);
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
  const c10::cuda::CUDAStream own = c10::cuda::getCurrentCUDAStream();
  ASSERT_NE(own, c10::cuda::getDefaultCUDAStream());
  TransformPlans plans;
  std::vector<c10::cuda::CUDAStream> streams;
  const auto transform = [&] { streams.push_back(c10::cuda::getCurrentCUDAStream()); };
  for (const auto& [length, count] : {std::pair{512, 7}, {512, 8}, {400, 7}, {512, 7}, {400, 7}})
    plans.make(device, length, count, transform);
  EXPECT_EQ(streams, std::vector(3, c10::cuda::getDefaultCUDAStream()));
  EXPECT_EQ(c10::cuda::getCurrentCUDAStream(), own);
}

TEST(TransformPlansGpu, APlanThatFailedIsMadeAgain) {
  if (c10::cuda::device_count() == 0) GTEST_SKIP() << "no GPU";
  const at::Device device(at::kCUDA, 0);
  TransformPlans plans;
  int made = 0;
  EXPECT_THROW(plans.make(device, 512, 7, [] { throw std::runtime_error("out of memory"); }),
               std::runtime_error);
  for (int call = 0; call < 2; ++call) plans.make(device, 512, 7, [&] { ++made; });
  EXPECT_EQ(made, 1);
}

}  // namespace
}  // namespace rtfx
