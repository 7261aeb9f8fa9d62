#include "algorithms/shared/replay/beam_lattice.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "algorithms/log_zero.h"
#include "algorithms/shared/replay/inputs.h"
#include "algorithms/shared/replay/network.h"
#include "algorithms/shared/replay/replay.h"

namespace rtfx {

namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

/// The logarithm of a sum of probabilities. Variances are averaged by weight, since the errors of
/// alignments that share cells are not independent.
struct Mass {
  double value = kNone, variance = 0;

  Mass times(const LogProb& factor) const {
    return {value + factor.value, variance + factor.variance};
  }
  void add(const Mass& other, bool sum = true) {
    if (other.value == kNone) return;
    if (!sum) {
      if (other.value > value) *this = other;
      return;
    }
    const double high = std::max(value, other.value);
    const double total = high + std::log(std::exp(value - high) + std::exp(other.value - high));
    const double share = std::exp(other.value - total);
    variance = value == kNone ? other.variance : (1 - share) * variance + share * other.variance;
    value = total;
  }
};

/// The least probable of several ways through an unknown part of the path.
struct Least {
  double value = -kNone, variance = 0;

  void add(double other, double of_other) {
    if (other >= value) return;
    value = other;
    variance = of_other;
  }
};

Replayed between(const Least& least, const Mass& most) {
  Replayed replayed;
  replayed.least_score = least.value;
  replayed.most_score = most.value;
  if (!std::isfinite(least.value) || !std::isfinite(most.value)) {
    replayed.add({"path", 0, 0, 0, -kNone, 1});
    return replayed;
  }
  const double variance = std::max(least.variance, most.variance);
  replayed.score_bound =
      ReplayNetwork::kDeviations * std::sqrt(variance) + rounding_of_score(std::abs(most.value));
  return replayed;
}

/// Returns the numbers of tokens that are emitted before frame t and up to its end.
std::pair<int64_t, int64_t> tokens_around(const Hypothesis& hypothesis, int64_t t) {
  const auto& frames = hypothesis.frames;
  return {std::ranges::lower_bound(frames, t) - frames.begin(),
          std::ranges::upper_bound(frames, t) - frames.begin()};
}

class Cells {
 public:
  explicit Cells(const std::vector<LatticeCell>& cells) {
    for (const LatticeCell& cell : cells) by_place_[{cell.frame, cell.prefix}] = &cell;
  }
  const LatticeCell* find(int64_t frame, int64_t prefix) const {
    const auto found = by_place_.find({frame, prefix});
    return found == by_place_.end() ? nullptr : found->second;
  }

 private:
  std::map<std::pair<int64_t, int64_t>, const LatticeCell*> by_place_;
};

struct Move {
  int64_t by;
  LogProb weight;
};

/// How labels move: the durations of a model, and the fewest frames that a token moves.
struct Steps {
  const std::vector<int64_t>& durations;  // empty for RNN-T
  int64_t least_of_token;                 // 0, or 1 where each label moves

  /// Returns the moves of a label at a cell. RNN-T has one move of probability 1.
  std::vector<Move> of(const LatticeCell& cell, bool blank) const {
    const int64_t least = blank ? 1 : least_of_token;
    if (durations.empty()) return {{least, {}}};
    std::vector<Move> all;
    for (size_t d = 0; d < durations.size(); ++d)
      all.push_back({std::max(least, durations[d]), cell.durations[d]});
    return all;
  }
};

/// Returns the least probable way over blanks from frame `begin` to `target`. If the target lies
/// behind the last frame, a way may end anywhere behind that frame.
Least over_blanks(const Cells& cells, int64_t prefix, int64_t begin, int64_t target, int64_t length,
                  const Steps& steps) {
  if (begin >= length && target >= length) return {0, 0};
  if (target < begin) return {};
  std::vector<Least> at(static_cast<size_t>(target - begin + 1));
  at[0] = {0, 0};
  for (int64_t t = begin; t < target; ++t) {
    const Least here = at[static_cast<size_t>(t - begin)];
    const LatticeCell* cell = cells.find(t, prefix);
    if (!std::isfinite(here.value) || cell == nullptr) continue;
    for (const Move& move : steps.of(*cell, /*blank=*/true)) {
      int64_t to = t + move.by;
      if (to > target && target < length) continue;
      to = std::min(to, target);
      at[static_cast<size_t>(to - begin)].add(
          here.value + cell->least_blank + move.weight.value,
          here.variance + cell->blank.variance + move.weight.variance);
    }
  }
  return at.back();
}

Least own_alignment(const Hypothesis& hypothesis, const Cells& cells, int64_t length,
                    const Steps& steps) {
  Least total{0, 0};
  const auto times = [&](double value, double variance) {
    total = {total.value + value, total.variance + variance};
  };
  int64_t begin = 0;
  for (size_t u = 0; u <= hypothesis.tokens.size(); ++u) {
    const bool token = u < hypothesis.tokens.size();
    const int64_t target = token ? hypothesis.frames[u] : std::max(begin, length);
    const auto prefix = static_cast<int64_t>(u);
    const Least blanks = over_blanks(cells, prefix, begin, target, length, steps);
    times(blanks.value, blanks.variance);
    if (!token) break;
    const LatticeCell* cell = cells.find(target, prefix);
    if (cell == nullptr) return {};
    times(cell->token.value, cell->token.variance);
    Least moved;
    const int64_t by =
        steps.durations.empty() ? steps.least_of_token : int64_t{hypothesis.durations[u]};
    for (const Move& move : steps.of(*cell, /*blank=*/false))
      if (move.by == by) moved.add(move.weight.value, move.weight.variance);
    if (!std::isfinite(moved.value)) return {};  // the model has no such duration
    times(moved.value, moved.variance);
    begin = target + by;
  }
  return total;
}

}  // namespace

std::vector<LatticeCell> lattice_cells(const Hypothesis& hypothesis, int64_t row, int64_t length) {
  std::vector<LatticeCell> cells;
  const auto tokens = static_cast<int64_t>(hypothesis.tokens.size());
  for (int64_t t = 0; t < length; ++t) {
    const auto [before, after] = tokens_around(hypothesis, t);
    const int64_t low = std::max<int64_t>(0, before - kBand);
    for (int64_t u = low; u <= std::min(tokens, after + kBand); ++u) {
      LatticeCell cell;
      cell.row = row;
      cell.prefix = u;
      cell.frame = t;
      cells.push_back(cell);
    }
  }
  return cells;
}

Replayed transducer_scores(const Hypothesis& hypothesis, int64_t length,
                           const std::vector<LatticeCell>& list,
                           const std::vector<int64_t>& durations, bool monotonic, double growth) {
  const Cells cells(list);
  const Steps steps{durations, monotonic ? 1 : 0};
  const auto tokens = static_cast<int64_t>(hypothesis.tokens.size());
  std::map<std::pair<int64_t, int64_t>, Mass> mass;  // by frame and tokens, in this order
  Mass total;
  mass[{0, 0}] = {0, 0};
  const auto arrive = [&](int64_t frame, int64_t prefix, const Mass& from) {
    if (frame < length && cells.find(frame, prefix) != nullptr)
      return mass[{frame, prefix}].add(from);
    if (frame >= length && prefix < tokens) return;  // the path spells another text
    Mass left = from;
    left.value += std::max(0.0, growth) * static_cast<double>(tokens - prefix);
    total.add(left);
  };
  if (length == 0) arrive(0, 0, {0, 0});
  while (!mass.empty() && length > 0) {
    const auto [place, here] = *mass.begin();
    mass.erase(mass.begin());
    const auto [t, u] = place;
    const LatticeCell& cell = *cells.find(t, u);
    for (const Move& move : steps.of(cell, /*blank=*/true))
      arrive(t + move.by, u, here.times(cell.blank).times(move.weight));
    if (u == tokens) continue;
    for (const Move& move : steps.of(cell, /*blank=*/false))
      arrive(t + move.by, u + 1, here.times(cell.token).times(move.weight));
  }
  return between(own_alignment(hypothesis, cells, length, steps), total);
}

Replayed ctc_scores(const Hypothesis& hypothesis, int64_t length,
                    const std::vector<LatticeCell>& list, bool sum) {
  const Cells cells(list);
  const auto tokens = static_cast<int64_t>(hypothesis.tokens.size());
  const auto token = [&](int64_t u) { return hypothesis.tokens[static_cast<size_t>(u)]; };
  // State 2 u stands behind u tokens and a blank, or at the start. State 2 u + 1 stands on token u.
  std::vector<Mass> mass(static_cast<size_t>(2 * tokens + 1));
  mass[0] = {0, 0};
  Mass total;
  for (int64_t t = 0; t < length; ++t) {
    std::vector<Mass> next(mass.size());
    for (int64_t s = 0; s <= 2 * tokens; ++s) {
      Mass here = mass[static_cast<size_t>(s)];
      if (s > 0) here.add(mass[static_cast<size_t>(s - 1)], sum);
      if (s % 2 == 1 && s > 1 && token(s / 2) != token(s / 2 - 1))
        here.add(mass[static_cast<size_t>(s - 2)], sum);
      if (here.value == kNone) continue;
      if (const LatticeCell* cell = cells.find(t, s / 2); cell == nullptr) {
        total.add(here, sum);  // the paths leave the band
      } else {
        next[static_cast<size_t>(s)] = here.times(s % 2 == 0 ? cell->blank : cell->token);
      }
    }
    mass = std::move(next);
  }
  total.add(mass.back(), sum);
  if (tokens > 0) total.add(mass[static_cast<size_t>(2 * tokens - 1)], sum);

  Least least{0, 0};
  for (int64_t u = 0; u <= tokens; ++u) {
    const int64_t begin = u > 0 ? hypothesis.frames[static_cast<size_t>(u - 1)] : 0;
    const int64_t end = u < tokens ? hypothesis.frames[static_cast<size_t>(u)] : length;
    // Token u - 1 is emitted up to frame `run`, and blanks from there on.
    const bool again = u > 0 && u < tokens && token(u) == token(u - 1);
    const int64_t longest = u == 0 ? begin : again ? end - 1 : end;
    Least segment;
    for (int64_t run = u > 0 ? begin + 1 : begin; run <= longest; ++run) {
      double value = 0, variance = 0;
      for (int64_t t = begin; t < end; ++t) {
        const LatticeCell* cell = cells.find(t, t < run ? u - 1 : u);
        const LogProb& label = t < run ? cell->token : cell->blank;
        value += label.value;
        variance += label.variance;
      }
      segment.add(value, variance);
    }
    least = {least.value + segment.value, least.variance + segment.variance};
  }
  return between(least, total);
}

// This part fills the cells of beam_lattice.h from the network.

namespace {

/// Returns the next token of each cell's text. Behind the last token it is 0, which is not read.
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

/// Returns what a language model adds to a token's score. `logprob` is ln p_lm of the token. It may
/// be -inf, and 0 * -inf would be NaN.
double token_bonus(double logprob, const LmOptions& lm) {
  return (lm.alpha == 0 ? 0 : lm.alpha * logprob) + lm.beta;
}

/// Fuses a language model into a cell's labels. `logprob` is ln p_lm of the token.
void fuse_cell(LatticeCell& cell, double logprob, const LmOptions& lm) {
  cell.token.value += token_bonus(logprob, lm);
  if (lm.blank_scoring != "lm_weighted_full") return;
  const double blank = std::exp(cell.blank.value), rest = -std::expm1(cell.blank.value);
  cell.token.value += lm.alpha * std::log(std::max(rest, lm.blank_eps));
  if (rest > lm.blank_eps)
    cell.token.variance += std::pow(lm.alpha * blank / rest, 2) * cell.blank.variance;
  cell.least_blank = (1 + lm.alpha) * cell.blank.value;
}

/// Adds the scores of a language model to texts of CTC. They do not depend on the alignment.
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
      for (const double logprob : numbers(inputs.lm_scores(prefix).gather(1, next.unsqueeze(1))))
        sum += token_bonus(logprob, *rules.lm);
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
  const ReplayNetwork network = network_.penalised(rules.blank_penalty);
  const int64_t labels = network.labels(), durations = network.durations();
  const ReplayInputs inputs(network, *model_, batch, rows, hypotheses, rules.lm,
                            !rules.bias.empty());
  std::vector<std::vector<LatticeCell>> cells(rows.size());
  std::vector<LatticeCell> all;
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < rows.size(); ++i) {
    lengths.push_back(batch.lengths_host[static_cast<size_t>(rows[i])]);
    const auto own = lattice_cells(*hypotheses[i], static_cast<int64_t>(i), lengths.back());
    all.insert(all.end(), own.begin(), own.end());
  }
  const size_t chunk = network.rows_within(kChunkBytes);
  for (size_t first = 0; first < all.size(); first += chunk) {
    const size_t end = std::min(all.size(), first + chunk);
    std::vector<LatticeCell> part(all.begin() + static_cast<int64_t>(first),
                                  all.begin() + static_cast<int64_t>(end));
    const at::Tensor row = member_of(part, &LatticeCell::row, inputs.device());
    const at::Tensor prefix =
        inputs.prefixes_of(row, member_of(part, &LatticeCell::prefix, inputs.device()));
    const auto outputs = network.outputs(
        inputs.encoded_at(row, member_of(part, &LatticeCell::frame, inputs.device())),
        inputs.predictions_at(prefix));
    const at::Tensor next = next_tokens(part, hypotheses, inputs.device());
    const double temperature = rules.temperature;
    const auto blank = log_probs(
        network.log_prob(outputs, at::full_like(next, labels - 1), 0, labels, temperature));
    const auto token = log_probs(network.log_prob(outputs, next, 0, labels, temperature));
    const std::vector<double> logprob =
        inputs.lm && !ctc ? numbers(inputs.lm_scores(prefix).gather(1, next.unsqueeze(1)))
                          : std::vector<double>();
    for (size_t i = 0; i < part.size(); ++i) {
      part[i].blank = blank[i];
      part[i].token = token[i];
      part[i].least_blank = blank[i].value;
      if (!logprob.empty()) fuse_cell(part[i], logprob[i], *rules.lm);
    }
    for (int64_t d = 0; d < durations; ++d) {
      const auto duration = log_probs(
          network.log_prob(outputs, at::full_like(next, d), labels, durations, temperature));
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
    if (rules.may_be_unfinished(std::ssize(hypotheses[i]->tokens), lengths[i])) {
      results.emplace_back().has_bounds = false;
      continue;
    }
    results.push_back(
        transducer_scores(*hypotheses[i], lengths[i], cells[i],
                          durations > 0 ? model_->config.durations : std::vector<int64_t>{},
                          rules.is_monotonic(), growth));
  }
  if (inputs.lm && ctc) add_text_scores(results, inputs, hypotheses, rules);
  return results;
}

}  // namespace rtfx
