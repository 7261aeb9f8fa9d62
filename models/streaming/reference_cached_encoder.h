// A step of cache-aware streams by LibTorch's operators.
#pragma once

#include <vector>

#include "models/encoder/reference_encoder.h"
#include "models/streaming/cached_encoder.h"

namespace rtfx {

class ReferenceCachedEncoder : public CachedEncoder {
 public:
  /// Takes the arguments of make_cached_encoder(). The model's encoder must not be fused.
  ReferenceCachedEncoder(std::shared_ptr<const AcousticModel> model, const EncoderConfig& context,
                         int64_t slots);

  at::Tensor operator()(const CachedStep& step) override;
  void clear(int64_t slot) override;

 private:
  const ReferenceEncoder* encoder_;
  std::vector<at::Tensor> position_keys_;  // of each layer
  at::Tensor attention_;                   // [slots + 1, layers, 2, H, last_channel, dk]
  at::Tensor convolution_;                 // [slots + 1, layers, d, last_time]
};

}  // namespace rtfx
