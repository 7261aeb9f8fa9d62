// How the labels of a hypothesis move it in time. The kernels include this file, so it includes no
// LibTorch header.
#pragma once

#include <cstdint>

#include "base/gpu/host_device.h"

namespace rtfx {

/// How a label moves a hypothesis in time, and when it adds a token.
enum class AlignmentRule : uint8_t {
  ctc,        // every label moves one frame; a label that repeats the one before it is no new token
  rnnt,       // blank moves one frame, tokens none
  monotonic,  // every label moves one frame, and every token is new
  tdt,        // every label moves by its duration
};

/// Returns the frames that a token or blank moves. `duration` counts for TDT only.
RTFX_HOST_DEVICE constexpr int32_t frames_moved(AlignmentRule rule, bool is_blank,
                                                int32_t duration) {
  if (rule == AlignmentRule::tdt) return duration;
  return rule == AlignmentRule::rnnt && !is_blank ? 0 : 1;
}

}  // namespace rtfx
