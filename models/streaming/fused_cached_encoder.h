// A step of cache-aware streams by the kernels of the fused encoder.
#pragma once

#include "models/encoder/fused/fused_encoder.h"
#include "models/streaming/cached_encoder.h"

namespace rtfx {

/// Computes what ReferenceCachedEncoder does, with other roundings. Keys, values and the inputs of
/// convolutions are kept in rings, so that a step moves no frame of an earlier one.
class FusedCachedEncoder : public CachedEncoder {
 public:
  /// Takes the arguments of make_cached_encoder(). The model's encoder must be fused.
  FusedCachedEncoder(std::shared_ptr<const AcousticModel> model, const EncoderConfig& context,
                     int64_t slots);

  at::Tensor operator()(const CachedStep& step) override;

 private:
  const FusedEncoder* encoder_;
  StreamRings rings_;
};

}  // namespace rtfx
