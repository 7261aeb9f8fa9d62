#include "models/encoder/fused/batch_rows.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>

#include "base/gpu/rounding.h"
#include "models/checkpoint/tensor_data.h"

namespace rtfx {

int64_t row_count(const EncoderConfig& config, int64_t utterances, int64_t feature_frames,
                  const std::vector<int64_t>& host_lengths) {
  const int64_t padded = utterances * std::max<int64_t>(1, config.subsampled(feature_frames));
  if (host_lengths.empty()) return padded;
  int64_t sum = 0;
  for (const int64_t length : host_lengths) sum += config.subsampled(length);
  return std::min(padded, round_up(std::max<int64_t>(sum, 1), kPackedRowStep));
}

BatchRows plan_rows(const at::Tensor& lengths, int32_t strides, bool causal, int64_t rows,
                    int64_t frames, const at::Tensor& begins) {
  const int64_t utterances = lengths.size(0);
  const at::TensorOptions ints = lengths.options().dtype(at::kInt);
  BatchRows plan{rows,
                 frames,
                 strides,
                 at::empty({strides + 1, utterances}, ints),
                 begins.defined() ? at::empty({strides + 1, utterances}, ints) : at::Tensor(),
                 at::empty({utterances}, ints),
                 at::empty_like(lengths)};
  const bool padded = rows == utterances * frames;
  plan_layout(
      {data_of<int64_t>(lengths), begins.defined() ? data_of<int64_t>(begins) : nullptr,
       plan.lengths.mutable_data_ptr<int32_t>(),
       begins.defined() ? plan.begins.mutable_data_ptr<int32_t>() : nullptr,
       plan.offsets.mutable_data_ptr<int32_t>(), plan.encoded_lengths.mutable_data_ptr<int64_t>(),
       plan.utterances(), strides, causal, padded ? static_cast<int32_t>(frames) : 0},
      c10::cuda::getCurrentCUDAStream(lengths.device().index()).stream());
  return plan;
}

}  // namespace rtfx
