// The largest values of rows, with a rule for equal ones.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace rtfx {

struct TopK {
  at::Tensor values;   // [..., k] float32, best first
  at::Tensor indices;  // [..., k] int64
};

/// The k largest along the last dimension; among equal values the lowest index comes first, which
/// at::topk leaves open. values [..., n] float32 without NaN (where there is one the indices are
/// still valid), n >= k. Does not wait for the device; can be recorded into a graph.
TopK top_k(const at::Tensor& values, int64_t k);

}  // namespace rtfx
