// Names of devices and dtypes, and waiting for a device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace rtfx {

/// "auto" (cuda where there is one, else cpu), "cpu", "cuda" or "cuda:N". Throws UserError, also
/// when the GPU is not there.
at::Device parse_device(const std::string& name, const std::string& where);

/// "fp32", "bf16" or "fp16".
at::ScalarType parse_dtype(const std::string& name, const std::string& where);

/// Waits until the device has done everything enqueued; nothing to do on the CPU.
void synchronize(at::Device device);

/// Name of the GPU, or of the CPU.
std::string device_name(at::Device device);

/// What is allocated on a device from now on, by LibTorch and what uses its allocator (all of
/// rtfx's memory but for code and the CUDA graphs themselves). All 0 on the CPU.
class AllocationWatch {
 public:
  explicit AllocationWatch(at::Device device);
  int64_t held() const;  // bytes more than at the start; below 0 where some were given back
  int64_t peak() const;  // the most since then

 private:
  at::Device device_;
  int64_t before_ = 0;
};

/// "out of memory: ..." with a remedy for LibTorch's allocation errors, else e.what() without its
/// stack trace.
std::string describe_failure(const std::exception& e);

}  // namespace rtfx
