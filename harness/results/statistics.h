// Statistics of rounds: intervals and tests, and the rule that stops a measurement.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/scoring/wer.h"

namespace rtfx {

// Figures of repeated rounds. Numbers in, numbers out: no I/O, no clock, and random only by a seed.

struct Summary {
  double mean = 0;
  double sd = 0;  // of the sample (n - 1); 0 for one value
  double min = 0;
  double max = 0;

  double cv() const { return mean == 0 ? 0 : sd / mean; }
};

/// `values` must not be empty.
Summary summarize(const std::vector<double>& values);

/// The least of the values that at least `share` of all do not exceed (nearest rank). None where
/// there are too few values to tell: the 95th percentile wants 20, the 99th 100, the median one.
std::optional<double> percentile(std::vector<double> values, double share);

/// The probability that an interval holds the truth, where nothing else is asked for.
constexpr double kConfidence = 0.95;

/// An estimate and its interval, of 95 % where nothing else is said. Both ends are infinite where
/// the data say nothing of their spread (a single round).
struct Interval {
  double estimate = 0;
  double low = 0;
  double high = 0;

  /// (high - low) / 2, relative to the estimate.
  double relative_half_width() const;
};

/// The t for which a Student variable with `df` degrees of freedom lies within [-t, t] with this
/// probability; infinite for df < 1.
double student_t(int64_t df, double confidence = kConfidence);

/// The mean with its t-interval.
Interval mean_interval(const std::vector<double>& values);

/// b / a from rounds that were measured side by side: exp of the mean of log(b_i / a_i), with the
/// t-interval of the logarithms. Equal numbers of positive values.
Interval paired_ratio(const std::vector<double>& a, const std::vector<double>& b);

/// b / a from rounds that do not pair: the ratio of geometric means with Welch's interval of the
/// logarithms, degrees of freedom rounded down. Positive values. It knows nothing of what differs
/// between runs: runs_ratio() does.
Interval unpaired_ratio(const std::vector<double>& a, const std::vector<double>& b);

/// Two runs of one program on one machine differ by more than their rounds tell: the place in
/// memory, temperature and clocks stay the same within a run. Standard deviation of a run's mean as
/// a share of it, by 121 cases that were run twice (docs/background/statistics.md, "Drift").
constexpr double kRunDrift = 0.01;

/// So many runs, or more, tell the drift by themselves.
constexpr size_t kRunsThatTellDrift = 5;

/// Returns now / before of runs at different times, from the rounds of one run or several before
/// and of one now. It is the ratio of geometric means with the interval of the logarithms. The
/// spread between runs is added to the spread of rounds. It is `drift` where that is given, else
/// the spread of the runs before where they are kRunsThatTellDrift or more. With fewer runs it is
/// kRunDrift, or their spread where that is more. All values are positive. A run of one value has
/// no spread of rounds, so the interval is infinite. It is finite where each of kRunsThatTellDrift
/// runs or more before has one value: their spread holds that of rounds.
Interval runs_ratio(const std::vector<std::vector<double>>& before, const std::vector<double>& now,
                    std::optional<double> drift = {}, double confidence = kConfidence);

/// The smallest change, as a share, that runs_ratio() finds in four of five comparisons of two runs
/// with so many rounds each. It is exp((t + 0.84) s) - 1, where s² = 2 (sd² / rounds + drift²) and
/// t is Student's quantile for 95 %. The 0.84 is the 80th percentile of a normal variable (Cohen,
/// Statistical Power Analysis, 1988, chapter 2). `sd` is the standard deviation of the logarithms
/// of a metric over two or more rounds.
double visible_change(double sd, int64_t rounds, double drift);

/// The largest change that noise alone makes: the farther end of an A/A ratio's interval, as a
/// distance from 1.
double noise_floor(const Interval& aa_ratio);

/// WER of b minus WER of a over the same utterances, with a percentile interval over resampled
/// utterances (paired bootstrap: an utterance brings the errors of both). Needs reference words.
Interval bootstrap_wer_difference(const std::vector<EditCounts>& a,
                                  const std::vector<EditCounts>& b, uint64_t seed,
                                  int64_t resamples = 10000);

// When a case has been measured enough. Numbers in, a decision out: no clock, no I/O.

struct StoppingRule {
  int64_t least = 1;          // rounds that are always run
  int64_t most = 1;           // at most
  double precision = 0;       // relative half width of the interval that is wanted; 0: none
  double budget_seconds = 0;  // for the rounds beyond `least`; 0: no limit
};

enum class Stop { go_on, rounds, precision, budget };

/// "rounds": as many as asked for, or as allowed; "precision", "budget". Not for go_on.
const char* to_string(Stop stop);

/// `clean_rounds`: those on an undisturbed machine; a disturbed one is repeated while the rule has
/// rounds and time left. `half_width`: the largest of all decoders that share the rounds.
Stop decide(const StoppingRule& rule, int64_t rounds, int64_t clean_rounds, double half_width,
            double elapsed_seconds);

}  // namespace rtfx
