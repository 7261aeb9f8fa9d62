// What a thread of LibTorch has of its own and a new one lacks.
#pragma once

#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>

namespace rtfx {

/// For as long as it lives, on the thread that made it.
struct ThreadSettings {
  explicit ThreadSettings(at::Device device) : guard(device) { at::init_num_threads(); }
  c10::InferenceMode inference;
  c10::OptionalDeviceGuard guard;
};

}  // namespace rtfx
