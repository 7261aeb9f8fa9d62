#include "models/encoder/fused/stream_rings.h"

#include <ATen/ATen.h>

#include "models/checkpoint/tensor_data.h"

namespace rtfx {

StreamRings::StreamRings(const EncoderConfig& config, int64_t streams, int64_t frames,
                         const at::TensorOptions& options)
    : keys_values(at::zeros(
          {config.layers, streams, config.left_context + frames, 2 * config.width}, options)),
      gated(at::zeros({config.layers, streams, config.conv_kernel - 1 + frames, config.width},
                      options)),
      frames(frames) {}

LayerRings StreamRings::layer(int64_t index, const at::Tensor& slots,
                              const at::Tensor& encoded) const {
  const at::Tensor attention = keys_values[index], convolution = gated[index];
  return {attention.mutable_data_ptr(),
          convolution.mutable_data_ptr(),
          data_of<int64_t>(slots),
          data_of<int64_t>(encoded),
          static_cast<int32_t>(attention.size(1) - frames),
          static_cast<int32_t>(convolution.size(1) - frames),
          static_cast<int32_t>(frames)};
}

}  // namespace rtfx
