// The vectors that a replay looks up: encoder frames and predictions of all prefixes, by row.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <optional>
#include <vector>

#include "algorithms/shared/biasing/device_bias.h"
#include "algorithms/shared/ngram_lm/fusion.h"
#include "algorithms/shared/replay/network.h"

namespace rtfx {

/// A tensor's elements as numbers on the host. Waits for the device.
std::vector<double> numbers(const at::Tensor& tensor);

/// [N] int64: a member of each.
template <class Item>
at::Tensor member_of(const std::vector<Item>& items, int64_t Item::*member, at::Device device) {
  std::vector<int64_t> values;
  values.reserve(items.size());
  for (const Item& item : items) values.push_back(item.*member);
  return at::tensor(values, at::kLong).to(device);
}

class ReplayInputs {
 public:
  /// hypotheses[i] is of row rows[i] of the batch; there is at least one. biased: rows have what
  /// batch.biases says.
  ReplayInputs(const ReplayNetwork& network, const AcousticModel& model, const EncodedBatch& batch,
               const std::vector<int64_t>& rows, const std::vector<const Hypothesis*>& hypotheses,
               const std::optional<LmOptions>& options, bool biased);

  /// Values at places, which are given by [N] int64 each: row of the hypotheses, frame, tokens
  /// before.
  Uncertain encoded_at(const at::Tensor& row, const at::Tensor& frame) const;
  /// One number for both, as the next two take it.
  at::Tensor prefixes_of(const at::Tensor& row, const at::Tensor& tokens) const;
  Uncertain predictions_at(const at::Tensor& prefix) const;  // undefined for CTC
  at::Tensor lm_scores(const at::Tensor& prefix) const;      // [N, V] float32, ln p
  /// The bonus of language model and phrases for each token, [N, V] in `dtype`; undefined without
  /// both.
  at::Tensor bonuses(const at::Tensor& prefix, at::ScalarType dtype) const;
  /// Tokens that the rows must not have, [N, V] bool; undefined: none.
  at::Tensor forbidden(const at::Tensor& row) const;
  /// ln p(</s>) after all tokens of each hypothesis, [R] float32.
  at::Tensor lm_end() const;

  at::Device device() const { return encoded_.value.device(); }

  std::shared_ptr<const NgramLm> lm;  // null: none takes part

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
