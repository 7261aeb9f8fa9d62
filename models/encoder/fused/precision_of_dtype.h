// A tensor's dtype as the kernels' element type.
#pragma once

#include <c10/core/ScalarType.h>

#include "base/gpu/precision.h"

namespace rtfx {

/// The precision of bfloat16 and float16.
inline Precision precision_of_dtype(c10::ScalarType dtype) {
  return dtype == c10::kBFloat16 ? Precision::bf16 : Precision::fp16;
}

}  // namespace rtfx
