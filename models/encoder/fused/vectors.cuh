// Loads and stores eight (or four) elements at a time, as float32 in registers.
#pragma once

#include <cuda_fp8.h>

#include <cstdint>
#include <type_traits>

#include "base/gpu/mma.cuh"

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
  const auto* const pairs = reinterpret_cast<const uint32_t*>(&bytes);
#pragma unroll
  for (int i = 0; i < kCount; i += 2) {
    if constexpr (std::is_same_v<T, __nv_bfloat16>) {
      // A bfloat16 is the upper half of a float32, so that each takes one instruction.
      values[i] = __uint_as_float(pairs[i / 2] << 16);
      values[i + 1] = __uint_as_float(pairs[i / 2] & 0xffff0000U);
    } else {
      const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(pairs + i / 2));
      values[i] = pair.x, values[i + 1] = pair.y;
    }
  }
}

/// Rounds the values to the nearest elements and returns their bytes. Pairs are converted together,
/// which takes a fraction of the time of two conversions.
template <class T, int kCount>
__device__ typename BytesOf<kCount>::Type pack_vector(const float (&values)[kCount]) {
  static_assert(sizeof(T) == 2);
  typename BytesOf<kCount>::Type bytes;
  auto* const pairs = reinterpret_cast<uint32_t*>(&bytes);
#pragma unroll
  for (int i = 0; i < kCount; i += 2) pairs[i / 2] = pack_pair(values[i], values[i + 1], T());
  return bytes;
}

/// Rounds the values to T.
template <class T, int kCount>
__device__ void round_vector(float (&values)[kCount]) {
  unpack_vector<T>(values, pack_vector<T>(values));
}

/// `from` must be aligned to the size of all its elements.
template <int kCount, class T>
__device__ void load_vector(float (&values)[kCount], const T* from) {
  unpack_vector<T>(values, *reinterpret_cast<const typename BytesOf<kCount>::Type*>(from));
}

template <int kCount, class T>
__device__ void store_vector(T* to, const float (&values)[kCount]) {
  *reinterpret_cast<typename BytesOf<kCount>::Type*>(to) = pack_vector<T>(values);
}

/// Stores values * factor, saturated.
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
