// A language model's arrays as plain pointers: for kernels, which get it by value.
#pragma once

#include <cstdint>

namespace rtfx {

/// See NgramArrays. The memory belongs to an NgramLm, which must outlive the view.
struct NgramView {
  const int32_t* arc_to;
  const int32_t* arc_label;
  const float* arc_weight;
  const int32_t* state_arcs;  // 2 per state
  const int32_t* backoff_to;
  const float* backoff_weight;
  int32_t vocabulary;
};

}  // namespace rtfx
