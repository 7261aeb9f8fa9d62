#include "algorithms/shared/replay/inputs.h"

#include <algorithm>

#include "models/checkpoint/tensor_data.h"

namespace rtfx {
namespace {

/// Returns the tokens [R, U], with blanks behind a row's end.
at::Tensor padded_tokens(const std::vector<const Hypothesis*>& hypotheses, int64_t blank,
                         at::Device device) {
  size_t longest = 0;
  for (const Hypothesis* h : hypotheses) longest = std::max(longest, h->tokens.size());
  std::vector<int64_t> tokens;
  for (const Hypothesis* h : hypotheses) {
    tokens.insert(tokens.end(), h->tokens.begin(), h->tokens.end());
    tokens.resize(tokens.size() + longest - h->tokens.size(), blank);
  }
  const auto rows = static_cast<int64_t>(hypotheses.size());
  return at::tensor(tokens, at::kLong).view({rows, static_cast<int64_t>(longest)}).to(device);
}

/// Reshapes [R, X, H] to [R * X, H].
Uncertain flat(const Uncertain& all) { return all.reshape({-1, all.value.size(2)}); }

}  // namespace

std::vector<double> numbers(const at::Tensor& tensor) {
  const at::Tensor host = tensor.to(at::kDouble).to(at::kCPU).contiguous();
  return {data_of<double>(host), data_of<double>(host) + host.numel()};
}

ReplayInputs::ReplayInputs(const ReplayNetwork& network, const AcousticModel& model,
                           const EncodedBatch& batch, const std::vector<int64_t>& rows,
                           const std::vector<const Hypothesis*>& hypotheses,
                           const std::optional<LmOptions>& options, bool biased)
    : frames_(batch.frames.size(1)) {
  const at::Tensor chosen = at::tensor(rows, at::kLong).to(batch.frames.device());
  encoded_ = flat(network.encode(batch.frames.index_select(0, chosen)));
  const at::Tensor tokens = padded_tokens(hypotheses, network.labels() - 1, batch.frames.device());
  prefixes_ = tokens.size(1) + 1;
  if (network.has_predictions()) predictions_ = flat(network.predictions(tokens));
  const auto count = static_cast<int64_t>(rows.size());
  // Computes the states of all prefixes, [rows * prefixes]. A blank keeps the state.
  const auto states_of = [&](at::Tensor state, const auto& next) {
    std::vector<at::Tensor> states = {state};
    for (int64_t u = 0; u < tokens.size(1); ++u) {
      state = next(state, tokens.select(1, u).contiguous());
      states.push_back(state);
    }
    return at::stack(states, 1).reshape({-1});
  };
  if (biased) {
    std::vector<std::shared_ptr<const CompiledBias>> biases;
    for (const int64_t row : rows) biases.push_back(batch.biases.at(static_cast<size_t>(row)));
    tables_ = DeviceBiasTables(model.config.vocabulary, model.device);
    tables_.load(biases);
    bias_ = tables_.rows(count);
    if (bias_.has_models()) {
      bias_states_ = states_of(bias_.initial_states(), [&](const auto& state, const auto& token) {
        return bias_.next_states(state, token);
      });
    }
  }
  if (!options) return;
  alpha_ = options->alpha;
  lm = load_lm(*options, model);
  states_ = states_of(lm->initial_states(count), [&](const auto& state, const auto& token) {
    return lm->next_states(state, token);
  });
}

Uncertain ReplayInputs::encoded_at(const at::Tensor& row, const at::Tensor& frame) const {
  return encoded_.rows(row * frames_ + frame);
}

at::Tensor ReplayInputs::prefixes_of(const at::Tensor& row, const at::Tensor& tokens) const {
  return row * prefixes_ + tokens;
}

Uncertain ReplayInputs::predictions_at(const at::Tensor& prefix) const {
  return predictions_.value.defined() ? predictions_.rows(prefix) : Uncertain{};
}

at::Tensor ReplayInputs::lm_scores(const at::Tensor& prefix) const {
  return lm->scores(states_.index_select(0, prefix));
}

at::Tensor ReplayInputs::bonuses(const at::Tensor& prefix, at::ScalarType dtype) const {
  at::Tensor sum;
  if (lm) sum = lm_scores(prefix).mul(alpha_).to(dtype);
  if (bias_.has_models()) {
    const DeviceBias places = {
        bias_.models, bias_.roots.index_select(0, prefix.div(prefixes_, "floor")), {}, {}};
    const at::Tensor own = places.scores(bias_states_.index_select(0, prefix)).to(dtype);
    sum = sum.defined() ? sum + own : own;
  }
  return sum;
}

at::Tensor ReplayInputs::forbidden(const at::Tensor& row) const {
  return bias_.forbidden.defined() ? bias_.forbidden.index_select(0, row) : at::Tensor();
}

at::Tensor ReplayInputs::lm_end() const {
  return lm->final_scores(states_.view({-1, prefixes_}).select(1, prefixes_ - 1).contiguous());
}

}  // namespace rtfx
