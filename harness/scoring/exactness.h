// Grades that say how equal the results of a decoder are to those of the baseline.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/hypotheses.h"
#include "algorithms/shared/replay/replay.h"

namespace rtfx {

/// The grades, from best to worst. An utterance can have all of them except `wer`. A set has the
/// grade of its worst utterance. In place of `different`, the set's grade is `wer` if its total
/// number of word errors equals the baseline's and replay found no decision beyond rounding.
enum class Grade {
  bitwise,   // equal tokens, frames, durations, and bits of the score
  exact,     // equal tokens, frames and durations; scores within score_tolerance()
  rounding,  // something differs; every decision is the best one up to rounding along its own path
  text,      // equal normalised text; tokens, frames, durations or scores differ
  wer,       // other texts; equal number of word errors of the set
  different,
};

const std::vector<std::string>& grade_names();
std::string to_string(Grade grade);
/// `name` must be one of grade_names().
Grade grade_of(const std::string& name);

/// The verdict of a hypothesis' replay (algorithms/shared/replay/replay.h).
enum class Proof {
  none,    // not replayed, or the replay says nothing about the choice among texts (beams)
  within,  // every decision is within rounding
  failed,  // some decision, or the score, is not within rounding
};

struct Comparison {
  Grade grade = Grade::bitwise;
  /// Index of the first different token; meaningless for the grades exact and bitwise.
  size_t token = 0;
};

/// Compares one utterance. `texts_equal` refers to normalised texts. `dtype` sets the tolerances.
/// Scores of different kinds (logit, logprob) are not compared, and `exact` is then the best grade.
/// Equal tokens with scores that are too far apart have the grade `text`, unless the replay
/// explains them. A failed replay gives `different`, whatever the baseline has.
Comparison compare(const Hypothesis& baseline, const Hypothesis& other, bool texts_equal,
                   Proof proof, at::ScalarType dtype, bool same_score_kind = true);

/// Returns the largest relative difference of equal scores of decoders in `dtype`. It is 1e-4 in
/// fp32, and in fp64, whose results hold float32 too. It is 2^-6 in bf16 and 2^-9 in fp16, which
/// are four roundings of a logit each. Throws std::logic_error for another dtype.
double score_tolerance(at::ScalarType dtype);

/// The first difference in a set. `frame` is an encoder frame.
struct FirstDifference {
  std::string utterance;
  int64_t frame = 0;
  double seconds = 0;
  std::string baseline_words, words;
};

/// Sums over the replays of a set.
struct ReplayTotals {
  /// Decisions that were compared, and those that are not within rounding.
  int64_t decisions = 0, beyond = 0;
  double worst = 0;                // largest ratio of a gap to its bound
  std::string utterance;           // utterance of `first`
  std::optional<Deviation> first;  // first decision that is not within rounding

  void add(const std::string& id, const Replayed& replayed);
};

struct GradeCounts {
  std::vector<int64_t> counts = std::vector<int64_t>(6, 0);  // number of utterances with each grade
  Grade worst = Grade::bitwise;
  std::optional<FirstDifference> first;  // in the first utterance with the worst grade

  void add(const Comparison& comparison, const std::function<FirstDifference()>& describe);
};

/// Returns the words of both texts around the first place where they differ, with two words of
/// context on each side.
std::pair<std::string, std::string> differing_words(const std::vector<std::string>& baseline,
                                                    const std::vector<std::string>& other);

/// Returns the SHA-256 over ids of utterances and their tokens, frames and durations. With
/// `scores`, it also covers the bits of the scores, and n-best lists.
std::string hash_hypotheses(const std::vector<std::string>& ids,
                            const std::vector<Hypothesis>& hypotheses, bool scores = true);

}  // namespace rtfx
