#include "algorithms/shared/wfst/search.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <queue>
#include <set>
#include <span>
#include <tuple>

#include "models/parallel.h"

namespace rtfx {

void read_path(const GraphView& graph, std::span<const int32_t> arcs, WfstPath& path) {
  const int32_t blank = graph.columns - 1;
  int32_t state = graph.start, frames = 0;
  for (const int32_t number : arcs) {
    const GraphArc& arc = graph.arcs[number];
    const bool emitting = arc.column >= 0;
    const int32_t frame = emitting || frames == 0 ? frames : frames - 1;
    if (arc.word != 0) {
      path.words.push_back(graph.shown(arc.word));
      path.word_frames.push_back(frame);
    }
    if (emitting && arc.column != blank && (arc.next != state || arc.word != 0)) {
      path.tokens.push_back(arc.column);
      path.token_frames.push_back(frame);
    }
    frames += emitting;
    state = arc.next;
  }
}

namespace {

constexpr int64_t kTokensOfAThread = 1 << 14;  // fewer are not worth a thread

/// The rest of a path, from a token to its end.
struct Rest {
  double slack;
  int32_t detours;  // number of links and ends that are not the best of their token
  int64_t number;   // index in the order of creation
  int32_t token;
  int32_t words;  // number of the rest's word sequence
  int32_t arc;    // first arc of the rest; -1 if the rest is empty
  int64_t after;  // number of the rest behind that arc

  auto rank() const { return std::tuple(slack, detours, number); }
  bool operator>(const Rest& other) const { return rank() > other.rank(); }
};

}  // namespace

void WfstLattice::add_tokens(int64_t count, std::span<const Link> into) {
  if (first_link.empty()) first_link.push_back(0);
  const size_t first = tokens(), before = links.size();
  first_link.resize(first_link.size() + static_cast<size_t>(count));
  const std::span<size_t> ends = std::span(first_link).subspan(first + 1);
  for (const Link& link : into) ++ends[static_cast<size_t>(link.to) - first];
  std::exclusive_scan(ends.begin(), ends.end(), ends.begin(), before);
  // Each end is the place of its token's next link. It finally stands behind the token's last link.
  links.resize(before + into.size());
  for (const Link& link : into) links[ends[static_cast<size_t>(link.to) - first]++] = link;
  const auto sort = [&](int64_t begin, int64_t end) {
    for (auto i = first + static_cast<size_t>(begin); i < first + static_cast<size_t>(end); ++i)
      std::ranges::sort(std::span(links).subspan(first_link[i], first_link[i + 1] - first_link[i]),
                        {}, &Link::order);
  };
  parallel_ranges(count, sort, kTokensOfAThread);
}

/// Runs Dijkstra's search from the end to the start. The rest with the least slack comes first. The
/// best way from the start to any token has slack 0, so the slack of a rest is the slack of the
/// whole path. Two rests from the same token with the same words differ only in their times, and
/// the first one is the best.
std::vector<WfstPath> best_paths(const GraphView& graph, const WfstLattice& lattice,
                                 std::span<const WfstLattice::End> ends, const WfstPath& best,
                                 int64_t count) {
  std::vector<WfstPath> paths;
  std::vector<Rest> rests;
  std::priority_queue<Rest, std::vector<Rest>, std::greater<>> open;
  std::map<std::pair<int32_t, int32_t>, int32_t> sequences;  // (word, words behind it) -> number
  std::set<std::pair<int32_t, int32_t>> seen;                // (token, words)
  const auto push = [&](Rest rest) {
    if (rest.slack > lattice.beam) return;
    rest.number = static_cast<int64_t>(rests.size());
    rests.push_back(rest);
    open.push(rest);
  };
  for (size_t i = 0; i < ends.size(); ++i)
    push({ends[i].slack, i > 0, 0, ends[i].token, 0, -1, -1});
  while (!open.empty() && static_cast<int64_t>(paths.size()) < count) {
    const Rest rest = open.top();
    open.pop();
    if (!seen.emplace(rest.token, rest.words).second) continue;
    const auto token = static_cast<size_t>(rest.token);
    if (lattice.first_link[token] == lattice.first_link[token + 1]) {  // the start
      std::vector<int32_t> arcs;
      for (const Rest* r = &rest; r->arc >= 0; r = &rests[static_cast<size_t>(r->after)])
        arcs.push_back(r->arc);
      WfstPath path;
      path.cost = best.cost + rest.slack;
      path.reached_final = best.reached_final;
      read_path(graph, arcs, path);
      paths.push_back(std::move(path));
      continue;
    }
    for (size_t i = lattice.first_link[token]; i < lattice.first_link[token + 1]; ++i) {
      const WfstLattice::Link& link = lattice.links[i];
      int32_t words = rest.words;
      if (const int32_t word = graph.shown(graph.arcs[link.arc].word); word != 0) {
        const auto next = static_cast<int32_t>(sequences.size()) + 1;
        words = sequences.try_emplace({word, rest.words}, next).first->second;
      }
      push({rest.slack + link.slack, rest.detours + (i > lattice.first_link[token]), 0, link.from,
            words, link.arc, rest.number});
    }
  }
  return paths;
}

}  // namespace rtfx
