// Label-looping as a TorchScript program. LibTorch's interpreter drives its loops. It also fuses
// the element-wise operations between matrix products, if it has a fuser for the device. This is
// the form "+ TorchScript" in table 5 of the paper (Bataev et al., SLT 2024).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "algorithms/decoder.h"
#include "models/acoustic_model.h"

namespace torch::jit {
struct CompilationUnit;
}

namespace rtfx {

class LabelLoopingScript {
 public:
  /// Compiles the program. Throws UserError for a prediction network that is no LSTM, and for a
  /// multi-blank model.
  LabelLoopingScript(std::shared_ptr<const AcousticModel> model, int64_t max_symbols,
                     bool log_probabilities);

  struct Result {
    Hypotheses hypotheses;
    int64_t outer = 0, inner = 0;  // rounds of the loops
  };
  /// Searches a batch whose frames [B, T', H] are projected. Waits for the device once per test of
  /// a loop, as the host does with "loop": "host". LibTorch's executor observes the first calls for
  /// each kind of input and compiles after them, so warm-up rounds are needed.
  Result run(const EncodedBatch& batch) const;

 private:
  std::shared_ptr<const AcousticModel> model_;
  std::shared_ptr<torch::jit::CompilationUnit> program_;
  at::Tensor durations_;  // [D] int64 on the model's device, empty for RNN-T
  int64_t max_symbols_;
  bool log_probabilities_;
};

}  // namespace rtfx
