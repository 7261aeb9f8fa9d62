// Features to the rows of the fused encoder.
#pragma once

#include <optional>
#include <vector>

#include "models/encoder/fused/batch_rows.h"
#include "models/encoder/fused/linear.h"
#include "models/encoder/subsampling.h"

namespace rtfx {

/// dw_striding by kernels of its own; other front ends by ReferenceEncoder's operators.
class FusedFrontEnd {
 public:
  FusedFrontEnd(const EncoderConfig& config, int64_t mel_bins, const WeightReader& encoder);

  /// `rows` as row_count() gives it. Enqueues; does not wait.
  struct Output {
    at::Tensor frames;  // [rows, d]
    BatchRows batch;
  };
  Output operator()(const Features& features, int64_t rows) const;
  /// Computes Subsampling::part(): [B, M, T] -> [B, T', d], and the number of frames up to each
  /// row's end, [B] int64. Needs a front end of convolutions.
  Subsampling::Output part(const at::Tensor& values, const at::Tensor& begin,
                           const at::Tensor& end) const;

 private:
  /// A strided convolution of each channel, and ReLU(pointwise) behind it.
  struct Stage {
    at::Tensor weight, bias;  // [9, C], [C] float32
    std::optional<Linear> pointwise;
  };

  /// `begins`: of parts of longer utterances, undefined where all begin at 0.
  Output convolve(const Features& features, int64_t rows, const at::Tensor& begins = {}) const;
  Output reference(const Features& features, int64_t rows) const;

  EncoderConfig config_;
  at::ScalarType dtype_;
  std::optional<FrontEnd> reference_;
  std::vector<Stage> stages_;  // the first has one channel for input and no pointwise convolution
  std::optional<Linear> out_;
};

}  // namespace rtfx
