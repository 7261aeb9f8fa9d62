#include "algorithms/shared/biasing/phrase_tree.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "base/error.h"

namespace rtfx {
namespace {

constexpr int32_t kRoot = 0;

struct Node {
  int32_t parent = kRoot, token = -1, depth = 0;
  int32_t fail = kRoot;
  double score = 0;  // t
  double sum = 0;    // N
  bool whole = false;
  double earned = 0;
  std::map<int32_t, int32_t> children = {};
};

/// The prefix tree. Its nodes have the order in which phrases made them.
class Nodes {
 public:
  Nodes(const std::vector<PhraseTokens>& phrases, const TreeRules& rules) : rules_(rules) {
    nodes_.emplace_back();
    for (const PhraseTokens& phrase : phrases) add(phrase);
    order_.resize(nodes_.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::ranges::sort(order_, {}, [&](int32_t i) {
      const Node& n = node(i);
      return std::tuple(n.depth, n.parent, n.token);
    });
    for (const int32_t i : order_) link(i);
  }

  const Node& node(int32_t i) const { return nodes_[static_cast<size_t>(i)]; }
  /// Returns the nodes from the root on, parents before children.
  const std::vector<int32_t>& order() const { return order_; }

  /// Returns b(v).
  double back(int32_t i) const {
    const Node &n = node(i), &f = node(n.fail);
    if (rules_.nemo) return n.whole ? 0 : f.sum - n.sum;
    return pending(f) - pending(n);
  }
  double end(int32_t i) const { return rules_.nemo ? 0 : -pending(node(i)); }

 private:
  static double pending(const Node& n) { return n.sum - n.earned; }
  Node& node(int32_t i) { return nodes_[static_cast<size_t>(i)]; }

  void add(const PhraseTokens& phrase) {
    RTFX_CHECK(!phrase.tokens.empty(), "a phrase without tokens");
    int32_t at = kRoot, depth = 0;
    for (const int32_t token : phrase.tokens) {
      ++depth;
      const double score =
          depth == 1 ? phrase.weight : phrase.weight * rules_.depth_scaling + std::log(depth);
      const auto [child, is_new] =
          node(at).children.try_emplace(token, static_cast<int32_t>(nodes_.size()));
      const int32_t to = child->second;
      if (is_new) {
        nodes_.push_back({at, token, depth, kRoot, score});
      } else {
        node(to).score = std::max(rules_.nemo ? phrase.weight : score, node(to).score);
      }
      // NeMo does not update the sums of the nodes behind.
      node(to).sum = node(at).sum + node(to).score;
      at = to;
    }
    node(at).whole = true;
  }

  /// Computes everything that depends on nodes of smaller depth.
  void link(int32_t i) {
    if (i == kRoot) return;
    Node& n = node(i);
    if (n.parent != kRoot) {
      for (int32_t f = node(n.parent).fail;; f = node(f).fail) {
        const auto found = node(f).children.find(n.token);
        if (found != node(f).children.end()) n.fail = found->second;
        if (found != node(f).children.end() || f == kRoot) break;
      }
    }
    if (rules_.nemo) return;
    n.sum = node(n.parent).sum + n.score;
    // Either the last whole phrase of a best set ends here, or the set is that of the parent.
    n.earned = node(n.parent).earned;
    for (int32_t end = i; end != kRoot; end = node(end).fail) {
      if (!node(end).whole) continue;
      int32_t before = i;
      for (int32_t d = node(end).depth; d > 0; --d) before = node(before).parent;
      n.earned = std::max(n.earned, node(before).earned + node(end).sum);
    }
  }

  const TreeRules& rules_;
  std::vector<Node> nodes_;
  std::vector<int32_t> order_;
};

}  // namespace

PhraseTree make_phrase_tree(const std::vector<PhraseTokens>& phrases, const TreeRules& rules) {
  const Nodes nodes(phrases, rules);
  std::vector<int32_t> state_of(nodes.order().size());
  for (size_t state = 0; state < state_of.size(); ++state)
    state_of[static_cast<size_t>(nodes.order()[state])] = static_cast<int32_t>(state);
  const auto scaled = [&](double score) { return static_cast<float>(score * rules.scale); };

  PhraseTree tree;
  for (const int32_t i : nodes.order()) {
    tree.first_arc.push_back(static_cast<int32_t>(tree.arc_to.size()));
    std::map<int32_t, std::pair<float, int32_t>> arcs;
    float back = 0;  // from the state to `at`, summed in float32 like the steps along the links
    for (int32_t at = i; at != kRoot || i == kRoot; at = nodes.node(at).fail) {
      for (const auto& [token, child] : nodes.node(at).children) {
        arcs.try_emplace(token, back + scaled(nodes.node(child).score),
                         state_of[static_cast<size_t>(child)]);
      }
      if (at == kRoot) break;
      back += scaled(nodes.back(at));
    }
    for (const auto& [token, arc] : arcs) {
      tree.arc_token.push_back(token);
      tree.arc_score.push_back(arc.first);
      tree.arc_to.push_back(arc.second);
    }
    tree.to_root.push_back(i == kRoot ? scaled(rules.unknown) : back);
    tree.end.push_back(scaled(nodes.end(i)));
  }
  tree.first_arc.push_back(static_cast<int32_t>(tree.arc_to.size()));
  return tree;
}

}  // namespace rtfx
