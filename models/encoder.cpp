#include "models/encoder.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <vector>

#include "models/conformer_layer.h"
#include "models/subsampling.h"

namespace rtfx {

struct Encoder::Implementation {
  Subsampling subsampling;
  std::vector<ConformerLayer> layers;
};

Encoder::Encoder(const EncoderConfig& config, int64_t mel_bins, const StateDict& weights,
                 at::Device device, at::ScalarType dtype) {
  const WeightReader reader(weights, "encoder.", device, dtype);
  implementation_ = std::make_unique<Implementation>(
      Implementation{Subsampling(config, mel_bins, reader.below("pre_encode")), {}});
  for (int64_t i = 0; i < config.layers; ++i) {
    implementation_->layers.emplace_back(config, reader.below(fmt::format("layers.{}", i)));
  }
}

Encoder::~Encoder() = default;
Encoder::Encoder(Encoder&&) noexcept = default;

Encoded Encoder::operator()(const Features& features) const {
  auto [x, lengths] = implementation_->subsampling(features);
  const at::Tensor key_mask = frame_mask(lengths, x.size(1));
  const at::Tensor mask = key_mask.unsqueeze(-1).to(x.scalar_type());
  const at::Tensor positions = relative_positions(x.size(1), x.size(2), x.options());
  for (const ConformerLayer& layer : implementation_->layers)
    x = layer(x, key_mask, mask, positions);
  return {x, lengths};
}

}  // namespace rtfx
