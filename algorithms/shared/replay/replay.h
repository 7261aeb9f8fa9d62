// Proof by replay. It checks whether each decision of a hypothesis is the best one, up to rounding,
// along the hypothesis's own path. Two correct decoders may choose different tokens in bf16 and
// follow different paths from there on; both pass. A wrong decoder fails, whatever it is compared
// with.
//
// Greedy search with RNN-T: the token must be the best label at its frame. Blank must be the best
// label at every frame that is passed on the way to the token. Each decision is made given the
// tokens before. After max_symbols tokens at a frame the search leaves it without a decision.
// Greedy search with TDT: the duration of each label is checked, too. A token's duration is in the
// hypothesis, but a blank's is not. So there must be a chain of blanks, each with its duration (0
// counts as 1) within rounding. It leads from where a token's duration ends to the next token's
// frame, or behind the last frame.
// Greedy search with CTC: a token must be the best label at its frame. Up to the next token there
// must be a run of the same label, then of blanks.
//
// With a language model or boosted phrases (GreedyFusion), a token is within rounding under two
// conditions. Some token must be as good as the best label acoustically, and no token may have a
// better sum of logit and bonus. Tokens that a row must not have (CompiledBias) are left out of
// both comparisons.
//
// A decision for k is within rounding where  z_best - z_k <= bound(k, best)  for the logits z of
// ReplayNetwork, whose bound depends on the vectors at that place. The score must be the sum along
// the path within kDeviations standard deviations of it.
//
// Beam search: the score of each returned text must lie between the bounds of beam_lattice.h.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/shared/ngram_lm/fusion.h"
#include "algorithms/shared/replay/network.h"
#include "algorithms/shared/replay/replayed.h"

namespace rtfx {

/// The rules by which a decoder decides.
struct ReplayRules {
  Head head = Head::transducer;
  std::string score_kind;       // "logit", "logprob", or that of a beam
  int64_t max_symbols = 0;      // largest number of tokens at a frame; 0: no limit
  double temperature = 1;       // beams
  bool sums_alignments = true;  // beams: false for ctc_beam with "merge": "max"
  bool ends_text = false;       // beams: value of ctc_beam's "lm_end"
  double blank_penalty = 0;     // see blank_penalty.h
  /// alsd: longer texts, as a multiple of the frames, may be unfinished; 0: there are none.
  double max_target_ratio = 0;
  std::optional<LmOptions> lm;
  std::string bias;  // options "boost" and "allowed" as text; empty: rows have nothing of their own

  bool is_beam() const;
  /// Returns whether each label of a beam's alignments moves at least one frame.
  bool is_monotonic() const;
  /// Returns whether a text of `tokens` tokens may lack its end, so that its score is not that of a
  /// text. An unfinished text of alsd has more tokens than frames x max_target_ratio: all of its
  /// labels are frames x (1 + max_target_ratio), and each blank moved at least one frame.
  bool may_be_unfinished(int64_t tokens, int64_t frames) const;
  /// Returns a key. Two decoders have equal replays of a hypothesis if their keys are equal.
  std::string key() const;

  /// Returns the rules of a decoder with this description and these resolved options. Returns
  /// nullopt where nothing can be recomputed from a hypothesis:
  ///
  ///   - searches over a graph, and `null`;
  ///   - decoders that follow another rule on purpose: tdt_min_duration, whose durations depend on
  ///     the whole batch, and those that repeat NeMo's old arithmetic;
  ///   - beams with phrases or allowed characters;
  ///   - foreign decoders with an object `lm`, a list `allowed`, or `boost` as rtfx has it: options
  ///     of these names may mean something else;
  ///   - decoders with another kind of score than the ones above.
  ///
  /// `is_foreign` is Decoder::is_foreign(). A foreign decoder has no blank penalty, since its
  /// option of that name may mean something else.
  static std::optional<ReplayRules> from(const Description& decoder, const nlohmann::json& options,
                                         bool is_foreign = false);
};

class Replay {
 public:
  /// `head` is transducer or ctc.
  Replay(std::shared_ptr<const AcousticModel> model, Head head);

  /// Replays hypotheses of a greedy search. hypotheses[i] belongs to row rows[i] of `batch`, the
  /// decoder's input: its frames are encoder frames, and it has the rows' biases if rules.bias says
  /// so. Waits for the device. Working memory is bounded by kChunkBytes plus the predictions of all
  /// prefixes.
  std::vector<Replayed> greedy(const EncodedBatch& batch, const std::vector<int64_t>& rows,
                               const std::vector<const Hypothesis*>& hypotheses,
                               const ReplayRules& rules) const;

  /// Returns the scores that the texts of a beam may have (beam_lattice.h). With a language model
  /// that rescales blanks, a blank may count with or without it, since aes_pp fuses all blanks but
  /// those that end a frame. Texts that may be unfinished have no bounds.
  std::vector<Replayed> beam(const EncodedBatch& batch, const std::vector<int64_t>& rows,
                             const std::vector<const Hypothesis*>& hypotheses,
                             const ReplayRules& rules) const;

  static constexpr int64_t kChunkBytes = int64_t{256} << 20;

 private:
  std::shared_ptr<const AcousticModel> model_;
  ReplayNetwork network_;
};

}  // namespace rtfx
