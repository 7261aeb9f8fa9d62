#include "models/checkpoint/precision_of.h"

#include <fmt/format.h>

#include "base/error.h"

namespace rtfx {
namespace {

[[noreturn]] void refuse(c10::ScalarType dtype, std::string_view where, const char* remedy) {
  throw UserError(where, fmt::format("has no kernels for {}", c10::toString(dtype)), remedy);
}

}  // namespace

Precision precision_of(c10::ScalarType dtype, std::string_view where) {
  switch (dtype) {
    case c10::kFloat:
      return Precision::fp32;
    case c10::kBFloat16:
      return Precision::bf16;
    case c10::kHalf:
      return Precision::fp16;
    default:
      refuse(dtype, where, "use fp32, bf16 or fp16");
  }
}

Precision half_precision_of(c10::ScalarType dtype, std::string_view where) {
  if (dtype != c10::kBFloat16 && dtype != c10::kHalf) refuse(dtype, where, "use bf16 or fp16");
  return precision_of(dtype, where);
}

}  // namespace rtfx
