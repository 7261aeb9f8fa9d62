// Where the frames of a batch lie among the rows of the fused encoder's matrices.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/checkpoint/config.h"
#include "models/checkpoint/tensor_data.h"
#include "models/encoder/encoder_interface.h"
#include "models/encoder/fused/kernels.h"

namespace rtfx {

/// Rows are counted in such steps, so that few different batches make many the same size.
constexpr int64_t kRowStep = 128;

struct BatchRows {
  int64_t rows;                // of the matrices of encoder frames
  int64_t frames;              // T', the most of an utterance
  int32_t strides;             // levels of sub-sampling
  at::Tensor lengths;          // [strides + 1, B] int32: frames of each level
  at::Tensor begins;           // likewise where parts begin; undefined: all at 0
  at::Tensor offsets;          // [B] int32
  at::Tensor encoded_lengths;  // [B] int64

  int32_t utterances() const { return static_cast<int32_t>(offsets.size(0)); }
  /// The layout of the encoder frames.
  RowLayout layout() const {
    return {data_of<int32_t>(offsets),
            data_of<int32_t>(lengths) + static_cast<int64_t>(strides) * utterances(), utterances(),
            static_cast<int32_t>(frames)};
  }
};

/// Rows that the utterances' frames take: their number in steps of kRowStep where the host knows
/// it, as many as the padded batch has where it does not.
int64_t row_count(const EncoderConfig& config, int64_t utterances, int64_t feature_frames,
                  const std::vector<int64_t>& host_lengths);

/// Enqueues the reckoning of lengths and offsets; does not wait. `lengths` [B] int64: of the
/// features, or with `strides` = 0 those of the encoder frames. `begins` [B] int64: of parts of
/// longer utterances, undefined where all begin at 0.
BatchRows plan_rows(const at::Tensor& lengths, int32_t strides, bool causal, int64_t rows,
                    int64_t frames, const at::Tensor& begins = {});

}  // namespace rtfx
