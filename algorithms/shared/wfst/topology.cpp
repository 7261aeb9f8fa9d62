#include "algorithms/shared/wfst/topology.h"

#include <algorithm>

#include "base/error.h"

namespace rtfx {

namespace {

void add_disambiguation_loops(TransducerArcs& t, int32_t state, const TokenLabels& labels) {
  for (int32_t k = 0; k < labels.disambiguation; ++k) t.add(state, state, 0, labels.symbol(k));
}

}  // namespace

const std::vector<std::string>& topology_names() {
  static const std::vector<std::string> names = {"normal", "compact", "tokens", "normal_riva"};
  return names;
}

std::string topology_name(Topology topology) {
  return topology_names()[static_cast<size_t>(topology)];
}

Topology parse_topology(const std::string& name, const std::string& where) {
  const auto& names = topology_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) throw unknown_name(where, "topology", name, names);
  return static_cast<Topology>(found - names.begin());
}

TransducerArcs token_transducer(Topology topology, const TokenLabels& labels) {
  const bool normal = topology == Topology::normal || topology == Topology::normal_riva;
  TransducerArcs t;
  if (topology == Topology::tokens) {
    t.states = 1;
    t.finals.emplace_back(0, 0.0f);
    add_disambiguation_loops(t, 0, labels);
    for (int32_t i = 1; i <= labels.tokens; ++i) t.add(0, 0, i, i);
    return t;
  }
  t.states = labels.tokens + 1;
  t.finals.emplace_back(0, 0.0f);
  t.add(0, 0, labels.blank(), 0);
  if (topology != Topology::normal_riva) add_disambiguation_loops(t, 0, labels);
  for (int32_t i = 1; i <= labels.tokens; ++i) {
    t.add(0, i, i, i);
    t.add(i, i, i, 0);
    t.add(i, 0, normal ? labels.blank() : 0, 0);
    if (!normal) continue;
    t.finals.emplace_back(i, 0.0f);
    add_disambiguation_loops(t, i, labels);
    for (int32_t j = 1; j <= labels.tokens; ++j) {
      if (j != i) t.add(i, j, j, j);
    }
  }
  return t;
}

}  // namespace rtfx
