// NVTX ranges of the domain "rtfx". Free of cost without a profiler; needs no GPU.
#pragma once

#include <nvtx3/nvtx3.hpp>

namespace rtfx {

struct NvtxDomain {
  static constexpr char const* name{"rtfx"};
};

/// One named range on the calling thread, from construction to destruction. Names are the closed
/// vocabulary of regions (harness/regions.h) and decoder phases ("decode.project", "decode.loop").
using ScopedRange = nvtx3::scoped_range_in<NvtxDomain>;

}  // namespace rtfx
