// Eight (or four) elements at a time, as float32 in registers.
#pragma once

#include <cuda_fp8.h>

#include <cstdint>

#include "base/gpu/precision.h"

namespace rtfx {

template <int kCount>
struct BytesOf;
template <>
struct BytesOf<8> {
  using Type = uint4;
};
template <>
struct BytesOf<4> {
  using Type = uint2;
};

template <class T, int kCount>
__device__ void unpack_vector(float (&values)[kCount], typename BytesOf<kCount>::Type bytes) {
  static_assert(sizeof(T) == 2);
  const T* const elements = reinterpret_cast<const T*>(&bytes);
#pragma unroll
  for (int i = 0; i < kCount; ++i) values[i] = to_float(elements[i]);
}

/// `from` is aligned to all elements.
template <int kCount, class T>
__device__ void load_vector(float (&values)[kCount], const T* from) {
  unpack_vector<T>(values, *reinterpret_cast<const typename BytesOf<kCount>::Type*>(from));
}

template <int kCount, class T>
__device__ void store_vector(T* to, const float (&values)[kCount]) {
  static_assert(sizeof(T) == 2);
  typename BytesOf<kCount>::Type bytes;
  T* const elements = reinterpret_cast<T*>(&bytes);
#pragma unroll
  for (int i = 0; i < kCount; ++i) elements[i] = from_float<T>(values[i]);
  *reinterpret_cast<typename BytesOf<kCount>::Type*>(to) = bytes;
}

/// values * factor, saturated.
__device__ inline void store_e4m3(__nv_fp8_storage_t* to, const float (&values)[8], float factor) {
  uint2 bytes;
  auto* const pairs = reinterpret_cast<__nv_fp8x2_storage_t*>(&bytes);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    pairs[i] = __nv_cvt_float2_to_fp8x2(
        make_float2(values[2 * i] * factor, values[2 * i + 1] * factor), __NV_SATFINITE, __NV_E4M3);
  }
  *reinterpret_cast<uint2*>(to) = bytes;
}

}  // namespace rtfx
