// Tests which failures count as a lack of memory.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <new>
#include <stdexcept>

#include "speech/runtime/device.h"

namespace rtfx {
namespace {

FailureText failure_of(const std::function<void()>& work) {
  try {
    work();
  } catch (...) {
    return failure_text();
  }
  return {};
}

TEST(FailureText, AllocationsThatFailAreALackOfMemory) {
  constexpr int64_t kBytes = int64_t{1} << 50;  // more than a process can address
  for (const auto& failure : {
           failure_of([] { throw std::bad_alloc(); }),
           failure_of([] { at::empty({kBytes}, at::kByte); }),
           failure_of([] { TORCH_CHECK_WITH(OutOfMemoryError, false, "none left"); }),
       }) {
    EXPECT_TRUE(failure.out_of_memory) << failure.text;
    EXPECT_TRUE(failure.text.starts_with("out of memory: ")) << failure.text;
  }
}

TEST(FailureText, OtherErrorsKeepTheirText) {
  const FailureText failure = failure_of([] { throw std::runtime_error("wrong"); });
  EXPECT_EQ(failure.text, "wrong");
  EXPECT_FALSE(failure.out_of_memory);
  EXPECT_FALSE(failure_of([] { throw 3; }).out_of_memory);
}

}  // namespace
}  // namespace rtfx
