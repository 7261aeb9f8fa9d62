// Search of RNN-T and TDT for a whole batch over a graph of lexicon and grammar, with at most one
// token per frame. The search maximises, over token sequences y that the graph has,
//
//   score(y) = ln sum over alignments a of y of prod_t w(a_t | t, y_1 .. y_{u_t})
//              - alpha G(y) + beta |y|
//
// With blank_scoring no_score, w is the probability p of the model. With lm_weighted_full, which is
// the default, blank has w = p_b^(1 + alpha), and a token has w = p (1 - p_b)^alpha (fusion.h).
// Here p_b is the probability of blank at that place, and 1 - p_b is at least `blank_eps`. G(y) is
// the cost of the cheapest path of the graph that reads y and ends in a final state
// (token_graph.h). Alignments and steps are those of modified_beam_search (modified_beam_search.h),
// TDT's jumps included. At each frame, these parts are added to step 1 of modified_beam_search:
//
//   - A hypothesis has, beside its state of the prediction network, a set of graph states. Blank
//     keeps the set, and a token follows the graph's arcs.
//   - The `max_tokens` likeliest tokens are looked up in the graph. The others, and those that the
//     graph does not have behind the text, are impossible.
//   - A token's -ln p is its cost in the graph. It is fused as that of a language model (fusion.h),
//     by `alpha`, `beta` and `blank_scoring`.
//
// At the end, a hypothesis pays alpha times the cost of its cheapest final state. Hypotheses
// without one are dropped, unless all of their utterance are. The words of a result are those of
// its cheapest path.
//
// icefall's fast_beam_search has the same parts (k2's rnnt_decode.h: contexts, and states of an LG
// for each). Its contexts are the last tokens of a stateless network, and it keeps the best
// alignment. Here a hypothesis is a whole text, as networks with memory need it, and alignments are
// summed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/nbest_risk.h"
#include "algorithms/shared/batched/batched_search.h"
#include "algorithms/shared/beams/monotonic_beams.h"
#include "algorithms/shared/wfst/token_graph.h"

namespace rtfx {

struct TransducerWfstOptions {
  std::filesystem::path graph;  // a file of `rtfx graph build --topology tokens`
  double alpha = 0.2;           // weight of the graph's costs
  double beta = 1;              // bonus of each token; without it, a larger alpha misses words
  std::string blank_scoring = "lm_weighted_full";
  double blank_eps = kBlankEps;
  int64_t beam_size = 4;
  int64_t max_states = 16;  // graph states of a hypothesis
  int64_t max_tokens = 32;  // tokens that are looked up for a hypothesis at a frame; 0: all
  bool score_norm = true;
  int64_t nbest = 1;
  std::optional<MbrOptions> mbr;
  double temperature = 1;
  std::optional<PhraseBoostOptions> boost;
  std::vector<std::string> allowed;
  double blank_penalty = 0;
  std::optional<double> skip_blank;
  std::string loop = "host";

  static const OptionTable<TransducerWfstOptions>& table();
};

/// Waits for the device once per step, as modified_beam_search does. At the end it waits once for
/// each tensor of the results, because the host finds their words. With "loop": "graph" it waits
/// only at the end. Results are on the host. The counter `not_final` is the number of rows whose
/// words end in no final state. Ties are as in modified_beam_search.
class TransducerWfst : public BeamSearch<TransducerWfstOptions> {
 public:
  using BeamSearch::BeamSearch;

  Description describe() const override;
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override;
  Hypotheses decode(const EncodedBatch& batch) override;
  Counters counters() const override;
  std::unique_ptr<Streams> streams(const StreamLimits& limits) override;

 private:
  class State;
  Counters counts() const override;
  void reset_counts() override { steps_ = not_final_ = 0; }
  Hypotheses search(const EncodedBatch& batch, Loops& loops) override;
  std::vector<RowPiece> search_piece(const EncodedBatch& batch, bool last, RowState& state,
                                     HostReads& reads) override;
  State state_of(const EncodedBatch& batch);

  std::optional<Transducer> transducer_;
  std::optional<TokenGraph> graph_;
  LmOptions fusion_;
  int64_t steps_ = 0;
  int64_t not_final_ = 0;  // rows whose result ends in no final state
};

}  // namespace rtfx
