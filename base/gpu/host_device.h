// CUDA's keywords for code that runs on both devices. A compiler without CUDA sees plain C++.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define RTFX_DEVICE __device__
#define RTFX_HOST_DEVICE __host__ __device__
#define RTFX_UNROLL _Pragma("unroll")
#define RTFX_ROLLED _Pragma("unroll 1")
#else
#define RTFX_DEVICE
#define RTFX_HOST_DEVICE
#define RTFX_UNROLL
#define RTFX_ROLLED
#endif

namespace rtfx {

/// Threads of a warp: they run together and may exchange registers. A lane is a thread's number in
/// its warp.
inline constexpr int32_t kWarpSize = 32;

}  // namespace rtfx
