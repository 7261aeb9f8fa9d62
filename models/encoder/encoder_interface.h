// The input and the output of an encoder, and the interface of its implementations.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace rtfx {

/// The fused encoder rounds its number of rows up to a multiple of this, so that batches that
/// differ little have the same size.
inline constexpr int64_t kPackedRowStep = 128;

struct Features {
  at::Tensor values;   // [B, M, T] float32; frames at or beyond a row's length are 0
  at::Tensor lengths;  // [B] int64: FeatureConfig::frames() of the row's samples
  /// The lengths again, where the host knows them, else empty. Without them, the host assumes the
  /// maximum for every row.
  std::vector<int64_t> host_lengths = {};
  /// The number of rows that the batch is computed as, at least Encoder::rows(). 0 means that
  /// number. Batches of the same shape with the same number of rows are the same work for the
  /// device.
  int64_t packed_rows = 0;
  /// [B] int64 on the device: the prompts of the rows. Where it is undefined,
  /// PromptConfig::standard holds, or the model takes no prompts.
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
  /// Encodes a batch as Encoder does, but does not condition the frames on prompts.
  virtual Encoded operator()(const Features& features) const = 0;
  virtual int64_t rows(int64_t utterances, int64_t feature_frames,
                       const std::vector<int64_t>& host_lengths) const = 0;
};

}  // namespace rtfx
