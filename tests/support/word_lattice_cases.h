// Small random lattices of words, and all paths of a lattice.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "algorithms/shared/wfst/word_lattice.h"

namespace rtfx::test {

struct LatticePath {
  std::vector<size_t> arcs;
  std::vector<int32_t> words;
  double cost = 0;         // with both scales 1
  double probability = 0;  // among all paths, with the given scales
};

inline std::vector<LatticePath> every_path(const WordLattice& lattice,
                                           const LatticeScales& scales = {}) {
  std::vector<LatticePath> paths;
  LatticePath path;
  double total = 0;
  const std::function<void(int32_t)> walk = [&](int32_t state) {
    if (state == lattice.states() - 1) {
      LatticePath& made = paths.emplace_back(path);
      double cost = 0;
      for (const size_t i : path.arcs) {
        const WordLattice::Arc& arc = lattice.arcs[i];
        if (arc.word != 0) made.words.push_back(arc.word);
        made.cost += arc.graph_cost + arc.acoustic_cost;
        cost += scales.cost(arc);
      }
      made.probability = std::exp(-cost);
      total += made.probability;
      return;
    }
    for (size_t i = 0; i < lattice.arcs.size(); ++i) {
      if (lattice.arcs[i].from != state) continue;
      path.arcs.push_back(i);
      walk(lattice.arcs[i].to);
      path.arcs.pop_back();
    }
  };
  walk(0);
  for (LatticePath& made : paths) made.probability /= total;
  return paths;
}

/// Returns a lattice of `columns` states between the start and the end, each with a frame of its
/// own. One to three arcs leave each state. Words are 1 to 3, and arcs from the start may also have
/// word 0.
inline WordLattice random_lattice(int32_t columns, uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](int32_t n) { return std::uniform_int_distribution(0, n - 1)(random); };
  WordLattice lattice;
  const int32_t end = columns + 1;
  for (int32_t s = 0; s <= end; ++s) lattice.frame.push_back(s);
  for (int32_t s = 0; s < end; ++s) {
    const auto add = [&](int32_t to) {
      const double graph = 0.25 * below(8), acoustic = 0.25 * below(8);
      lattice.arcs.push_back({s, to, s == 0 ? below(4) : 1 + below(3), graph, acoustic, 0});
    };
    add(s + 1);
    for (int32_t more = below(3); more > 0; --more) add(s + 1 + below(std::min(2, end - s)));
  }
  std::ranges::sort(lattice.arcs, {}, &WordLattice::Arc::order);
  return lattice;
}

}  // namespace rtfx::test
