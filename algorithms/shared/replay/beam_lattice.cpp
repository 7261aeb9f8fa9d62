#include "algorithms/shared/replay/beam_lattice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "algorithms/shared/replay/network.h"

namespace rtfx {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

/// ln of a sum of probabilities. Variances are averaged by weight: errors of alignments that share
/// cells are not independent.
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

/// Ways through the unknown of which the least probable counts.
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
      ReplayNetwork::kDeviations * std::sqrt(variance) + rounding_of_score(most.value);
  return replayed;
}

/// Tokens emitted before frame t, and by its end.
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

/// Durations of a label at a cell: RNN-T's are certain.
std::vector<Move> moves(const LatticeCell& cell, const std::vector<int64_t>& durations,
                        bool blank) {
  if (durations.empty()) return {{blank ? 1 : 0, {}}};
  std::vector<Move> all;
  for (size_t d = 0; d < durations.size(); ++d)
    all.push_back({blank ? std::max<int64_t>(1, durations[d]) : durations[d], cell.durations[d]});
  return all;
}

/// From frame `begin` over blanks to `target`; behind the last frame any place is the target.
Least over_blanks(const Cells& cells, int64_t prefix, int64_t begin, int64_t target, int64_t length,
                  const std::vector<int64_t>& durations) {
  if (begin >= length && target >= length) return {0, 0};
  if (target < begin) return {};
  std::vector<Least> at(static_cast<size_t>(target - begin + 1));
  at[0] = {0, 0};
  for (int64_t t = begin; t < target; ++t) {
    const Least here = at[static_cast<size_t>(t - begin)];
    const LatticeCell* cell = cells.find(t, prefix);
    if (!std::isfinite(here.value) || cell == nullptr) continue;
    for (const Move& move : moves(*cell, durations, true)) {
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
                    const std::vector<int64_t>& durations) {
  Least total{0, 0};
  const auto times = [&](double value, double variance) {
    total = {total.value + value, total.variance + variance};
  };
  int64_t begin = 0;
  for (size_t u = 0; u <= hypothesis.tokens.size(); ++u) {
    const bool token = u < hypothesis.tokens.size();
    const int64_t target = token ? hypothesis.frames[u] : std::max(begin, length);
    const auto prefix = static_cast<int64_t>(u);
    const Least blanks = over_blanks(cells, prefix, begin, target, length, durations);
    times(blanks.value, blanks.variance);
    if (!token) break;
    const LatticeCell* cell = cells.find(target, prefix);
    if (cell == nullptr) return {};
    times(cell->token.value, cell->token.variance);
    begin = target;
    if (durations.empty()) continue;
    const auto d = std::ranges::find(durations, hypothesis.durations[u]) - durations.begin();
    const LogProb& weight = cell->durations.at(static_cast<size_t>(d));
    times(weight.value, weight.variance);
    begin += hypothesis.durations[u];
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
                           const std::vector<int64_t>& durations, double growth) {
  const Cells cells(list);
  const auto tokens = static_cast<int64_t>(hypothesis.tokens.size());
  std::map<std::pair<int64_t, int64_t>, Mass> mass;  // by frame and tokens, in this order
  Mass total;
  mass[{0, 0}] = {0, 0};
  const auto arrive = [&](int64_t frame, int64_t prefix, const Mass& from) {
    if (frame < length && cells.find(frame, prefix) != nullptr)
      return mass[{frame, prefix}].add(from);
    if (frame >= length && prefix < tokens) return;  // another text
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
    for (const Move& move : moves(cell, durations, true))
      arrive(t + move.by, u, here.times(cell.blank).times(move.weight));
    if (u == tokens) continue;
    for (const Move& move : moves(cell, durations, false))
      arrive(t + move.by, u + 1, here.times(cell.token).times(move.weight));
  }
  return between(own_alignment(hypothesis, cells, length, durations), total);
}

Replayed ctc_scores(const Hypothesis& hypothesis, int64_t length,
                    const std::vector<LatticeCell>& list, bool sum) {
  const Cells cells(list);
  const auto tokens = static_cast<int64_t>(hypothesis.tokens.size());
  const auto token = [&](int64_t u) { return hypothesis.tokens[static_cast<size_t>(u)]; };
  // State 2 u: u tokens and a blank last, or nothing yet; state 2 u + 1: token u last.
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
        total.add(here, sum);  // leaves the band
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
    // Token u - 1 up to frame `run`, blanks from there on.
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

}  // namespace rtfx
