// Proof by replay: whether each decision of a hypothesis is the best one, up to rounding, along the
// hypothesis's own path. Two decoders that are equally right may give other tokens in bf16, and go
// other ways from there on; both pass. One that is wrong does not, whatever it is compared with.
//
// Greedy, RNN-T: at token i's frame the token, at every frame passed on the way to it a blank, each
// given the tokens before. After max_symbols tokens at a frame there is no decision: the frame is
// left. TDT: the same, and each label's duration; a token's is in the hypothesis, a blank's is not.
// There must be a chain of blanks, each with its duration (0 counts as 1) within rounding. It leads
// from where a token's duration ends to the next token's frame, or behind the last frame.
// CTC: a token at its frame; up to the next a run of the same label, then of blanks.
//
// With a language model or boosted phrases (GreedyFusion), a token is within rounding under two
// conditions. Some token must be as good as the best label acoustically, and no token may have a
// better sum of logit and bonus. Tokens that a row must not have (CompiledBias) are none in either
// comparison.
//
// A decision for k is within rounding where  z_best - z_k <= bound(k, best)  for the logits z of
// ReplayNetwork, whose bound depends on the vectors at that place. The score must be the sum along
// the path within kDeviations standard deviations of it.
//
// Beams: the score of each text that is returned must be a possible one (beam_lattice.h).
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
  int64_t max_symbols = 0;      // tokens at a frame; 0: as many as it likes
  double temperature = 1;       // beams
  bool sums_alignments = true;  // beams: ctc_beam's "merge" is not "max"
  bool ends_text = false;       // beams: ctc_beam's "lm_end"
  double blank_penalty = 0;     // see blank_penalty.h
  std::optional<LmOptions> lm;
  std::string bias;  // options "boost" and "allowed" as text; empty: rows have nothing of their own

  bool is_beam() const;
  /// Whether each label of a beam's alignments moves at least one frame.
  bool is_monotonic() const;
  /// Equal where two decoders' hypotheses have equal replays.
  std::string key() const;

  /// The rules of a decoder with this description and these resolved options. Returns nullopt where
  /// nothing can be recomputed from a hypothesis:
  ///
  ///   - searches over a graph, and `null`;
  ///   - decoders that follow another rule on purpose: tdt_min_duration, whose durations are of the
  ///     whole batch, and those that repeat NeMo's old arithmetic;
  ///   - beams with phrases or allowed characters;
  ///   - decoders with another kind of score than the ones above.
  static std::optional<ReplayRules> from(const Description& decoder, const nlohmann::json& options);
};

class Replay {
 public:
  /// `head`: transducer or ctc.
  Replay(std::shared_ptr<const AcousticModel> model, Head head);

  /// hypotheses[i] is of row rows[i] of `batch`, whose frames are the decoder's input: encoder
  /// frames, and which has the rows' biases where rules.bias says so. Waits for the device. Working
  /// memory is bounded by kChunkBytes and what the predictions of all prefixes take.
  std::vector<Replayed> greedy(const EncodedBatch& batch, const std::vector<int64_t>& rows,
                               const std::vector<const Hypothesis*>& hypotheses,
                               const ReplayRules& rules) const;

  /// Scores that the texts of a beam may have (beam_lattice.h). With a language model that rescales
  /// blanks, a blank may count with or without it: aes_pp fuses all but those that end a frame.
  std::vector<Replayed> beam(const EncodedBatch& batch, const std::vector<int64_t>& rows,
                             const std::vector<const Hypothesis*>& hypotheses,
                             const ReplayRules& rules) const;

  static constexpr int64_t kChunkBytes = int64_t{256} << 20;

 private:
  std::shared_ptr<const AcousticModel> model_;
  ReplayNetwork network_;
};

}  // namespace rtfx
