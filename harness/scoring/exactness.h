// Is it the same? Grades of agreement between a decoder's results and the baseline's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/hypotheses.h"
#include "algorithms/shared/replay/replay.h"

namespace rtfx {

/// From best to worst. Per utterance all but `wer`; a set whose worst utterance is `different`
/// while its edit counts equal the baseline's is graded `wer`.
enum class Grade {
  bitwise,   // tokens, frames, durations and the score's bits
  exact,     // tokens, frames, durations; score within score_tolerance()
  rounding,  // other tokens, but every decision is the best one up to rounding along its own path
  text,      // tokens or scores differ, the normalised text does not
  wer,       // texts differ, the set's word errors do not
  different,
};

const std::vector<std::string>& grade_names();
std::string to_string(Grade grade);
/// `name` is one of grade_names().
Grade grade_of(const std::string& name);

/// The verdict of a hypothesis' replay (algorithms/shared/replay/replay.h).
enum class Proof {
  none,    // it was not replayed, or the replay says nothing of its choice among texts (beams)
  within,  // every decision is within rounding
  failed,  // some decision, or the score, is not
};

struct Comparison {
  Grade grade = Grade::bitwise;
  size_t token = 0;  // index of the first difference; meaningless when exact or better
};

/// Compares one utterance. `texts_equal` after normalisation; `dtype` sets the tolerances. Scores
/// of different kinds (logit, logprob) are not compared: then `exact` is the best grade. Equal
/// tokens with scores that are too far apart are graded `text`, unless the replay explains them. A
/// failed one makes it `different`, whatever the baseline has.
Comparison compare(const Hypothesis& baseline, const Hypothesis& other, bool texts_equal,
                   Proof proof, const std::string& dtype, bool same_score_kind = true);

/// Returns how far apart scores may be, relative. It is 1e-4 in fp32, and in fp64, whose results
/// hold float32 too. It is 2^-6 in bf16 and 2^-9 in fp16, four roundings of a logit each.
double score_tolerance(const std::string& dtype);

/// The audit of a set. `frame` is an encoder frame.
struct FirstDifference {
  std::string utterance;
  int64_t frame = 0;
  double seconds = 0;
  std::string baseline_words, words;
};

/// The replays of a set.
struct ReplayAudit {
  int64_t decisions = 0, beyond = 0;  // compared; not within rounding
  double worst = 0;                   // largest gap / bound
  std::string utterance;              // of `first`
  std::optional<Deviation> first;     // of those beyond

  void add(const std::string& id, const Replayed& replayed);
};

struct Audit {
  std::vector<int64_t> counts = std::vector<int64_t>(6, 0);  // per grade
  Grade worst = Grade::bitwise;
  std::optional<FirstDifference> first;  // of the first utterance with the worst grade

  void add(const Comparison& comparison, const std::function<FirstDifference()>& describe);
};

/// The words of both texts around the first place where they differ, two words of context each way.
std::pair<std::string, std::string> differing_words(const std::vector<std::string>& baseline,
                                                    const std::vector<std::string>& other);

/// SHA-256 over ids of utterances and their tokens, frames and durations; with `scores`, over the
/// bits of the scores and over n-best lists too.
std::string hash_hypotheses(const std::vector<std::string>& ids,
                            const std::vector<Hypothesis>& hypotheses, bool scores = true);

}  // namespace rtfx
