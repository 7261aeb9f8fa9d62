// The logits of these transducers are table look-ups, built from the real joint and prediction
// network. So every decoder can be compared with a plain search over the tables in exact
// arithmetic.
//
// logits(b, t, context) = enc[b][t] + pred[context]. The joint network must not change this sum. It
// has relu(x) and relu(-x) side by side, which keeps the sign, since x = relu(x) - relu(-x).
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <vector>

#include "algorithms/decoder.h"
#include "models/acoustic_model.h"

namespace rtfx::test {

using Table = std::vector<std::vector<double>>;

struct TableModel {
  int64_t vocabulary;                // V
  std::vector<int64_t> durations;    // empty for RNN-T
  Table newest;                      // [V+1][columns]; row V is the start symbol
  Table older;                       // [V+1][columns] of the label before, empty for context size 1
  std::vector<int64_t> blanks = {};  // multi-blank: frames of the blanks V, V+1, ...
  int64_t labels() const { return vocabulary + std::max<int64_t>(1, std::ssize(blanks)); }
  int64_t columns() const { return labels() + std::ssize(durations); }
};

inline at::Tensor to_tensor(const Table& table) {
  std::vector<at::Tensor> rows;
  for (const auto& row : table) rows.push_back(at::tensor(row, at::kFloat));
  return at::stack(rows);
}

/// Builds the model. The stateless network concatenates tables of different widths, and joint.pred
/// adds the two parts. The row of blank must be zero, so the start row goes into the bias of
/// joint.pred.
inline std::shared_ptr<const AcousticModel> build(const TableModel& table,
                                                  at::Device device = at::kCPU,
                                                  at::ScalarType dtype = at::kFloat) {
  const int64_t n = table.columns(), v = table.vocabulary;
  const bool two = !table.older.empty();
  auto model = std::make_shared<AcousticModel>();
  model->device = device;
  model->dtype = dtype;
  ModelConfig& config = model->config;
  config.has_transducer = true;
  config.vocabulary = v;
  config.durations = table.durations;
  config.blank_durations = table.blanks;
  config.prediction.kind = PredictionConfig::Kind::stateless;
  config.prediction.context_size = two ? 2 : 1;
  // The widths of context size 2 are [P - P/4, P/4]. With P = 4 n, the older table gets n columns.
  config.prediction.width = two ? 4 * n : n;

  StateDict weights;
  const at::Tensor newest = to_tensor(table.newest);
  at::Tensor bias = newest[v].clone();
  at::Tensor first = newest - newest[v];
  at::Tensor mix = at::eye(n);
  if (two) {
    const at::Tensor older = to_tensor(table.older);
    bias = bias + older[v];
    first = at::constant_pad_nd(first, {0, 2 * n});
    weights["decoder.prediction.embeds.1.weight"] = older - older[v];
    mix = at::cat({at::eye(n), at::zeros({n, 2 * n}), at::eye(n)}, 1);
  }
  weights["decoder.prediction.embeds.0.weight"] = first;
  const at::Tensor sign = at::cat({at::eye(n), -at::eye(n)});  // [2n, n]
  weights["joint.enc.weight"] = sign;
  weights["joint.enc.bias"] = at::zeros({2 * n});
  weights["joint.pred.weight"] = at::matmul(sign, mix);
  weights["joint.pred.bias"] = at::matmul(sign, bias);
  weights["joint.joint_net.weight"] = sign.t().contiguous();
  weights["joint.joint_net.bias"] = at::zeros({n});
  model->prediction.emplace(config.prediction, v, weights, device, dtype);
  model->joint.emplace(weights, "relu", static_cast<int64_t>(table.durations.size()), device,
                       dtype);
  return model;
}

/// Returns the batch of rows[b][t][column]. Shorter rows are padded with NaN, which no decoder may
/// read.
inline EncodedBatch batch_of(const std::vector<Table>& rows, int64_t columns,
                             at::Device device = at::kCPU, at::ScalarType dtype = at::kFloat) {
  EncodedBatch batch;
  size_t longest = 1;
  for (const Table& row : rows) {
    batch.lengths_host.push_back(static_cast<int64_t>(row.size()));
    longest = std::max(longest, row.size());
  }
  at::Tensor frames =
      at::full({static_cast<int64_t>(rows.size()), static_cast<int64_t>(longest), columns},
               std::numeric_limits<float>::quiet_NaN());
  for (size_t b = 0; b < rows.size(); ++b) {
    if (!rows[b].empty())
      frames[static_cast<int64_t>(b)].narrow(0, 0, static_cast<int64_t>(rows[b].size())) =
          to_tensor(rows[b]);
  }
  batch.frames = frames.to(device, dtype);
  batch.lengths = at::tensor(batch.lengths_host, at::kLong).to(device);
  return batch;
}

/// Returns the logits of one decision: enc + newest[label] + older[label before].
inline std::vector<double> logits(const TableModel& table, const std::vector<double>& enc,
                                  const std::vector<int32_t>& tokens) {
  const auto v = static_cast<size_t>(table.vocabulary);
  const size_t last = tokens.empty() ? v : static_cast<size_t>(tokens.back());
  const size_t before = tokens.size() < 2 ? v : static_cast<size_t>(tokens[tokens.size() - 2]);
  std::vector<double> sum = enc;
  for (size_t i = 0; i < sum.size(); ++i) {
    sum[i] += table.newest[last][i] + (table.older.empty() ? 0.0 : table.older[before][i]);
  }
  return sum;
}

inline size_t first_argmax(const std::vector<double>& values, size_t begin, size_t end) {
  size_t best = begin;
  for (size_t i = begin + 1; i < end; ++i) {
    if (values[i] > values[best]) best = i;
  }
  return best;
}

/// The amount that a language model adds to the score of `token` after `tokens`.
using Bonus = std::function<double(const std::vector<int32_t>& tokens, int32_t token)>;

/// Decodes one utterance greedily by the definition, with no state that could be wrong.
inline Hypothesis oracle(const TableModel& table, const Table& enc, int64_t max_symbols,
                         const Bonus& bonus = {}) {
  Hypothesis hypothesis;
  const auto v = static_cast<size_t>(table.vocabulary);
  const auto labels = static_cast<size_t>(table.labels());
  size_t t = 0;
  int64_t spent = 0;
  double score = 0;
  while (t < enc.size()) {
    auto sum = logits(table, enc[t], hypothesis.tokens);
    size_t k = first_argmax(sum, 0, labels);
    if (k < v && bonus) {
      for (size_t i = 0; i < v; ++i) sum[i] += bonus(hypothesis.tokens, static_cast<int32_t>(i));
      k = first_argmax(sum, 0, v);
    }
    int64_t step = k >= v ? 1 : 0;
    if (k >= v && !table.blanks.empty()) step = table.blanks[k - v];
    if (!table.durations.empty()) {
      step = table.durations[first_argmax(sum, labels, sum.size()) - labels];
      if (k >= v) step = std::max<int64_t>(1, step);
    }
    if (k < v) {
      hypothesis.tokens.push_back(static_cast<int32_t>(k));
      hypothesis.frames.push_back(static_cast<int32_t>(t));
      if (!table.durations.empty()) hypothesis.durations.push_back(static_cast<int32_t>(step));
      score += sum[k];
      if (step == 0 && ++spent == max_symbols) step = 1;
    }
    if (step > 0) spent = 0;
    t += static_cast<size_t>(step);
  }
  hypothesis.score = static_cast<float>(score);
  return hypothesis;
}

/// Returns a CTC model whose logits are the frames themselves.
inline std::shared_ptr<const AcousticModel> identity_model(int64_t vocabulary,
                                                           at::Device device = at::kCPU) {
  auto model = std::make_shared<AcousticModel>();
  model->device = device;
  model->config.has_ctc = true;
  model->config.vocabulary = vocabulary;
  model->ctc_head.emplace(at::eye(vocabulary + 1).to(device),
                          at::zeros({vocabulary + 1}).to(device));
  return model;
}

}  // namespace rtfx::test
