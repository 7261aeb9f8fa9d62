#include "models/dtypes.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"

namespace rtfx {
namespace {

constexpr std::array<std::pair<const char*, at::ScalarType>, 5> kNames = {{
    {"fp32", at::kFloat},
    {"bf16", at::kBFloat16},
    {"fp16", at::kHalf},
    {"fp8", at::kFloat8_e4m3fn},
    {"fp64", at::kDouble},
}};

at::ScalarType dtype_named(std::string_view name, std::string_view where) {
  for (const auto& [known, dtype] : kNames) {
    if (name == known) return dtype;
  }
  throw unknown_name(where, "dtype", name, dtype_names());
}

}  // namespace

std::string dtype_name(at::ScalarType dtype) {
  const auto* const found = std::ranges::find(kNames, dtype, [](auto& one) { return one.second; });
  RTFX_CHECK(found != kNames.end(), "a number type without a name");
  return found->first;
}

std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  for (const auto& [name, dtype] : kNames) names.emplace_back(name);
  return names;
}

std::string Dtypes::label() const {
  if (encoder == decoder) return dtype_name(encoder);
  if (encoder == at::kFloat8_e4m3fn && decoder == at::kBFloat16) return "fp8";
  return dtype_name(encoder) + "+" + dtype_name(decoder);
}

Dtypes parse_dtypes(std::string_view label, std::string_view where) {
  const size_t plus = label.find('+');
  Dtypes dtypes = dtype_named(label.substr(0, plus), where);
  if (plus != std::string_view::npos) dtypes.decoder = dtype_named(label.substr(plus + 1), where);
  if (plus == std::string_view::npos && label == "fp8") dtypes.decoder = at::kBFloat16;
  if (dtypes.decoder == at::kFloat8_e4m3fn) {
    throw UserError(where, "no decoder computes in fp8",
                    "fp8 alone has the encoder in fp8 and the decoder in bf16");
  }
  return dtypes;
}

}  // namespace rtfx
