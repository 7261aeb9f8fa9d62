// Computes the rows of the fused encoder from features.
#pragma once

#include <optional>
#include <vector>

#include "models/encoder/fused/batch_rows.h"
#include "models/encoder/fused/linear.h"
#include "models/encoder/subsampling.h"

namespace rtfx {

/// The front end of the fused encoder. dw_striding has kernels of its own. Other front ends use
/// ReferenceEncoder's operators.
class FusedFrontEnd {
 public:
  FusedFrontEnd(const EncoderConfig& config, int64_t mel_bins, const WeightReader& encoder);

  /// `rows` is the result of row_count(). Enqueues and does not wait.
  struct Output {
    at::Tensor frames;  // [rows, d]
    BatchRows batch;
  };
  Output operator()(const Features& features, int64_t rows) const;
  /// Computes Subsampling::part(): [B, M, T] -> [B, T', d], and the number of frames up to each
  /// row's end, [B] int64. The front end must have convolutions.
  Subsampling::Output part(const at::Tensor& values, const at::Tensor& begin,
                           const at::Tensor& end) const;

 private:
  /// A strided convolution of each channel, followed by ReLU(pointwise).
  struct Stage {
    at::Tensor weight, bias;  // [9, C], [C] float32
    std::optional<Linear> pointwise;
  };

  /// `begins` says where parts of longer utterances begin. It is undefined where all begin at 0.
  Output convolve(const Features& features, int64_t rows, const at::Tensor& begins = {}) const;
  Output reference(const Features& features, int64_t rows) const;

  EncoderConfig config_;
  at::ScalarType dtype_;
  std::optional<FrontEnd> reference_;
  std::vector<Stage> stages_;  // the first has one channel for input and no pointwise convolution
  std::optional<Linear> out_;
};

}  // namespace rtfx
