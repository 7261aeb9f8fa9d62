// What computes an encoder.
#pragma once

#include "models/encoder/encoder.h"

namespace rtfx {

class EncoderImplementation {
 public:
  virtual ~EncoderImplementation() = default;
  /// As Encoder does.
  virtual Encoded operator()(const Features& features) const = 0;
  virtual int64_t rows(int64_t utterances, int64_t feature_frames,
                       const std::vector<int64_t>& host_lengths) const = 0;
};

}  // namespace rtfx
