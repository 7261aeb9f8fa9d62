// The interface of the encoder's implementations.
#pragma once

#include <cstdint>
#include <vector>

#include "models/encoder/encoded.h"
#include "models/encoder/feature_batch.h"

namespace rtfx {

class EncoderImplementation {
 public:
  virtual ~EncoderImplementation() = default;
  /// Computes what Encoder does.
  virtual Encoded operator()(const Features& features) const = 0;
  virtual int64_t rows(int64_t utterances, int64_t feature_frames,
                       const std::vector<int64_t>& host_lengths) const = 0;
};

}  // namespace rtfx
