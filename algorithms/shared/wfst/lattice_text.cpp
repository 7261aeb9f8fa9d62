#include "algorithms/shared/wfst/lattice_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <vector>

namespace rtfx {
namespace {

std::string_view symbol(const WfstGraph& graph, int32_t word) {
  return word == 0 ? "<eps>" : graph.word(word);
}

}  // namespace

std::string kaldi_text(const WordLattice& lattice, std::string_view key) {
  std::string text = fmt::format("{}\n", key);
  for (const WordLattice::Arc& arc : lattice.arcs) {
    std::vector<int32_t> labels;
    for (const int32_t column : lattice.labels_of(arc)) labels.push_back(column + 1);
    fmt::format_to(std::back_inserter(text), "{}\t{}\t{}\t{:.7g},{:.7g},{}\n", arc.from, arc.to,
                   arc.word, arc.graph_cost, arc.acoustic_cost, fmt::join(labels, "_"));
  }
  fmt::format_to(std::back_inserter(text), "{}\n\n", lattice.states() - 1);
  return text;
}

std::string openfst_text(const WordLattice& lattice, const WfstGraph& graph,
                         const LatticeScales& scales) {
  std::string text;
  for (const WordLattice::Arc& arc : lattice.arcs) {
    fmt::format_to(std::back_inserter(text), "{}\t{}\t{}\t{:.7g}\n", arc.from, arc.to,
                   symbol(graph, arc.word), scales.cost(arc));
  }
  fmt::format_to(std::back_inserter(text), "{}\n", lattice.states() - 1);
  return text;
}

std::string symbol_table(const WfstGraph& graph) {
  std::string text;
  for (int32_t word = 0; word <= graph.words(); ++word)
    fmt::format_to(std::back_inserter(text), "{}\t{}\n", symbol(graph, word), word);
  return text;
}

}  // namespace rtfx
