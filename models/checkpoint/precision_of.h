// Maps the dtype of a tensor to the element type of kernels.
#pragma once

#include <c10/core/ScalarType.h>

#include <string_view>

#include "base/gpu/precision.h"

namespace rtfx {

/// Returns the type for kernels. Throws UserError with `where` for a dtype other than float32,
/// bfloat16 and float16.
Precision precision_of(c10::ScalarType dtype, std::string_view where);

/// Returns the type for kernels whose elements have two bytes. Throws UserError with `where` for a
/// dtype other than bfloat16 and float16.
Precision half_precision_of(c10::ScalarType dtype, std::string_view where);

}  // namespace rtfx
