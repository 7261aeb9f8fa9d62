// Features of a batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace rtfx {

struct Features {
  at::Tensor values;   // [B, M, T] float32; frames at or beyond a row's length are 0
  at::Tensor lengths;  // [B] int64, FeatureConfig::frames() of its samples
  /// The lengths once more where the host knows them, else empty: what it does not know it has to
  /// reckon with at the most.
  std::vector<int64_t> host_lengths = {};
};

}  // namespace rtfx
