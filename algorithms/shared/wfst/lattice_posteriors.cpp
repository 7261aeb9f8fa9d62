#include "algorithms/shared/wfst/lattice_posteriors.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

namespace rtfx {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

double log_add(double a, double b) {
  const double most = std::max(a, b);
  return most == kNone ? kNone : most + std::log1p(std::exp(std::min(a, b) - most));
}

size_t place(int32_t i) { return static_cast<size_t>(i); }

}  // namespace

LatticePosteriors lattice_posteriors(const WordLattice& lattice, const LatticeScales& scales) {
  LatticePosteriors p;
  p.forward.assign(lattice.frame.size(), kNone);
  p.forward.front() = 0;
  std::vector<double> backward(lattice.frame.size(), kNone);
  backward.back() = 0;
  for (const WordLattice::Arc& arc : lattice.arcs) {
    double& to = p.forward[place(arc.to)];
    to = log_add(to, p.forward[place(arc.from)] - scales.cost(arc));
  }
  for (auto arc = lattice.arcs.rbegin(); arc != lattice.arcs.rend(); ++arc) {
    double& from = backward[place(arc->from)];
    from = log_add(from, backward[place(arc->to)] - scales.cost(*arc));
  }
  for (const WordLattice::Arc& arc : lattice.arcs) {
    p.arcs.push_back(std::exp(p.forward[place(arc.from)] - scales.cost(arc) +
                              backward[place(arc.to)] - p.total()));
  }
  return p;
}

std::vector<std::vector<WordPosterior>> words_by_frame(const WordLattice& lattice,
                                                       const LatticePosteriors& posteriors) {
  std::vector<std::map<int32_t, double>> sums(place(lattice.frame.back()));
  for (size_t i = 0; i < lattice.arcs.size(); ++i) {
    const WordLattice::Arc& arc = lattice.arcs[i];
    for (int32_t t = lattice.frame[place(arc.from)]; t < lattice.frame[place(arc.to)]; ++t)
      sums[place(t)][arc.word] += posteriors.arcs[i];
  }
  std::vector<std::vector<WordPosterior>> frames;
  for (const auto& words : sums) {
    auto& frame = frames.emplace_back();
    for (const auto& [word, probability] : words) frame.push_back({word, probability});
    std::ranges::stable_sort(frame, std::greater<>(), &WordPosterior::probability);
  }
  return frames;
}

std::vector<size_t> best_arcs(const WordLattice& lattice, const LatticeScales& scales) {
  constexpr size_t kStart = std::numeric_limits<size_t>::max();
  std::vector<double> least(lattice.frame.size(), -kNone);
  std::vector<size_t> last(lattice.frame.size(), kStart);
  least.front() = 0;
  for (size_t i = 0; i < lattice.arcs.size(); ++i) {
    const WordLattice::Arc& arc = lattice.arcs[i];
    const double cost = least[place(arc.from)] + scales.cost(arc);
    if (cost >= least[place(arc.to)]) continue;
    least[place(arc.to)] = cost;
    last[place(arc.to)] = i;
  }
  std::vector<size_t> path;
  for (size_t i = last.back(); i != kStart; i = last[place(lattice.arcs[i].from)])
    path.push_back(i);
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace rtfx
