// The heads of a model: the CTC head, the joint network and the prediction network.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "base/gpu/activation.h"
#include "models/checkpoint/checkpoint.h"

namespace rtfx {

/// The CTC head (Graves et al. 2006) is a 1x1 convolution over encoder frames, i.e. one linear map.
/// Members enqueue their work on the current stream and do not wait for the device.
class CtcHead {
 public:
  /// weight [V+1, D] or [V+1, D, 1], bias [V+1].
  CtcHead(const at::Tensor& weight, const at::Tensor& bias);

  /// Maps frames [B, T', D] to logits [B, T', V+1] of the same dtype. Blank is the last column.
  at::Tensor logits(const at::Tensor& frames) const;

  const at::Tensor& weight() const { return weight_; }  // [V+1, D]
  const at::Tensor& bias() const { return bias_; }      // [V+1]

 private:
  at::Tensor weight_, bias_;
};

/// The joint network: logits = W_o act(W_e e + b_e + W_p p + b_p) + b_o (Graves 2012). For TDT, it
/// also has a logit for each duration (Xu et al. 2023). Members enqueue their work on the current
/// stream and do not wait for the device. The constructor waits while it copies weights.
class Joint {
 public:
  struct Linear {
    at::Tensor weight, bias;
  };

  /// `durations` is the number of duration columns after the blank (0 for RNN-T). Throws UserError
  /// for an activation other than relu, sigmoid and tanh, and std::logic_error if a weight is
  /// absent.
  Joint(const StateDict& weights, const std::string& activation, int64_t durations,
        at::Device device, at::ScalarType dtype);

  at::Tensor project_encoder(const at::Tensor& frames) const;     // [..., D] -> [..., H]
  at::Tensor project_prediction(const at::Tensor& output) const;  // [..., P] -> [..., H]

  /// Returns logits [..., V+1+D] of projected inputs, which are broadcast against each other.
  at::Tensor logits(const at::Tensor& encoder, const at::Tensor& prediction) const;

  /// Returns this joint with another b_o, [V+1+D]. The other weights are shared.
  Joint with_output_bias(at::Tensor bias) const;

  int64_t width() const { return output_.weight.size(1); }  // H
  int64_t durations() const { return durations_; }          // D

  /// Returns the weights, for decoders that have their own kernels.
  const Linear& encoder() const { return encoder_; }        // [H, D], [H]
  const Linear& prediction() const { return prediction_; }  // [H, P], [H]
  const Linear& output() const { return output_; }          // [V+1+D, H], [V+1+D]
  Activation activation() const { return activation_; }

 private:
  Linear encoder_, prediction_, output_;
  Activation activation_;
  int64_t durations_;
};

/// The state of B rows. An LSTM has `h` and `c`, each [layers, B, P]. A stateless network has
/// `context`, [B, C-1] int64, newest label first. Functions that select rows do so along the batch
/// dimension. Members enqueue their work on the current stream and do not wait for the device.
struct PredictionState {
  at::Tensor h, c, context;

  /// Returns the rows of `taken` where `mask` ([B] bool) is true, and the rows of *this elsewhere.
  PredictionState select(const at::Tensor& mask, const PredictionState& taken) const;
  /// Replaces the rows where `mask` is true by those of `taken`, in place.
  void take(const at::Tensor& mask, const PredictionState& taken);
  /// Replaces all rows by those of `from`, in place.
  void assign(const PredictionState& from);
  /// Calls visit(tensor, dimension of the rows) for each tensor.
  template <class Visit>
  void for_each_tensor(Visit&& visit) {
    visit(h, 1);
    visit(c, 1);
    visit(context, 0);
  }
  /// Returns the rows `index` ([B'] int64) of this state.
  PredictionState rows(const at::Tensor& index) const;
};

/// The prediction network of a transducer: LSTM (Graves 2012) or stateless (Ghodsi et al. 2020).
/// Members enqueue their work on the current stream and do not wait for the device. The constructor
/// waits while it copies weights.
class PredictionNetwork {
 public:
  struct LstmLayer {
    at::Tensor w_ih, w_hh, b_ih, b_hh;  // [4P, P], [4P, P], [4P], [4P]; gate order i, f, g, o
  };
  struct Step {
    at::Tensor output;  // [B, P]
    PredictionState state;
  };

  /// Throws std::logic_error if a weight is absent.
  PredictionNetwork(const PredictionConfig& config, int64_t blank, const StateDict& weights,
                    at::Device device, at::ScalarType dtype);

  /// Returns the state before the start symbol: zeros (LSTM) or an all-blank context (stateless).
  PredictionState initial_state(int64_t batch) const;

  /// Makes one step for all rows. labels are [B] int64, 0..V. The blank's id V is the start
  /// symbol. Its embedding, the last row, is zero in models that NeMo trains, and has any values in
  /// random models of transformers.
  Step step(const at::Tensor& labels, const PredictionState& state) const;

  int64_t blank() const { return blank_; }
  int64_t width() const { return config_.width; }

  /// Returns the weights, for decoders that have their own kernels.
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
