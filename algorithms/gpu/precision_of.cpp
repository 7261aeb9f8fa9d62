#include "algorithms/gpu/precision_of.h"

#include <fmt/format.h>

#include "base/error.h"

namespace rtfx {

Precision precision_of(c10::ScalarType dtype, std::string_view where) {
  switch (dtype) {
    case c10::kFloat:
      return Precision::fp32;
    case c10::kBFloat16:
      return Precision::bf16;
    case c10::kHalf:
      return Precision::fp16;
    default:
      throw UserError(where, fmt::format("has no kernels for {}", c10::toString(dtype)),
                      "use fp32, bf16 or fp16");
  }
}

}  // namespace rtfx
