#include "algorithms/shared/wfst/word_lattice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <queue>
#include <vector>

#include "base/error.h"

namespace rtfx {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Makes arcs of words: from each token at which a word starts to the next such tokens.
class WordLatticeMaker {
 public:
  WordLatticeMaker(const GraphView& graph, const WfstLattice& lattice,
                   std::span<const WfstLattice::End> ends, const SearchScores& scores)
      : graph_(graph), lattice_(lattice), scores_(scores), end_slack_(lattice.tokens(), kNever) {
    for (const auto& end : ends) {
      double& slack = end_slack_[index(end.token)];
      slack = std::min<double>(slack, end.slack);
    }
    find_links_out();
    order_tokens();
    find_rests();
    slack_.assign(lattice.tokens(), kNever);
    last_link_.assign(lattice.tokens(), -1);
  }

  WordLattice make() {
    number_states();
    for (const int32_t token : order_) {
      if (state_of_[index(token)] < 0) continue;
      std::map<int32_t, std::vector<int64_t>> by_word;
      for (const int64_t l : out_[index(token)])
        if (const int32_t word = word_of(l); word != 0) by_word[word].push_back(l);
      if (token == order_.front()) follow(token, 0, {});
      for (const auto& [word, links] : by_word) follow(token, word, links);
    }
    std::sort(made_.arcs.begin(), made_.arcs.end(),
              [](const auto& a, const auto& b) { return a.order() < b.order(); });
    return std::move(made_);
  }

 private:
  static size_t index(int64_t i) { return static_cast<size_t>(i); }
  const WfstLattice::Link& link(int64_t l) const { return lattice_.links[index(l)]; }
  int32_t word_of(int64_t l) const { return graph_.shown(graph_.arcs[link(l).arc].word); }

  void find_links_out() {
    out_.resize(lattice_.tokens());
    for (size_t l = 0; l < lattice_.links.size(); ++l)
      out_[index(lattice_.links[l].from)].push_back(static_cast<int64_t>(l));
  }

  /// Finds a topological order, and the number of frames of the paths to each token.
  void order_tokens() {
    const size_t tokens = lattice_.tokens();
    std::vector<size_t> missing(tokens);
    rank_.assign(tokens, -1);
    frame_.assign(tokens, 0);
    for (size_t i = 0; i < tokens; ++i) {
      missing[i] = lattice_.first_link[i + 1] - lattice_.first_link[i];
      if (missing[i] == 0) order_.push_back(static_cast<int32_t>(i));
    }
    RTFX_CHECK(order_.size() == 1, "a lattice has one start");
    for (size_t i = 0; i < order_.size(); ++i) {
      const int32_t token = order_[i];
      rank_[index(token)] = static_cast<int32_t>(i);
      for (const int64_t l : out_[index(token)]) {
        const size_t to = index(link(l).to);
        frame_[to] = frame_[index(token)] + (graph_.arcs[link(l).arc].column >= 0);
        if (--missing[to] == 0) order_.push_back(link(l).to);
      }
    }
    RTFX_CHECK(order_.size() == tokens, "a lattice has no cycle");
  }

  /// Finds the least slack from each token to the end, and the least slack that begins with a word.
  void find_rests() {
    rest_ = end_slack_;
    rest_with_word_.assign(rest_.size(), kNever);
    for (auto token = order_.rbegin(); token != order_.rend(); ++token) {
      for (const int64_t l : out_[index(*token)]) {
        const double slack = link(l).slack + rest_[index(link(l).to)];
        double& rest = rest_[index(*token)];
        rest = std::min(rest, slack);
        double& with_word = rest_with_word_[index(*token)];
        if (word_of(l) != 0) with_word = std::min(with_word, slack);
      }
    }
  }

  /// Numbers the tokens that become states. The best way from the start to any token has slack 0,
  /// so the rest of the path alone decides.
  void number_states() {
    state_of_.assign(rest_.size(), -1);
    int32_t frames = 0;
    for (const int32_t token : order_) {
      if (end_slack_[index(token)] < kNever) frames = std::max(frames, frame_[index(token)]);
      if (token != order_.front() && rest_with_word_[index(token)] > lattice_.beam) continue;
      state_of_[index(token)] = made_.states();
      made_.frame.push_back(frame_[index(token)]);
    }
    made_.frame.push_back(frames);
  }

  void reach(int64_t l, double slack) {
    const int32_t to = link(l).to;
    if (slack + rest_[index(to)] > lattice_.beam || slack >= slack_[index(to)]) return;
    if (slack_[index(to)] == kNever) open_.push(rank_[index(to)]);
    slack_[index(to)] = slack;
    last_link_[index(to)] = l;
  }

  /// Adds the arcs from `from` with `word`, where 0 means no word. `first` are the links with the
  /// word.
  void follow(int32_t from, int32_t word, const std::vector<int64_t>& first) {
    std::vector<int32_t> reached;
    int32_t last = -1;
    double least = lattice_.beam;
    for (const int64_t l : first) reach(l, link(l).slack);
    if (word == 0) {
      slack_[index(from)] = 0;
      open_.push(rank_[index(from)]);
    }
    while (!open_.empty()) {
      const int32_t token = order_[index(open_.top())];
      open_.pop();
      reached.push_back(token);
      const double slack = slack_[index(token)];
      if (token != from && state_of_[index(token)] >= 0 &&
          slack + rest_with_word_[index(token)] <= lattice_.beam)
        add_arc(from, word, token, state_of_[index(token)]);
      const double whole = slack + end_slack_[index(token)];
      if (whole < least || (last < 0 && whole <= least)) {
        least = whole;
        last = token;
      }
      for (const int64_t l : out_[index(token)])
        if (word_of(l) == 0) reach(l, slack + link(l).slack);
    }
    if (last >= 0) {
      add_arc(from, word, last, made_.states() - 1);
      if (scores_.reached_final)
        made_.arcs.back().graph_cost += graph_.final_cost[graph_state(last)];
    }
    for (const int32_t token : reached) {
      slack_[index(token)] = kNever;
      last_link_[index(token)] = -1;
    }
  }

  int32_t graph_state(int32_t token) const {
    const size_t first = lattice_.first_link[index(token)];
    if (first == lattice_.first_link[index(token) + 1]) return graph_.start;
    return graph_.arcs[lattice_.links[first].arc].next;
  }

  void add_arc(int32_t from, int32_t word, int32_t token, int32_t to_state) {
    WordLattice::Arc made{state_of_[index(from)], to_state, word, 0, 0, made_.labels.size()};
    for (int32_t t = token; last_link_[index(t)] >= 0;) {
      const WfstLattice::Link& last = link(last_link_[index(t)]);
      const GraphArc& arc = graph_.arcs[last.arc];
      made.graph_cost += arc.cost;
      if (arc.word != 0 && !scores_.word_costs.empty())
        made.graph_cost += scores_.word_costs[index(arc.word)];
      t = last.from;
      if (arc.column >= 0) {
        made.acoustic_cost -=
            scores_.lp[frame_[index(t)] * scores_.stride + arc.column] / scores_.acoustic_scale;
        made_.labels.push_back(arc.column);
      }
      if (t == from) break;
    }
    std::reverse(made_.labels.begin() + static_cast<ptrdiff_t>(made.first_label),
                 made_.labels.end());
    made_.arcs.push_back(made);
  }

  const GraphView& graph_;
  const WfstLattice& lattice_;
  const SearchScores& scores_;
  std::vector<double> end_slack_, rest_, rest_with_word_;  // [tokens]
  std::vector<std::vector<int64_t>> out_;                  // [tokens] numbers of links that leave
  std::vector<int32_t> order_, rank_, frame_, state_of_;
  WordLattice made_;
  // Scratch of follow().
  std::vector<double> slack_;
  std::vector<int64_t> last_link_;
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> open_;
};

}  // namespace

std::span<const int32_t> WordLattice::labels_of(const Arc& arc) const {
  const int32_t frames = frame[static_cast<size_t>(arc.to)] - frame[static_cast<size_t>(arc.from)];
  return std::span(labels).subspan(arc.first_label, static_cast<size_t>(frames));
}

WordLattice word_lattice(const GraphView& graph, const WfstLattice& lattice,
                         std::span<const WfstLattice::End> ends, const SearchScores& scores) {
  return WordLatticeMaker(graph, lattice, ends, scores).make();
}

namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

double log_add(double a, double b) {
  const double most = std::max(a, b);
  return most == kNone ? kNone : most + std::log1p(std::exp(std::min(a, b) - most));
}

size_t index(int32_t i) { return static_cast<size_t>(i); }

}  // namespace

LatticePosteriors lattice_posteriors(const WordLattice& lattice, const LatticeScales& scales) {
  LatticePosteriors p;
  p.forward.assign(lattice.frame.size(), kNone);
  p.forward.front() = 0;
  std::vector<double> backward(lattice.frame.size(), kNone);
  backward.back() = 0;
  for (const WordLattice::Arc& arc : lattice.arcs) {
    double& to = p.forward[index(arc.to)];
    to = log_add(to, p.forward[index(arc.from)] - scales.cost(arc));
  }
  for (auto arc = lattice.arcs.rbegin(); arc != lattice.arcs.rend(); ++arc) {
    double& from = backward[index(arc->from)];
    from = log_add(from, backward[index(arc->to)] - scales.cost(*arc));
  }
  for (const WordLattice::Arc& arc : lattice.arcs) {
    p.arcs.push_back(std::exp(p.forward[index(arc.from)] - scales.cost(arc) +
                              backward[index(arc.to)] - p.total()));
  }
  return p;
}

std::vector<std::vector<WordPosterior>> words_by_frame(const WordLattice& lattice,
                                                       const LatticePosteriors& posteriors) {
  std::vector<std::map<int32_t, double>> sums(index(lattice.frame.back()));
  for (size_t i = 0; i < lattice.arcs.size(); ++i) {
    const WordLattice::Arc& arc = lattice.arcs[i];
    for (int32_t t = lattice.frame[index(arc.from)]; t < lattice.frame[index(arc.to)]; ++t)
      sums[index(t)][arc.word] += posteriors.arcs[i];
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
    const double cost = least[index(arc.from)] + scales.cost(arc);
    if (cost >= least[index(arc.to)]) continue;
    least[index(arc.to)] = cost;
    last[index(arc.to)] = i;
  }
  std::vector<size_t> path;
  for (size_t i = last.back(); i != kStart; i = last[index(lattice.arcs[i].from)])
    path.push_back(i);
  std::reverse(path.begin(), path.end());
  return path;
}

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
  for (int32_t word = 0; word <= graph.words(); ++word) {
    const std::string_view name = symbol(graph, word);
    // An imported word table may skip numbers, and OpenFst refuses a line without a word.
    if (graph.view().shown(word) == word && !name.empty())
      fmt::format_to(std::back_inserter(text), "{}\t{}\n", name, word);
  }
  return text;
}

namespace {

// Dropping a word of a path costs a little more than aligning it with a gap, so that the recursion
// prefers to find words at positions.
constexpr double kDropped = 1 + 1e-5;

/// The share of paths that have a word at a position of R.
struct Share {
  double probability = 0, begin = 0, end = 0;  // begin and end are multiplied by the probability
};
using Positions = std::vector<std::map<int32_t, Share>>;  // by word; 0 stands for no word

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
  /// A path's word is at a position, or at no position, or the path has no word at a position.
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

/// Makes neighbours that overlap, or are out of order, share their time in proportion to their
/// lengths. The times of two words may be means over different paths, and CTM must be in order.
/// Kaldi (sausages.cc) has this rule.
void separate(std::vector<MbrWord>& words) {
  double done = 0;  // end of the word before `a`
  for (size_t i = 1; i < words.size(); ++i) {
    MbrWord &a = words[i - 1], &b = words[i];
    if (a.end > b.begin) {
      const double left = std::max(done, std::min(a.begin, b.begin));
      const double right = std::max(a.end, b.end);
      const double length = a.end - a.begin, both = length + (b.end - b.begin);
      const double share = both > 0 ? length / both : 0;
      a.begin = left;
      a.end = b.begin = std::min(left + (right - left) * share, right);
      b.end = right;
    }
    done = a.end;
  }
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
  separate(result.words);
  return result;
}

}  // namespace rtfx
