// libcupti as a library that may be missing: its functions, looked up by name.
#pragma once

#include <cupti.h>

#include <string>

namespace rtfx {

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
