// A layer of the fused encoder.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/config.h"
#include "models/encoder/fused/batch_rows.h"
#include "models/encoder/fused/linear.h"

namespace rtfx {

/// Each layer has the projected positions of this many frames ready (82 s of audio at 8x
/// sub-sampling). Positions for longer batches are computed for each batch.
constexpr int64_t kReadyPositions = 1024;

/// Memory that the layers of a batch use one after the other.
struct LayerMemory {
  LayerMemory(const EncoderConfig& config, const at::Tensor& frames, bool eight_bits);

  LinearInput normed;  // [rows, d]
  at::Tensor wide;     // [rows, expansion d]: inside the feed-forward layers; also [rows, 3 d] of
                       // attention, [rows, 2 d] of the convolution
  LinearInput activated;  // [rows, expansion d]
  at::Tensor mixed;       // [rows, d]: contexts of attention, output of the convolution

  at::Tensor sums;       // [kParts, rows, d] float32: parts of a product; undefined at first
  ProductParts pending;  // what the next norm adds to the frames; null sums = nothing
};

class FusedLayer {
 public:
  FusedLayer(const EncoderConfig& config, const WeightReader& reader, bool eight_bits);

  /// Writes the norm before the layer, of frames [rows, d], to memory.normed.
  void begin(const at::Tensor& frames, LayerMemory& memory) const;
  /// Computes the layer except for its last norm. The result is added to `frames` here or in end().
  /// memory.normed must be as begin() leaves it. `positions` are relative_positions() or
  /// local_positions() of the batch's frames, if these are more than kReadyPositions. `rings` are
  /// those of a step of streams, and null for whole utterances.
  void operator()(const at::Tensor& frames, LayerMemory& memory, const BatchRows& batch,
                  const at::Tensor& positions, const LayerRings* rings) const;
  /// Computes the last norm, and the first norm of the next layer.
  void end(const at::Tensor& frames, LayerMemory& memory, const FusedLayer& next) const;
  /// Computes the last norm of the last layer. Returns a padded batch [B, T', d].
  at::Tensor end(const at::Tensor& frames, LayerMemory& memory, const BatchRows& batch) const;

 private:
  struct Norm {
    Norm(const WeightReader& layer, const std::string& name);
    NormWeights weights() const { return {weight.const_data_ptr(), bias.const_data_ptr()}; }
    at::Tensor weight, bias;
  };
  struct FeedForward {
    FeedForward(const WeightReader& reader, bool eight_bits);
    Linear first, second;  // the output of the second is multiplied by 1/2
  };

  void norm(const at::Tensor& frames, const Norm& norm, LayerMemory& memory) const;
  /// Adds map(x) to the frames, or leaves its parts for the next norm to add.
  void add(const Linear& map, const at::Tensor& x, const at::Tensor& frames,
           LayerMemory& memory) const;
  void feed_forward(const at::Tensor& frames, const FeedForward& map, LayerMemory& memory) const;
  void attention(const at::Tensor& frames, LayerMemory& memory, const BatchRows& batch,
                 const at::Tensor& positions, const LayerRings* rings) const;
  void convolution(const at::Tensor& frames, LayerMemory& memory, const BatchRows& batch,
                   const LayerRings* rings) const;

  EncoderConfig config_;
  Precision precision_;
  Norm norm_feed_forward1_, norm_attention_, norm_convolution_, norm_feed_forward2_, norm_out_;
  FeedForward feed_forward1_, feed_forward2_;
  Linear qkv_, attention_out_, pointwise1_, pointwise2_;
  at::Tensor position_weight_, ready_positions_, bias_u_, bias_v_;
  at::Tensor depthwise_, depthwise_bias_;  // [K, d], [d] float32
  at::Tensor channel_norm_weight_, channel_norm_bias_;
  int64_t left_;
};

}  // namespace rtfx
