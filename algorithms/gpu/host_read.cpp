#include "algorithms/gpu/host_read.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAEvent.h>

#include "algorithms/gpu/sync_debug.h"
#include "base/nvtx.h"

namespace rtfx {

bool HostReads::any(const at::Tensor& flags) {
  const AllowSync allow;
  const ScopedRange range(RangeName::host_read, ++count_);
  return flags.any().item<bool>();
}

int64_t HostReads::integer(const at::Tensor& value) {
  const AllowSync allow;
  const ScopedRange range(RangeName::host_read, ++count_);
  return value.item<int64_t>();
}

void HostReads::copy(const at::Tensor& from, const at::Tensor& to) {
  const AllowSync allow;
  const ScopedRange range(RangeName::host_read, ++count_);
  to.copy_(from);
}

void HostReads::wait(const c10::cuda::CUDAEvent& event) {
  const AllowSync allow;
  const ScopedRange range(RangeName::host_read, ++count_);
  event.synchronize();
}

at::Tensor HostReads::values(const at::Tensor& values) {
  const AllowSync allow;
  const ScopedRange range(RangeName::host_read, ++count_);
  return values.to(at::kCPU);
}

}  // namespace rtfx
