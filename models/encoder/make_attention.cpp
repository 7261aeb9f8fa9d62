#include "models/encoder/make_attention.h"

#include "models/encoder/global_attention.h"

namespace rtfx {

std::unique_ptr<const Attention> make_attention(const EncoderConfig& config,
                                                const WeightReader& reader) {
  if (config.positions == EncoderConfig::Positions::absolute)
    return std::make_unique<Attention>(config, reader);
  if (config.global_tokens > 0) return std::make_unique<GlobalAttention>(config, reader);
  return std::make_unique<RelativeAttention>(config, reader);
}

}  // namespace rtfx
