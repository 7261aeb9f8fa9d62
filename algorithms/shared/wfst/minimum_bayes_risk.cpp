#include "algorithms/shared/wfst/minimum_bayes_risk.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

namespace rtfx {
namespace {

// Dropping a path's word costs a little more than writing it to a free place, so that words of
// paths are found at places.
constexpr double kDropped = 1 + 1e-5;

/// What paths have at a place of R.
struct Share {
  double probability = 0, begin = 0, end = 0;  // the latter two times the probability
};
using Places = std::vector<std::map<int32_t, Share>>;  // by word; 0: none

/// R with a free place, word 0, before, between and after its words.
std::vector<int32_t> with_free_places(const std::vector<int32_t>& words) {
  std::vector<int32_t> places(1, 0);
  for (const int32_t word : words) places.insert(places.end(), {word, 0});
  return places;
}

double replaced(int32_t path, int32_t place) { return path == place ? 0 : 1; }
double dropped(int32_t path) { return path == 0 ? 0 : kDropped; }

/// The recursion for one R, forth and back.
class EditRecursion {
 public:
  EditRecursion(const WordLattice& lattice, const LatticeScales& scales)
      : lattice_(lattice), into_(lattice.frame.size()) {
    const LatticePosteriors p = lattice_posteriors(lattice, scales);
    for (size_t i = 0; i < lattice.arcs.size(); ++i) {
      const WordLattice::Arc& arc = lattice.arcs[i];
      into_[place(arc.to)].push_back(i);
      share_.push_back(
          std::exp(p.forward[place(arc.from)] - scales.cost(arc) - p.forward[place(arc.to)]));
    }
  }

  /// The bound; `places` becomes what the paths have at each place of R.
  double run(const std::vector<int32_t>& r, Places& places) {
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
    collect(r, places);
    return distance_.back();
  }

 private:
  enum Step { kReplace, kDrop, kSkip };  // a path's word at a place; at none; no word at a place

  static size_t place(int32_t i) { return static_cast<size_t>(i); }

  /// row_: distances of the paths that end with an arc from the first q places.
  void align(size_t i, const std::vector<int32_t>& r) {
    const WordLattice::Arc& arc = lattice_.arcs[i];
    const double* before = &distance_[place(arc.from) * columns_];
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

  void collect(const std::vector<int32_t>& r, Places& places) {
    places.assign(r.size(), {});
    std::vector<double> weight(distance_.size(), 0), arc_weight(columns_);
    weight.back() = 1;
    for (size_t n = lattice_.frame.size() - 1; n > 0; --n) {
      for (const size_t i : into_[n]) {
        const WordLattice::Arc& arc = lattice_.arcs[i];
        align(i, r);
        const double* before = &distance_[place(arc.from) * columns_];
        double* weight_before = &weight[place(arc.from) * columns_];
        for (size_t q = 0; q < columns_; ++q) arc_weight[q] = share_[i] * weight[n * columns_ + q];
        for (size_t q = columns_ - 1; q > 0; --q) {
          const auto costs = steps(arc.word, r[q - 1], before, q);
          switch (std::ranges::min_element(costs) - costs.begin()) {
            case kReplace:
              weight_before[q - 1] += arc_weight[q];
              add(places[q - 1][arc.word], arc, arc_weight[q]);
              break;
            case kDrop:
              weight_before[q] += arc_weight[q];
              break;
            case kSkip:
              arc_weight[q - 1] += arc_weight[q];
              places[q - 1][0].probability += arc_weight[q];
          }
        }
        weight_before[0] += arc_weight[0];
      }
    }
    for (size_t q = columns_ - 1; q > 0; --q) {
      places[q - 1][0].probability += weight[q];
      weight[q - 1] += weight[q];
    }
  }

  void add(Share& share, const WordLattice::Arc& arc, double weight) const {
    share.probability += weight;
    share.begin += weight * lattice_.frame[place(arc.from)];
    share.end += weight * lattice_.frame[place(arc.to)];
  }

  const WordLattice& lattice_;
  std::vector<std::vector<size_t>> into_;  // [states] arcs
  std::vector<double> share_;              // of an arc among those into its state
  size_t columns_ = 0;
  std::vector<double> distance_, row_;  // [states, columns], [columns]
};

/// The most probable word of each place, of equal ones the lowest.
std::vector<int32_t> best_words(const Places& places) {
  std::vector<int32_t> words;
  for (const auto& shares : places) {
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
  Places places;
  double errors = recursion.run(with_free_places(words), places);
  for (;;) {
    const std::vector<int32_t> next = best_words(places);
    if (next == words) break;
    Places next_places;
    const double next_errors = recursion.run(with_free_places(next), next_places);
    if (!(next_errors < errors - 1e-9)) break;
    words = next;
    errors = next_errors;
    places = std::move(next_places);
  }
  MbrResult result;
  result.expected_errors = errors;
  for (size_t i = 0; i < words.size(); ++i) {
    const Share& share = places[2 * i + 1][words[i]];
    const double p = std::max(share.probability, std::numeric_limits<double>::min());
    result.words.push_back({words[i], std::min(p, 1.0), share.begin / p, share.end / p});
  }
  return result;
}

}  // namespace rtfx
