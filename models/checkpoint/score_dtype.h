// The number type of log-probabilities and of angles, which may differ from that of the weights.
#pragma once

#include <c10/core/ScalarType.h>

namespace rtfx {

/// Returns float64 for a model in fp64, which only CPUs compute, and float32 for all others.
inline c10::ScalarType score_dtype(c10::ScalarType dtype) {
  return dtype == c10::kDouble ? c10::kDouble : c10::kFloat;
}

}  // namespace rtfx
