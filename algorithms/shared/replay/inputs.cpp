#include "algorithms/shared/replay/inputs.h"

#include <algorithm>

namespace rtfx {
namespace {

/// [R, U], blanks behind a row's end.
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

/// [R, X, H] -> [R * X, H].
Uncertain flat(const Uncertain& all) { return all.reshape({-1, all.value.size(2)}); }

}  // namespace

std::vector<double> numbers(const at::Tensor& tensor) {
  const at::Tensor host = tensor.to(at::kDouble).to(at::kCPU).contiguous();
  return {host.const_data_ptr<double>(), host.const_data_ptr<double>() + host.numel()};
}

ReplayInputs::ReplayInputs(const ReplayNetwork& network, const AcousticModel& model,
                           const EncodedBatch& batch, const std::vector<int64_t>& rows,
                           const std::vector<const Hypothesis*>& hypotheses,
                           const std::optional<LmOptions>& options)
    : frames_(batch.frames.size(1)) {
  const at::Tensor chosen = at::tensor(rows, at::kLong).to(batch.frames.device());
  encoded_ = flat(network.encode(batch.frames.index_select(0, chosen)));
  const at::Tensor tokens = padded_tokens(hypotheses, network.labels() - 1, batch.frames.device());
  prefixes_ = tokens.size(1) + 1;
  if (network.has_predictions()) predictions_ = flat(network.predictions(tokens));
  if (!options) return;
  lm = load_lm(*options, model);
  at::Tensor state = lm->initial_states(static_cast<int64_t>(rows.size()));
  std::vector<at::Tensor> states = {state};
  for (int64_t u = 0; u < tokens.size(1); ++u) {
    state = lm->next_states(state, tokens.select(1, u).contiguous());  // blank keeps the state
    states.push_back(state);
  }
  states_ = at::stack(states, 1).reshape({-1});
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

at::Tensor ReplayInputs::lm_end() const {
  return lm->final_scores(states_.view({-1, prefixes_}).select(1, prefixes_ - 1).contiguous());
}

}  // namespace rtfx
