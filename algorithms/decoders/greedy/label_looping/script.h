// Label-looping as a TorchScript program: LibTorch's interpreter drives its loops and fuses the
// element-wise operations between matrix products, where it has a fuser for the device. The arm
// "+ TorchScript" of table 5 of the paper (Bataev et al., SLT 2024).
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "algorithms/decoder.h"
#include "algorithms/gpu/host_read.h"
#include "models/acoustic_model.h"

namespace torch::jit {
struct CompilationUnit;
}

namespace rtfx {

class LabelLoopingScript {
 public:
  /// Compiles the program. Throws UserError for a prediction network that is no LSTM.
  LabelLoopingScript(std::shared_ptr<const AcousticModel> model, int64_t max_symbols,
                     bool log_probabilities);

  struct Result {
    Hypotheses hypotheses;
    int64_t outer = 0, inner = 0;  // rounds of the loops
  };
  /// batch.frames: [B, T', H], projected. Waits for the device once per test of a loop, as the
  /// loops of the host do. LibTorch's executor watches the first calls for each kind of input and
  /// compiles after them, so that warm-up rounds are needed.
  Result run(const EncodedBatch& batch) const;

 private:
  std::shared_ptr<const AcousticModel> model_;
  std::shared_ptr<torch::jit::CompilationUnit> program_;
  at::Tensor durations_;  // [D] int64 on the model's device, empty for RNN-T
  int64_t max_symbols_;
  bool log_probabilities_;
};

}  // namespace rtfx
