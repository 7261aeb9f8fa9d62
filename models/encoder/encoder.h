// The FastConformer / Conformer encoder (Rekesh et al. 2023; Gulati et al. 2020), inference only.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "models/checkpoint/checkpoint.h"
#include "models/encoder/features.h"

namespace rtfx {

struct Encoded {
  at::Tensor frames;   // [B, T', D] in the encoder's dtype; undefined beyond a row's length
  at::Tensor lengths;  // [B] int64, EncoderConfig::subsampled() of the feature frames
};

class Encoder {
 public:
  Encoder(const EncoderConfig& config, int64_t mel_bins, const StateDict& weights,
          at::Device device, at::ScalarType dtype);
  ~Encoder();
  Encoder(Encoder&&) noexcept;

  /// Masked by length at every place where padding could leak, so that a row's frames do not depend
  /// on its batch mates (up to the rounding of differently shaped products). Does not synchronise.
  Encoded operator()(const Features& features) const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace rtfx
