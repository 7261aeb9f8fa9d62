// A tensor's dtype as the kernels' element type.
#pragma once

#include <c10/core/ScalarType.h>

#include <string_view>

#include "base/gpu/precision.h"

namespace rtfx {

/// Throws UserError with `where` for a dtype other than float32, bfloat16 and float16.
Precision precision_of(c10::ScalarType dtype, std::string_view where);

}  // namespace rtfx
