// Small numbers that keep divisions finite. This header has no LibTorch, because kernels include
// it.
#pragma once

namespace rtfx {

/// Is added to the variance in an encoder's norms. It is PyTorch's default, which NeMo keeps.
inline constexpr double kNormEpsilon = 1e-5;

/// Is added to the deviation by which features are normalised, as in NeMo.
inline constexpr double kDeviationGuard = 1e-5;

}  // namespace rtfx
