// A layer of the fused encoder.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/config.h"
#include "models/encoder/fused/batch_rows.h"
#include "models/encoder/fused/linear.h"

namespace rtfx {

/// Positions of so many frames are ready for every layer (82 s of audio at 8x sub-sampling); those
/// of longer batches are made for each.
constexpr int64_t kReadyPositions = 1024;

/// Memory that the layers of a batch use one after the other.
struct LayerMemory {
  LayerMemory(const EncoderConfig& config, const at::Tensor& frames, bool eight_bits);

  LinearInput normed;  // [rows, d]
  at::Tensor wide;     // [rows, expansion d]: inside the feed-forward layers; also [rows, 3 d] of
                       // attention, [rows, 2 d] of the convolution
  LinearInput activated;  // [rows, expansion d]
  at::Tensor mixed;       // [rows, d]: contexts of attention, output of the convolution

  at::Tensor sums;  // [kParts, rows, d] float32: a product in parts; undefined before the first
  ProductParts pending;  // what the next norm has to add to the frames; null sums for nothing
};

class FusedLayer {
 public:
  FusedLayer(const EncoderConfig& config, const WeightReader& reader, bool eight_bits);

  /// The norm before the layer, of frames [rows, d], into memory.normed.
  void begin(const at::Tensor& frames, LayerMemory& memory) const;
  /// The layer but for its last norm, added to `frames` here or in end(); memory.normed is as
  /// begin() leaves it. `positions`: relative_positions() or local_positions() of the batch's
  /// frames where these are more than kReadyPositions. `rings`: of a step of streams, null for
  /// whole utterances.
  void operator()(const at::Tensor& frames, LayerMemory& memory, const BatchRows& batch,
                  const at::Tensor& positions, const LayerRings* rings) const;
  /// The last norm, and the first of the next layer.
  void end(const at::Tensor& frames, LayerMemory& memory, const FusedLayer& next) const;
  /// The last norm of the last layer, into padded [B, T', d].
  at::Tensor end(const at::Tensor& frames, LayerMemory& memory, const BatchRows& batch) const;

 private:
  struct Norm {
    Norm(const WeightReader& layer, const std::string& name);
    NormWeights weights() const { return {weight.const_data_ptr(), bias.const_data_ptr()}; }
    at::Tensor weight, bias;
  };
  struct FeedForward {
    FeedForward(const WeightReader& reader, bool eight_bits);
    Linear first, second;  // the second times a half
  };

  void norm(const at::Tensor& frames, const Norm& norm, LayerMemory& memory) const;
  /// Adds map(x) to the frames, or leaves its parts to the next norm.
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
