// The score of an impossible event.
#pragma once

#include <limits>

namespace rtfx {

/// ln 0: the score of a slot without a hypothesis, and of a label that must not be chosen.
inline constexpr float kLogZero = -std::numeric_limits<float>::infinity();

}  // namespace rtfx
