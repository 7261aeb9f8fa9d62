// The prediction network of a transducer: LSTM (Graves 2012) or stateless (Ghodsi et al. 2020).
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "models/checkpoint/checkpoint.h"

namespace rtfx {

/// State of B rows. LSTM: `h` and `c`, [layers, B, P] each. Stateless: `context`, [B, C-1] int64,
/// newest label first. All row selection goes along the batch dimension.
struct PredictionState {
  at::Tensor h, c, context;

  /// Rows where `mask` ([B] bool) come from `taken`, the others stay as they are in *this.
  PredictionState select(const at::Tensor& mask, const PredictionState& taken) const;
  /// Replaces the rows of `mask` in place.
  void take(const at::Tensor& mask, const PredictionState& taken);
  /// All rows of `from`, in place.
  void assign(const PredictionState& from);
  /// walk(tensor, dimension of the rows) for each.
  template <class Walk>
  void walk(Walk&& walk) {
    walk(h, 1);
    walk(c, 1);
    walk(context, 0);
  }
  /// Rows `index` ([B'] int64) of this state.
  PredictionState rows(const at::Tensor& index) const;
};

class PredictionNetwork {
 public:
  struct LstmLayer {
    at::Tensor w_ih, w_hh, b_ih, b_hh;  // [4P, P], [4P, P], [4P], [4P]; gate order i, f, g, o
  };
  struct Step {
    at::Tensor output;  // [B, P]
    PredictionState state;
  };

  PredictionNetwork(const PredictionConfig& config, int64_t blank, const StateDict& weights,
                    at::Device device, at::ScalarType dtype);

  /// Zeros (LSTM) or an all-blank context (stateless), before the start symbol.
  PredictionState initial_state(int64_t batch) const;

  /// One step for all rows. labels: [B] int64, 0..V; the blank id V is the start symbol, whose
  /// embedding is row V: zeros in what NeMo trains, any numbers in transformers' random models.
  /// Does not synchronise.
  Step step(const at::Tensor& labels, const PredictionState& state) const;

  int64_t blank() const { return blank_; }
  int64_t width() const { return config_.width; }

  /// The weights themselves, for decoders with kernels of their own.
  const PredictionConfig& config() const { return config_; }
  const std::vector<at::Tensor>& embeddings() const { return embeddings_; }
  const std::vector<LstmLayer>& layers() const { return layers_; }

 private:
  PredictionConfig config_;
  int64_t blank_;
  std::vector<at::Tensor> embeddings_;  // LSTM: one [V+1, P]; stateless: one per context position
  std::vector<LstmLayer> layers_;
};

}  // namespace rtfx
