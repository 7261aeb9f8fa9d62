// Sub-sampling of feature frames to encoder frames, by strided convolutions or by stacking, and the
// later reduction of encoder frames.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <variant>
#include <vector>

#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/config.h"
#include "models/encoder/features.h"

namespace rtfx {

/// dw_striding (FastConformer) and striding, each also causal.
class Subsampling {
 public:
  Subsampling(const EncoderConfig& config, int64_t mel_bins, const WeightReader& pre_encode);

  struct Output {
    at::Tensor frames;   // [B, T', d]
    at::Tensor lengths;  // [B] int64
  };

  /// features [B, M, T] float32 -> [B, convolved(T), d] in the weights' dtype, scaled by sqrt(d)
  /// where the model asks for it. Padding is zeroed before every convolution.
  Output operator()(const Features& features) const;
  /// A part of longer utterances, [B, M, T] -> [B, convolved(T), d]. Row b is frames [begin[b],
  /// end[b]) of it ([B] int64); what lies before or behind them is treated as a whole utterance's
  /// padding is. A row that goes on before its part begins at 0: its first frames are wrong, as far
  /// as kernels reach back. begin is a multiple of the factor, the convolutions are causal.
  at::Tensor part(const at::Tensor& values, const at::Tensor& begin, const at::Tensor& end) const;
  /// EncoderConfig::subsampled() on the device.
  at::Tensor subsampled(const at::Tensor& lengths) const;

 private:
  struct Convolution {
    at::Tensor weight, bias;
    int64_t stride = 2, groups = 1;
    bool relu = true;  // none between a depthwise convolution and its pointwise one
  };

  /// begin: undefined where all rows begin at 0.
  at::Tensor convolve(at::Tensor image, at::Tensor begin, const at::Tensor& lengths) const;
  at::Tensor flattened(const at::Tensor& image) const;
  at::Tensor halved(const at::Tensor& lengths) const;

  std::vector<Convolution> convolutions_;
  at::Tensor out_weight_, out_bias_;
  bool causal_;
  int64_t largest_image_;  // elements of the first convolution's output per feature frame
};

/// `factor` frames side by side, layer norm of each where the model has one, and a linear map.
class Stacking {
 public:
  Stacking(const EncoderConfig& config, const WeightReader& encoder);

  /// features [B, M, T] float32 -> [B, max(1, floor(T / factor)), d], as Subsampling does.
  Subsampling::Output operator()(const Features& features) const;
  at::Tensor subsampled(const at::Tensor& lengths) const;

 private:
  int64_t factor_;
  at::Tensor norm_weight_, norm_bias_, out_weight_, out_bias_;
};

using FrontEnd = std::variant<Subsampling, Stacking>;

/// `encoder`: the weights below "encoder.".
FrontEnd make_front_end(const EncoderConfig& config, int64_t mel_bins, const WeightReader& encoder);

/// [B, T] bool: true for frames below the row's length.
at::Tensor frame_mask(const at::Tensor& lengths, int64_t frames);

/// Reduces frames once more between two layers, or behind the last: NeMo's
/// SubsamplingReductionModule.
class Reduction {
 public:
  /// `encoder`: the weights below "encoder.".
  Reduction(const EncoderConfig& config, const WeightReader& encoder);

  /// frames [B, T', d], lengths [B] -> [B, T' / factor, d] (at least one frame) and
  /// EncoderConfig::reduced(). Pooling takes the greatest of each channel and drops an incomplete
  /// last group of frames; what is longer by NeMo's lengths lies beyond a row's end.
  Subsampling::Output operator()(const at::Tensor& frames, const at::Tensor& lengths) const;

 private:
  int64_t factor_;
  std::optional<Subsampling> convolutions_;  // or pooling
};

}  // namespace rtfx
