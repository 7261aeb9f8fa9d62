// Is it the same? Grades of agreement between a decoder's results and the baseline's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/hypotheses.h"

namespace rtfx {

/// From best to worst. Per utterance all but `wer`; a set whose worst utterance is `different`
/// while its edit counts equal the baseline's is graded `wer`.
enum class Grade {
  bitwise,  // tokens, frames, durations and the score's bits
  exact,    // tokens, frames, durations; score within score_tolerance()
  tie,      // differs first where the baseline's decision was within the rounding of the logits
  text,     // tokens or scores differ, the normalised text does not
  wer,      // texts differ, the set's word errors do not
  different,
};

const std::vector<std::string>& grade_names();
std::string to_string(Grade grade);
/// `name` is one of grade_names().
Grade grade_of(const std::string& name);

/// Margin of the baseline's decisions on the way to its token `index`
/// (algorithms/shared/transducer/margin.h).
using MarginOf = std::function<std::optional<double>(size_t index)>;

struct Comparison {
  Grade grade = Grade::bitwise;
  size_t token = 0;              // index of the first difference; meaningless when exact or better
  std::optional<double> margin;  // at that place
};

/// Compares one utterance. `texts_equal` after normalisation; `dtype` sets the tolerances. Scores
/// of different kinds (logit, logprob) are not compared: then `exact` is the best grade. Equal
/// tokens with scores that are too far apart are graded `text`.
Comparison compare(const Hypothesis& baseline, const Hypothesis& other, bool texts_equal,
                   const MarginOf& margin, const std::string& dtype, bool same_score_kind = true);

/// How far apart scores may be, relative: 1e-4 in fp32; 2^-6 in bf16 and 2^-9 in fp16, four
/// roundings of a logit each.
double score_tolerance(const std::string& dtype);

/// Spacing of the dtype's values at 16, the size of a confident logit: 2^-19 for fp32, 2^-6 for
/// fp16, 2^-3 for bf16. Two roundings of that size can swap the order of two logits.
double tie_epsilon(const std::string& dtype);

/// The audit of a set. `frame` is an encoder frame.
struct FirstDifference {
  std::string utterance;
  int64_t frame = 0;
  double seconds = 0;
  std::string baseline_words, words;
  std::optional<double> margin;
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
