#include "algorithms/shared/wfst/minimum_bayes_risk.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

namespace rtfx {
namespace {

// To drop a path's word costs a little more than to align it with a gap, so that the recursion
// prefers to find words at positions.
constexpr double kDropped = 1 + 1e-5;

/// The share of paths that have a word at a position of R.
struct Share {
  double probability = 0, begin = 0, end = 0;  // begin and end are multiplied by the probability
};
using Positions = std::vector<std::map<int32_t, Share>>;  // by word; 0: no word

/// Returns R with a gap, word 0, before, between and after its words.
std::vector<int32_t> with_gaps(const std::vector<int32_t>& words) {
  std::vector<int32_t> r(1, 0);
  for (const int32_t word : words) r.insert(r.end(), {word, 0});
  return r;
}

double replaced(int32_t path, int32_t reference) { return path == reference ? 0 : 1; }
double dropped(int32_t path) { return path == 0 ? 0 : kDropped; }

/// The recursion for one R, forwards and backwards.
class EditRecursion {
 public:
  EditRecursion(const WordLattice& lattice, const LatticeScales& scales)
      : lattice_(lattice), into_(lattice.frame.size()) {
    const LatticePosteriors p = lattice_posteriors(lattice, scales);
    for (size_t i = 0; i < lattice.arcs.size(); ++i) {
      const WordLattice::Arc& arc = lattice.arcs[i];
      into_[index(arc.to)].push_back(i);
      share_.push_back(
          std::exp(p.forward[index(arc.from)] - scales.cost(arc) - p.forward[index(arc.to)]));
    }
  }

  /// Returns the bound, and sets `positions` to the words that paths have at each position of R.
  double run(const std::vector<int32_t>& r, Positions& positions) {
    columns_ = r.size() + 1;
    const size_t states = lattice_.frame.size();
    distance_.assign(states * columns_, 0);
    row_.resize(columns_);
    for (size_t q = 1; q < columns_; ++q) distance_[q] = distance_[q - 1] + replaced(0, r[q - 1]);
    for (size_t n = 1; n < states; ++n) {
      for (const size_t i : into_[n]) {
        align(i, r);
        for (size_t q = 0; q < columns_; ++q) distance_[n * columns_ + q] += share_[i] * row_[q];
      }
    }
    collect(r, positions);
    return distance_.back();
  }

 private:
  /// A path's word is at a position, at no position, or the path has no word at a position.
  enum Step { kReplace, kDrop, kSkip };

  static size_t index(int32_t i) { return static_cast<size_t>(i); }

  /// Sets row_[q] to the distance of the paths that end with an arc from the first q positions.
  void align(size_t i, const std::vector<int32_t>& r) {
    const WordLattice::Arc& arc = lattice_.arcs[i];
    const double* before = &distance_[index(arc.from) * columns_];
    row_[0] = before[0] + dropped(arc.word);
    for (size_t q = 1; q < columns_; ++q) {
      const auto costs = steps(arc.word, r[q - 1], before, q);
      row_[q] = *std::ranges::min_element(costs);
    }
  }

  std::array<double, 3> steps(int32_t word, int32_t at, const double* before, size_t q) const {
    return {before[q - 1] + replaced(word, at), before[q] + dropped(word),
            row_[q - 1] + replaced(0, at)};
  }

  void collect(const std::vector<int32_t>& r, Positions& positions) {
    positions.assign(r.size(), {});
    std::vector<double> weight(distance_.size(), 0), arc_weight(columns_);
    weight.back() = 1;
    for (size_t n = lattice_.frame.size() - 1; n > 0; --n) {
      for (const size_t i : into_[n]) {
        const WordLattice::Arc& arc = lattice_.arcs[i];
        align(i, r);
        const double* before = &distance_[index(arc.from) * columns_];
        double* weight_before = &weight[index(arc.from) * columns_];
        for (size_t q = 0; q < columns_; ++q) arc_weight[q] = share_[i] * weight[n * columns_ + q];
        for (size_t q = columns_ - 1; q > 0; --q) {
          const auto costs = steps(arc.word, r[q - 1], before, q);
          switch (std::ranges::min_element(costs) - costs.begin()) {
            case kReplace:
              weight_before[q - 1] += arc_weight[q];
              add(positions[q - 1][arc.word], arc, arc_weight[q]);
              break;
            case kDrop:
              weight_before[q] += arc_weight[q];
              break;
            case kSkip:
              arc_weight[q - 1] += arc_weight[q];
              positions[q - 1][0].probability += arc_weight[q];
          }
        }
        weight_before[0] += arc_weight[0];
      }
    }
    for (size_t q = columns_ - 1; q > 0; --q) {
      positions[q - 1][0].probability += weight[q];
      weight[q - 1] += weight[q];
    }
  }

  void add(Share& share, const WordLattice::Arc& arc, double weight) const {
    share.probability += weight;
    share.begin += weight * lattice_.frame[index(arc.from)];
    share.end += weight * lattice_.frame[index(arc.to)];
  }

  const WordLattice& lattice_;
  std::vector<std::vector<size_t>> into_;  // [states] arcs
  std::vector<double> share_;              // [arcs] share of an arc among the arcs into its state
  size_t columns_ = 0;
  std::vector<double> distance_, row_;  // [states, columns], [columns]
};

/// Returns the most probable word of each position, the lowest one of equal words.
std::vector<int32_t> best_words(const Positions& positions) {
  std::vector<int32_t> words;
  for (const auto& shares : positions) {
    const auto best = std::ranges::max_element(
        shares, {}, [](const auto& share) { return share.second.probability; });
    if (best != shares.end() && best->first != 0) words.push_back(best->first);
  }
  return words;
}

}  // namespace

MbrResult minimum_bayes_risk(const WordLattice& lattice, const LatticeScales& scales) {
  EditRecursion recursion(lattice, scales);
  std::vector<int32_t> words;
  for (const size_t i : best_arcs(lattice, scales))
    if (lattice.arcs[i].word != 0) words.push_back(lattice.arcs[i].word);
  Positions positions;
  double errors = recursion.run(with_gaps(words), positions);
  for (;;) {
    const std::vector<int32_t> next = best_words(positions);
    if (next == words) break;
    Positions next_positions;
    const double next_errors = recursion.run(with_gaps(next), next_positions);
    if (!(next_errors < errors - 1e-9)) break;
    words = next;
    errors = next_errors;
    positions = std::move(next_positions);
  }
  MbrResult result;
  result.expected_errors = errors;
  for (size_t i = 0; i < words.size(); ++i) {
    const Share& share = positions[2 * i + 1][words[i]];
    const double p = std::max(share.probability, std::numeric_limits<double>::min());
    result.words.push_back({words[i], std::min(p, 1.0), share.begin / p, share.end / p});
  }
  return result;
}

}  // namespace rtfx
