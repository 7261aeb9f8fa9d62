// The number types of a model in use: one for its encoder, one for its heads and decoders.
#pragma once

#include <c10/core/ScalarType.h>

#include <string>
#include <string_view>
#include <vector>

namespace rtfx {

struct Dtypes {
  /// Uses one type for encoder and decoder.
  Dtypes(at::ScalarType both) : encoder(both), decoder(both) {}  // NOLINT: a number type is one
  Dtypes(at::ScalarType of_encoder, at::ScalarType of_decoder)
      : encoder(of_encoder), decoder(of_decoder) {}

  at::ScalarType encoder, decoder;

  /// Returns the name that case names use. It is "bf16" where both are bf16, and "fp8" for an
  /// encoder in fp8 (e4m3) with a decoder in bf16. Any other pair is named like "bf16+fp32", the
  /// encoder's dtype first.
  std::string label() const;
};

/// Returns the types that a label names. Throws UserError at `where`, also for a decoder in fp8.
Dtypes parse_dtypes(std::string_view label, std::string_view where);

/// Returns "fp32", "bf16", "fp16", "fp8" or "fp64".
std::string dtype_name(at::ScalarType dtype);

/// Returns the names that dtype_name() has, in the order in which help and errors list them.
std::vector<std::string> dtype_names();

}  // namespace rtfx
