// The inputs that a replay looks up for each row: encoder frames, and predictions of all prefixes.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <optional>
#include <vector>

#include "algorithms/shared/biasing/device_bias.h"
#include "algorithms/shared/ngram_lm/fusion.h"
#include "algorithms/shared/replay/network.h"

namespace rtfx {

/// Returns a tensor's elements as numbers on the host. Waits for the device.
std::vector<double> numbers(const at::Tensor& tensor);

/// Returns one member of each item, [N] int64.
template <class Item>
at::Tensor member_of(const std::vector<Item>& items, int64_t Item::*member, at::Device device) {
  std::vector<int64_t> values;
  values.reserve(items.size());
  for (const Item& item : items) values.push_back(item.*member);
  return at::tensor(values, at::kLong).to(device);
}

class ReplayInputs {
 public:
  /// hypotheses[i] belongs to row rows[i] of the batch. There is at least one. `biased` says
  /// whether the biases of the batch count.
  ReplayInputs(const ReplayNetwork& network, const AcousticModel& model, const EncodedBatch& batch,
               const std::vector<int64_t>& rows, const std::vector<const Hypothesis*>& hypotheses,
               const std::optional<LmOptions>& options, bool biased);

  /// The functions below return values at N places. Tensors [N] int64 give the row of the
  /// hypotheses, the frame, and the number of tokens before it.
  Uncertain encoded_at(const at::Tensor& row, const at::Tensor& frame) const;
  /// Returns one number for row and tokens, which the next functions take.
  at::Tensor prefixes_of(const at::Tensor& row, const at::Tensor& tokens) const;
  Uncertain predictions_at(const at::Tensor& prefix) const;  // undefined for CTC
  at::Tensor lm_scores(const at::Tensor& prefix) const;      // [N, V] float32, ln p
  /// Returns the bonus of language model and phrases for each token, [N, V] in `dtype`. It is
  /// undefined without both.
  at::Tensor bonuses(const at::Tensor& prefix, at::ScalarType dtype) const;
  /// Returns the tokens that the rows must not have, [N, V] bool; undefined if there are none.
  at::Tensor forbidden(const at::Tensor& row) const;
  /// Returns ln p(</s>) after all tokens of each hypothesis, [R] float32.
  at::Tensor lm_end() const;

  at::Device device() const { return encoded_.value.device(); }

  std::shared_ptr<const NgramLm> lm;  // null without a language model

 private:
  int64_t frames_, prefixes_;
  Uncertain encoded_, predictions_;  // [rows * frames, H], [rows * prefixes, H]
  at::Tensor states_;                // [rows * prefixes] int32, of the language model
  double alpha_ = 0;
  DeviceBiasTables tables_;
  DeviceBias bias_;         // of the rows
  at::Tensor bias_states_;  // [rows * prefixes] int32
};

}  // namespace rtfx
