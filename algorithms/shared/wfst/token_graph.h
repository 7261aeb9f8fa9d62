// A graph of lexicon and grammar without the topology of CTC, which searches of transducers use.
// Its arcs read tokens, or nothing, and write words. A text is a sequence of tokens. Each text has
// a set of graph states, those that its tokens lead to, and the cost of the best way to each:
//
//   c(y, s) = min over paths from the start to state s that read y, of the sum of their costs
//   G(y)    = min over states s of c(y, s)
//
// The next token k of a text then costs G(y k) - G(y), which is fused with a transducer's scores
// like the -ln p of a language model. The end of the text costs
// min over s of (c(y, s) + final cost of s) - G(y).
//
// This is determinisation while the search runs: scores of alignments are summed for each text, and
// no path through the graph is counted twice. Arcs that read nothing (back-off, ends of words that
// begin other words) are followed as paths of their own, with their costs. So a back-off is taken
// if it costs less than the n-gram itself, as in every search of such a static graph.
//
// A set keeps its `max_states` cheapest states. Among equal costs the lowest state number is kept.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "algorithms/shared/wfst/graph.h"
#include "algorithms/shared/wfst/search.h"

namespace rtfx {

struct AcousticModel;

/// Maps a graph of topology `tokens`. Throws UserError if it has another topology, an arc of blank,
/// or was built for another tokenizer than the model's.
WfstGraph load_token_graph(const std::filesystem::path& path, const AcousticModel& model);

/// The sets of R texts, as tensors that keep their addresses. Costs are relative to G(y), and those
/// at the start to 0.
struct GraphStates {
  at::Tensor states;  // [R, S] int64; 0 where the set has fewer
  at::Tensor costs;   // [R, S] float32, natural logarithm; +infinity where the set has fewer
};

/// The graph on a device. No member but the constructor waits for the device, and those that take
/// tensors can be recorded into a graph.
class TokenGraph {
 public:
  /// `where` names the graph in errors. Throws UserError if no arc reads a token or nothing follows
  /// the start. Throws it, too, if a state has more than 64 arcs of one token, or if more than 256
  /// states follow it without a token. Graphs that were not determinised can be so.
  TokenGraph(WfstGraph graph, int64_t max_states, at::Device device, const std::string& where);

  /// Returns the sets of `rows` texts at their start.
  GraphStates start(int64_t rows) const;

  /// Returns the costs of tokens [R, N] int64 as next tokens of the texts, [R, N] float32. A token
  /// that the graph does not have there costs +infinity.
  at::Tensor costs(const GraphStates& texts, const at::Tensor& tokens) const;

  /// Does one step: each row becomes the text of row from[r], followed by tokens[r] if is_token[r].
  /// All are [R].
  void advance(GraphStates& texts, const at::Tensor& from, const at::Tensor& tokens,
               const at::Tensor& is_token) const;

  /// Returns the costs of ending the texts here, [R] float32; +infinity where no state is final.
  at::Tensor final_costs(const GraphStates& texts) const;

  /// Returns the words of a text on the host, from the same sets in the same arithmetic. frames[i]
  /// is the frame of tokens[i]; a word has the frame of the token on whose arc it is, or before it.
  /// The path ends in its cheapest final state. Without one, it ends in its cheapest state, and
  /// `reached_final` is false. `alive` is false if the graph does not have the text. `cost` is the
  /// cost of the path.
  WfstPath words(std::span<const int32_t> tokens, std::span<const int32_t> frames) const;

  const WfstGraph& graph() const { return graph_; }

 private:
  void make_tables(at::Device device, const std::string& where);

  WfstGraph graph_;
  int64_t max_states_;
  int64_t vocabulary_ = 0;
  int64_t parallel_ = 1;  // most arcs of one token from one state

  // Arcs of tokens, sorted by state and token. E arcs.
  at::Tensor keys_;    // [E] int64, state * V + token
  at::Tensor next_;    // [E] int64
  at::Tensor arc_;     // [E] float32, cost
  at::Tensor totals_;  // [E] float32, cost of the arc and of its cheapest useful state

  // The useful states that follow each state without a token, itself included: C at most.
  at::Tensor closure_states_;  // [states, C] int64
  at::Tensor closure_costs_;   // [states, C] float32, +infinity where there are fewer
  at::Tensor final_;           // [states] float32, of the state itself
  GraphStates start_;          // [1, S]
};

}  // namespace rtfx
