// LibTorch's settings of a thread, which a new thread lacks.
#pragma once

#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>

namespace rtfx {

/// Applies the settings to the thread that makes it, for as long as it lives.
struct ThreadSettings {
  explicit ThreadSettings(at::Device device) : guard(device) { at::init_num_threads(); }
  c10::InferenceMode inference;
  c10::OptionalDeviceGuard guard;
};

}  // namespace rtfx
