// A step of cache-aware streams by the kernels of the fused encoder.
#pragma once

#include "models/encoder/fused/fused_encoder.h"
#include "models/streaming/cached_encoder.h"

namespace rtfx {

/// The same computation as ReferenceCachedEncoder, with other roundings. Keys, values and what the
/// convolutions see are kept as rings, so that a step moves no frame of an earlier one.
class FusedCachedEncoder : public CachedEncoder {
 public:
  /// As make_cached_encoder() (make_cached_encoder.h), of a model whose encoder is fused.
  FusedCachedEncoder(std::shared_ptr<const AcousticModel> model, const EncoderConfig& context,
                     int64_t slots);

  at::Tensor operator()(const CachedStep& step) override;

 private:
  const FusedEncoder* encoder_;
  StreamRings rings_;
};

}  // namespace rtfx
