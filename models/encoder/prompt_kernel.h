// The layers that condition an encoder's frames on the prompt of an utterance, for example its
// language: NeMo's EncDecRNNTBPEModelWithPrompt, "Nemotron 3.5 ASR".
#pragma once

#include <ATen/core/Tensor.h>

#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/config.h"

namespace rtfx {

/// Computes y = W_2 relu(W_1 [x; e_p] + b_1) + b_2, where e_p is the one-hot vector of prompt p.
class PromptKernel {
 public:
  /// `reader` gives the tensors below "prompt_kernel.". Its device and dtype are those of the
  /// frames.
  PromptKernel(const PromptConfig& config, const WeightReader& reader);

  /// Maps frames [B, T', D] to [B, T', D]. prompts [B] int64 are from 0 to PromptConfig::count - 1,
  /// on the same device. Does not synchronise.
  at::Tensor operator()(const at::Tensor& frames, const at::Tensor& prompts) const;

 private:
  at::Tensor of_frames_;   // [W, D], the columns of W_1 for x
  at::Tensor of_prompts_;  // [P, W], the column of W_1 for each prompt, plus b_1
  at::Tensor weight_, bias_;
};

}  // namespace rtfx
