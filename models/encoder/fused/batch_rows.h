// Where the frames of a batch lie in the rows of the fused encoder's matrices.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "models/checkpoint/config.h"
#include "models/checkpoint/tensor_data.h"
#include "models/encoder/encoder_interface.h"
#include "models/encoder/fused/kernels.h"

namespace rtfx {

struct BatchRows {
  int64_t rows;                // rows of the matrices of encoder frames
  int64_t frames;              // T', frames of the longest utterance
  int32_t strides;             // levels of sub-sampling
  at::Tensor lengths;          // [strides + 1, B] int32: frames at each level
  at::Tensor begins;           // [strides + 1, B] int32: where parts begin; undefined = all at 0
  at::Tensor offsets;          // [B] int32
  at::Tensor encoded_lengths;  // [B] int64

  int32_t utterances() const { return static_cast<int32_t>(offsets.size(0)); }
  /// Returns the layout of the encoder frames.
  RowLayout layout() const {
    return {data_of<int32_t>(offsets),
            data_of<int32_t>(lengths) + static_cast<int64_t>(strides) * utterances(), utterances(),
            static_cast<int32_t>(frames)};
  }
};

/// Returns the number of rows that the frames take. Where the host knows the lengths, it is the
/// number of the utterances' frames, rounded up to kPackedRowStep. Otherwise it is that of the
/// padded batch.
int64_t row_count(const EncoderConfig& config, int64_t utterances, int64_t feature_frames,
                  const std::vector<int64_t>& host_lengths);

/// Enqueues the computation of lengths and offsets, and does not wait. `lengths` [B] int64 are
/// those of the features, or with `strides` = 0 those of the encoder frames. `begins` [B] int64 say
/// where parts of longer utterances begin. It is undefined where all begin at 0.
BatchRows plan_rows(const at::Tensor& lengths, int32_t strides, bool causal, int64_t rows,
                    int64_t frames, const at::Tensor& begins = {});

}  // namespace rtfx
