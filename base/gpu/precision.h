// The element types of kernels, and their values as float32. Kernels include this file, so it does
// not include LibTorch.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "base/gpu/host_device.h"

namespace rtfx {

enum class Precision { fp32, bf16, fp16 };

RTFX_DEVICE inline float to_float(float x) { return x; }
RTFX_DEVICE inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
RTFX_DEVICE inline float to_float(__half x) { return __half2float(x); }

/// Rounds to the nearest T, or to the even one where two are equally near.
template <class T>
RTFX_DEVICE T from_float(float x) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(x);
  } else if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(x);
  } else {
    return x;
  }
}

/// Returns the value that a tensor of type T would hold.
template <class T>
RTFX_DEVICE float rounded(float x) {
  return to_float(from_float<T>(x));
}

/// Returns work(T()) for the element type T of `precision`. Kernels call it once for many elements.
/// If each load had a switch of its own, each would wait for the load before it.
#ifdef __CUDACC__
#pragma nv_exec_check_disable
#endif
template <class Work>
RTFX_HOST_DEVICE auto with_type(Precision precision, const Work& work) {
  switch (precision) {
    case Precision::bf16:
      return work(__nv_bfloat16());
    case Precision::fp16:
      return work(__half());
    default:
      return work(float());
  }
}

}  // namespace rtfx
