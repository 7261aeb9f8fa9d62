// Fills the cells of beam_lattice.h from the network.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "algorithms/log_zero.h"
#include "algorithms/shared/replay/beam_lattice.h"
#include "algorithms/shared/replay/inputs.h"
#include "algorithms/shared/replay/replay.h"

namespace rtfx {
namespace {

/// The next token of each place's text; 0 behind the last, where nobody asks for it.
at::Tensor next_tokens(const std::vector<LatticeCell>& cells,
                       const std::vector<const Hypothesis*>& hypotheses, at::Device device) {
  std::vector<int64_t> tokens;
  for (const LatticeCell& cell : cells) {
    const auto& text = hypotheses[static_cast<size_t>(cell.row)]->tokens;
    const auto u = static_cast<size_t>(cell.prefix);
    tokens.push_back(u < text.size() ? text[u] : 0);
  }
  return at::tensor(tokens, at::kLong).to(device);
}

std::vector<LogProb> log_probs(const Uncertain& all) {
  const auto values = numbers(all.value), variances = numbers(all.variance);
  std::vector<LogProb> result;
  for (size_t i = 0; i < values.size(); ++i) result.push_back({values[i], variances[i]});
  return result;
}

/// Fuses a language model into a cell's labels. `bonus` is ln p_lm of the token.
void fuse_cell(LatticeCell& cell, double bonus, const LmOptions& lm) {
  cell.token.value += lm.alpha * bonus + lm.beta;
  if (lm.blank_scoring != "lm_weighted_full") return;
  const double blank = std::exp(cell.blank.value), rest = -std::expm1(cell.blank.value);
  cell.token.value += lm.alpha * std::log(std::max(rest, lm.blank_eps));
  if (rest > lm.blank_eps)
    cell.token.variance += std::pow(lm.alpha * blank / rest, 2) * cell.blank.variance;
  cell.least_blank = (1 + lm.alpha) * cell.blank.value;
}

/// CTC: what a language model adds to a text, whatever its alignment.
void add_text_scores(std::vector<Replayed>& results, const ReplayInputs& inputs,
                     const std::vector<const Hypothesis*>& hypotheses, const ReplayRules& rules) {
  const std::vector<double> ends =
      rules.ends_text ? numbers(inputs.lm_end()) : std::vector<double>();
  for (size_t i = 0; i < results.size(); ++i) {
    const auto& tokens = hypotheses[i]->tokens;
    const auto count = static_cast<int64_t>(tokens.size());
    double sum = 0;
    if (count > 0) {
      const at::Tensor before = at::arange(count, at::TensorOptions(at::kLong));
      const at::Tensor prefix =
          inputs.prefixes_of(at::full_like(before, static_cast<int64_t>(i)), before)
              .to(inputs.device());
      const at::Tensor next = at::tensor(tokens).to(inputs.device(), at::kLong);
      for (const double bonus : numbers(inputs.lm_scores(prefix).gather(1, next.unsqueeze(1))))
        sum += rules.lm->alpha * bonus + rules.lm->beta;
    }
    if (rules.ends_text && ends[i] > kLogZero) sum += rules.lm->alpha * ends[i];
    results[i].least_score += sum;
    results[i].most_score += sum;
  }
}

}  // namespace

std::vector<Replayed> Replay::beam(const EncodedBatch& batch, const std::vector<int64_t>& rows,
                                   const std::vector<const Hypothesis*>& hypotheses,
                                   const ReplayRules& rules) const {
  if (rows.empty()) return {};
  const bool ctc = rules.head == Head::ctc;
  const int64_t labels = network_.labels(), durations = network_.durations();
  const ReplayInputs inputs(network_, *model_, batch, rows, hypotheses, rules.lm,
                            !rules.bias.empty());
  std::vector<std::vector<LatticeCell>> cells(rows.size());
  std::vector<LatticeCell> all;
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < rows.size(); ++i) {
    lengths.push_back(batch.lengths_host[static_cast<size_t>(rows[i])]);
    const auto own = lattice_cells(*hypotheses[i], static_cast<int64_t>(i), lengths.back());
    all.insert(all.end(), own.begin(), own.end());
  }
  const size_t chunk = network_.rows_within(kChunkBytes);
  for (size_t first = 0; first < all.size(); first += chunk) {
    const size_t end = std::min(all.size(), first + chunk);
    std::vector<LatticeCell> part(all.begin() + static_cast<int64_t>(first),
                                  all.begin() + static_cast<int64_t>(end));
    const at::Tensor row = member_of(part, &LatticeCell::row, inputs.device());
    const at::Tensor prefix =
        inputs.prefixes_of(row, member_of(part, &LatticeCell::prefix, inputs.device()));
    const auto outputs = network_.outputs(
        inputs.encoded_at(row, member_of(part, &LatticeCell::frame, inputs.device())),
        inputs.predictions_at(prefix));
    const at::Tensor next = next_tokens(part, hypotheses, inputs.device());
    const double temperature = rules.temperature;
    const auto blank = log_probs(
        network_.log_prob(outputs, at::full_like(next, labels - 1), 0, labels, temperature));
    const auto token = log_probs(network_.log_prob(outputs, next, 0, labels, temperature));
    const std::vector<double> bonus =
        inputs.lm && !ctc ? numbers(inputs.lm_scores(prefix).gather(1, next.unsqueeze(1)))
                          : std::vector<double>();
    for (size_t i = 0; i < part.size(); ++i) {
      part[i].blank = blank[i];
      part[i].token = token[i];
      part[i].least_blank = blank[i].value;
      if (!bonus.empty()) fuse_cell(part[i], bonus[i], *rules.lm);
    }
    for (int64_t d = 0; d < durations; ++d) {
      const auto duration = log_probs(
          network_.log_prob(outputs, at::full_like(next, d), labels, durations, temperature));
      for (size_t i = 0; i < part.size(); ++i) part[i].durations.push_back(duration[i]);
    }
    for (LatticeCell& cell : part) cells[static_cast<size_t>(cell.row)].push_back(std::move(cell));
  }
  std::vector<Replayed> results;
  const double growth = rules.lm ? rules.lm->beta : 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (ctc) {
      results.push_back(ctc_scores(*hypotheses[i], lengths[i], cells[i], rules.sums_alignments));
      continue;
    }
    results.push_back(transducer_scores(
        *hypotheses[i], lengths[i], cells[i],
        durations > 0 ? model_->config.durations : std::vector<int64_t>{}, growth));
  }
  if (inputs.lm && ctc) add_text_scores(results, inputs, hypotheses, rules);
  return results;
}

}  // namespace rtfx
