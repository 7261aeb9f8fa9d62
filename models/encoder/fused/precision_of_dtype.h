// A tensor's dtype as the kernels' element type.
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include "base/gpu/precision.h"

namespace rtfx {

/// Returns the precision of bfloat16 or float16. Throws c10::Error for other types.
inline Precision precision_of_dtype(c10::ScalarType dtype) {
  TORCH_CHECK(dtype == c10::kBFloat16 || dtype == c10::kHalf, "no fused kernels for ", dtype);
  return dtype == c10::kBFloat16 ? Precision::bf16 : Precision::fp16;
}

}  // namespace rtfx
