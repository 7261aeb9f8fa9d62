// The input and the output of an encoder, and the interface of its implementations.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace rtfx {

struct Features {
  at::Tensor values;   // [B, M, T] float32; frames at or beyond a row's length are 0
  at::Tensor lengths;  // [B] int64, FeatureConfig::frames() of its samples
  /// The lengths once more where the host knows them, else empty: what it does not know it has to
  /// reckon with at the most.
  std::vector<int64_t> host_lengths = {};
  /// The rows that the batch is computed as, at least Encoder::rows(); 0: that number. Batches of
  /// the same shape and as many rows are the same work for the device.
  int64_t packed_rows = 0;
  /// [B] int64 on the device, the rows' prompts; undefined: PromptConfig::standard, or the model
  /// takes none.
  at::Tensor prompts = {};
};

struct Encoded {
  at::Tensor frames;   // [B, T', D] in the encoder's dtype; undefined beyond a row's length
  at::Tensor lengths;  // [B] int64, EncoderConfig::subsampled() of the feature frames
};

/// Computes an Encoder's output. ReferenceEncoder and FusedEncoder implement it.
class EncoderImplementation {
 public:
  virtual ~EncoderImplementation() = default;
  /// Computes what Encoder does.
  virtual Encoded operator()(const Features& features) const = 0;
  virtual int64_t rows(int64_t utterances, int64_t feature_frames,
                       const std::vector<int64_t>& host_lengths) const = 0;
};

}  // namespace rtfx
