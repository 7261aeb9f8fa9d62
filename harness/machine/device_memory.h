// The GPU memory that stays in use, and the peak that some work needs.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <set>
#include <vector>

namespace rtfx {

/// Bytes of a device that LibTorch's allocator cannot give to anyone else: tensors, and of recorded
/// CUDA graphs all the memory that they work in. Without what cuBLAS keeps to work in, which
/// belongs to no one: whoever multiplies first on a stream would seem to take it. (It is left where
/// it is: graphs that others recorded, NeMo's, go on working in it.) Waits for the device and gives
/// unused memory back to it, so it is for outside of timed work. 0 on the CPU.
int64_t kept_memory(at::Device device);

/// The kept bytes of a device's segments of memory, without the blocks that begin at `nobodys`.
int64_t kept_memory(const std::vector<c10::CachingDeviceAllocator::SegmentInfo>& segments,
                    const std::set<size_t>& nobodys = {});

/// The most that is allocated on a device from now on, beyond what is already, by LibTorch and what
/// uses its allocator; what cuBLAS keeps to work in on this stream counts as there. 0 on the CPU.
class PeakMemory {
 public:
  explicit PeakMemory(at::Device device);
  int64_t bytes() const;

 private:
  at::Device device_;
  int64_t before_ = 0;
};

}  // namespace rtfx
