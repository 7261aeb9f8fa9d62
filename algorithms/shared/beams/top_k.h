// The largest values of rows, with a rule for equal ones.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace rtfx {

struct TopK {
  at::Tensor values;   // [..., k] of the dtype of the input, best first
  at::Tensor indices;  // [..., k] int64
};

/// Returns the k largest values along the last dimension. Among equal values the lowest index comes
/// first, which at::topk leaves open. values [..., n] float32 or float64, n >= k; NaN is the
/// greatest value. On a GPU the call does not wait for the device and can be recorded into a graph.
TopK top_k(const at::Tensor& values, int64_t k);

}  // namespace rtfx
