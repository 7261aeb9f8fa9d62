#include "models/encoder/prompt_kernel.h"

#include <ATen/ATen.h>

namespace rtfx {

PromptKernel::PromptKernel(const PromptConfig& config, const WeightReader& reader)
    : weight_(reader.get("2.weight")), bias_(reader.get("2.bias")) {
  const at::Tensor first = reader.get("0.weight");
  const int64_t width = first.size(1) - config.count;
  of_frames_ = first.narrow(1, 0, width).contiguous();
  of_prompts_ = (first.narrow(1, width, config.count).t() + reader.get("0.bias")).contiguous();
}

at::Tensor PromptKernel::operator()(const at::Tensor& frames, const at::Tensor& prompts) const {
  // The product of a matrix with a one-hot vector is one of its columns.
  at::Tensor hidden = at::linear(frames, of_frames_);
  hidden.add_(of_prompts_.index_select(0, prompts).unsqueeze(1)).relu_();
  return at::linear(hidden, weight_, bias_);
}

}  // namespace rtfx
