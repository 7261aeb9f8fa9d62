// Non-linearities as kernels compute them, in float32.
#pragma once

#include <cmath>

#include "base/gpu/host_device.h"
#include "models/heads/activation.h"

namespace rtfx {

RTFX_DEVICE inline float relu(float x) { return x < 0 ? 0 : x; }  // a NaN stays a NaN

RTFX_DEVICE inline float sigmoid(float x) { return 1 / (1 + expf(-x)); }

RTFX_DEVICE inline float activate(Activation activation, float x) {
  switch (activation) {
    case Activation::relu:
      return relu(x);
    case Activation::tanh:
      return tanhf(x);
    default:
      return sigmoid(x);
  }
}

}  // namespace rtfx
