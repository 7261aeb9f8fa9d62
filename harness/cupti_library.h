// libcupti as a library that may be missing: its functions, looked up by name.
#pragma once

#include <cupti.h>

#include <string>

namespace rtfx {

// The functions that are used, without their prefix "cupti".
#define RTFX_CUPTI_FUNCTIONS(X)                                                             \
  X(GetVersion)                                                                             \
  X(GetResultString)                                                                        \
  X(Subscribe)                                                                              \
  X(Unsubscribe)                                                                            \
  X(GetTimestamp)                                                                           \
  X(GetCallbackName) X(ActivityRegisterCallbacks) X(ActivitySetAttribute) X(ActivityEnable) \
      X(ActivityDisable) X(ActivityEnableDeviceGraph) X(ActivityEnableDriverApi)            \
          X(ActivityEnableRuntimeApi) X(ActivityFlushAll) X(ActivityGetNextRecord)          \
              X(ActivityGetNumDroppedRecords)

struct CuptiLibrary {
#define RTFX_DECLARE(name) decltype(&::cupti##name) name = nullptr;
  RTFX_CUPTI_FUNCTIONS(RTFX_DECLARE)
#undef RTFX_DECLARE
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
