// The non-linearities of the networks, in float32 as kernels compute them. Kernels include this
// file, so it does not include LibTorch.
#pragma once

#include <cmath>

#include "base/gpu/host_device.h"

namespace rtfx {

/// The non-linearity between the two layers of a joint network.
enum class Activation { relu, tanh, sigmoid };

RTFX_DEVICE inline float relu(float x) { return x < 0 ? 0 : x; }  // a NaN stays a NaN

/// Returns 1 / (1 + exp(-x)) by expf and an IEEE division. Searches use it, since their scores are
/// compared with LibTorch's.
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

#ifdef __CUDACC__
/// Returns the sigmoid by a GPU's approximate instructions. The fused encoder uses it: it rounds
/// the result to 16 bits, which hides the error of a few units of float32. Both instructions take
/// subnormal numbers as zero, so no further instructions are needed to scale them. The result has
/// the bits of __fdividef(1, 1 + __expf(-x)): the sum is at least 1, and a power below 2^-126 does
/// not change it.
__device__ inline float fast_sigmoid(float x) {
  float power, inverse;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * -1.44269504f));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(1 + power));
  return inverse;
}

/// Returns x * sigmoid(x), likewise approximate.
__device__ inline float fast_silu(float x) { return x * fast_sigmoid(x); }
#endif

}  // namespace rtfx
