// The memory of the device, and the CUPTI library of this machine.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>
#include <cupti.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace rtfx {

// The GPU memory that stays in use, and the peak that some work needs.

/// Bytes of a device that LibTorch's allocator cannot give to anyone else: tensors, and of recorded
/// CUDA graphs all the memory that they work in. Without what cuBLAS keeps to work in, which
/// belongs to no one: whoever multiplies first on a stream would seem to take it. (It is left where
/// it is: graphs that others recorded, NeMo's, go on working in it.) Waits for the device and gives
/// unused memory back to it, so it is for outside of timed work. 0 on the CPU.
int64_t kept_memory(at::Device device);

/// The kept bytes of a device's segments of memory, without the blocks that begin at `nobodys`.
int64_t kept_memory(const std::vector<c10::CachingDeviceAllocator::SegmentInfo>& segments,
                    const std::set<size_t>& nobodys = {});

/// Measures the most memory that LibTorch, and what uses its allocator, takes on a device from now
/// on, beyond what is taken already. The memory that cuBLAS keeps to work in on this stream counts
/// as taken already. 0 on the CPU.
class PeakMemory {
 public:
  explicit PeakMemory(at::Device device);
  int64_t bytes() const;

 private:
  at::Device device_;
  int64_t before_ = 0;
};

// libcupti as a library that may be missing: its functions, looked up by name.

/// The functions that are used, by their names without the prefix; null until load().
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

  /// Looks for libcupti.so.13 where the loader finds it, beside the CUDA runtime (a wheel of
  /// LibTorch) and in /usr/local/cuda. False, with a line in `problem`, where it is missing or
  /// lacks a function.
  bool load(std::string& problem);

  /// "CUPTI_ERROR_NOT_INITIALIZED (15)"
  std::string text(CUptiResult result) const;
};

}  // namespace rtfx
