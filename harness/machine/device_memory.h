// Measures the memory of a device. Also finds the CUPTI library of this machine (CuptiLibrary).
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>
#include <cupti.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace rtfx {

// Memory that stays in use, and the peak memory of some work.

/// Returns the bytes of a device that LibTorch's allocator cannot give to anyone else. These are
/// tensors, and all memory that recorded CUDA graphs work in. The workspace of cuBLAS does not
/// count, since it would be charged to whichever decoder multiplies first on a stream. It is not
/// freed, because graphs that others recorded, such as NeMo's, work in it.
///
/// Waits for the device, and returns unused memory to it. So it must not be called during timed
/// work. Returns 0 on the CPU.
int64_t kept_memory(at::Device device);

/// Returns the kept bytes of a device's memory segments, without the blocks that begin at
/// `excluded_blocks`.
int64_t kept_memory(const std::vector<c10::CachingDeviceAllocator::SegmentInfo>& segments,
                    const std::set<size_t>& excluded_blocks = {});

/// Measures the peak of the memory that LibTorch's allocator takes on a device from construction
/// on, beyond the memory in use at that time. The workspace of cuBLAS on this stream counts as in
/// use. 0 on the CPU.
class PeakMemory {
 public:
  explicit PeakMemory(at::Device device);
  int64_t bytes() const;

 private:
  at::Device device_;
  int64_t before_ = 0;
};

// Loads libcupti, which may be missing, and looks up its functions by name.

/// The functions that rtfx uses, named without their prefix. They are null until load().
struct CuptiLibrary {
  decltype(&cuptiGetVersion) get_version = nullptr;
  decltype(&cuptiGetResultString) get_result_string = nullptr;
  decltype(&cuptiSubscribe) subscribe = nullptr;
  decltype(&cuptiUnsubscribe) unsubscribe = nullptr;
  decltype(&cuptiGetTimestamp) get_timestamp = nullptr;
  decltype(&cuptiGetCallbackName) get_callback_name = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) activity_register_callbacks = nullptr;
  decltype(&cuptiActivitySetAttribute) activity_set_attribute = nullptr;
  decltype(&cuptiActivityEnable) activity_enable = nullptr;
  decltype(&cuptiActivityDisable) activity_disable = nullptr;
  decltype(&cuptiActivityEnableDeviceGraph) activity_enable_device_graph = nullptr;
  decltype(&cuptiActivityEnableDriverApi) activity_enable_driver_api = nullptr;
  decltype(&cuptiActivityEnableRuntimeApi) activity_enable_runtime_api = nullptr;
  decltype(&cuptiActivityFlushAll) activity_flush_all = nullptr;
  decltype(&cuptiActivityGetNextRecord) activity_get_next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) activity_get_num_dropped_records = nullptr;

  std::string path;
  uint32_t version = 0;

  /// Looks for libcupti.so.13 in the loader's path, beside the CUDA runtime (a wheel of LibTorch),
  /// and in /usr/local/cuda. Returns false if it is missing or lacks a function; `problem` then
  /// says which.
  bool load(std::string& problem);

  /// Returns, for example, "CUPTI_ERROR_NOT_INITIALIZED (15)".
  std::string text(CUptiResult result) const;
};

}  // namespace rtfx
