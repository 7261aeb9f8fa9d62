// The score of what is impossible.
#pragma once

#include <limits>

namespace rtfx {

/// ln 0: of a slot without a hypothesis, of a label that must not be chosen.
inline constexpr float kLogZero = -std::numeric_limits<float>::infinity();

}  // namespace rtfx
