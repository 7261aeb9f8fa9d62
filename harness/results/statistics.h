// Statistics of rounds: intervals and tests, and the rule that stops a measurement.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/scoring/wer.h"

namespace rtfx {

// Figures of repeated rounds. The functions are pure: they use no I/O and no clock, and random
// numbers only from a given seed.

/// Describes values of repeated rounds.
struct Spread {
  double mean = 0;
  double sd = 0;  // standard deviation of the sample (n - 1); 0 for one value
  double min = 0;
  double max = 0;

  double cv() const { return mean == 0 ? 0 : sd / mean; }
};

/// `values` must not be empty.
Spread spread_of(const std::vector<double>& values);

/// Returns the smallest value that at least `share` of all values do not exceed (nearest rank).
/// None if there are too few values: the 95th percentile needs 20, the 99th 100, and the median
/// one.
std::optional<double> percentile(std::vector<double> values, double share);

/// The default probability that an interval contains the true value.
constexpr double kConfidence = 0.95;

/// An estimate and its interval, by default of 95 %. Both ends are infinite if the data do not show
/// their spread (a single round).
struct Interval {
  double estimate = 0;
  double low = 0;
  double high = 0;

  /// Returns (high - low) / 2, relative to the estimate.
  double relative_half_width() const;
};

/// Returns the t for which a Student variable with `df` degrees of freedom lies within [-t, t] with
/// this probability. Infinite for df < 1.
double student_t(int64_t df, double confidence = kConfidence);

/// Returns the mean with its t-interval.
Interval mean_interval(const std::vector<double>& values);

/// Returns b / a from rounds that were measured side by side. It is exp of the mean of log(b_i /
/// a_i), with the t-interval of the logarithms. Both lists have the same length, and all values are
/// positive. plots/intervals.py has the same formula.
Interval paired_ratio(const std::vector<double>& a, const std::vector<double>& b);

/// Returns b / a from rounds that do not pair: the ratio of geometric means with Welch's interval
/// of the logarithms. Degrees of freedom are rounded down. All values are positive. Differences
/// between runs are not covered; runs_ratio() covers them. plots/intervals.py has the same formula.
Interval unpaired_ratio(const std::vector<double>& a, const std::vector<double>& b);

/// The run-to-run deviation, which options and journals call drift. It is the standard deviation of
/// a run's mean, as a share of the mean. A trend within a run is something else. Two runs of
/// one program on one machine differ by more than their rounds show. The place in memory, the
/// temperature and the clocks stay the same within a run. The value comes from 121 cases that were
/// run twice (docs/background/statistics.md, "Drift").
constexpr double kRunDrift = 0.01;

/// With this number of runs or more, their own spread is the run-to-run deviation.
constexpr size_t kRunsThatTellDrift = 5;

/// Returns now / before for runs at different times, from the rounds of one or more runs before and
/// of one run now. All values are positive. It is the ratio of geometric means with the interval of
/// the logarithms. The run-to-run deviation is added to the spread of rounds:
/// - It is `drift` if that is given.
/// - With kRunsThatTellDrift runs before, or more, it is their own spread.
/// - With fewer runs it is kRunDrift, or their spread if that is larger.
/// A run with one value shows no spread of rounds, so the interval is infinite. It is finite if
/// kRunsThatTellDrift runs or more before have one value each, since their spread contains that of
/// rounds. Then `drift` is only the least spread.
Interval runs_ratio(const std::vector<std::vector<double>>& before, const std::vector<double>& now,
                    std::optional<double> drift = {}, double confidence = kConfidence);

/// Returns the smallest change, as a share, that runs_ratio() finds in four of five comparisons of
/// two runs with `rounds` rounds each. It is exp((t + 0.84) s) - 1, where s² = 2 (sd² / rounds +
/// drift²) and t is Student's quantile for 95 %. 0.84 is the 80th percentile of a normal variable
/// (Cohen, Statistical Power Analysis, 1988, chapter 2). `sd` is the standard deviation of the
/// logarithms of a metric over two or more rounds.
double minimum_detectable_change(double sd, int64_t rounds, double drift);

/// Returns the largest change that noise alone makes: the larger distance from 1 of the two ends of
/// an A/A ratio's interval.
double noise_floor(const Interval& aa_ratio);

/// Returns whether a change of a rate, such as a WER, is larger than its tolerance. A difference of
/// two rates is rounded: 0.355 - 0.354 > 0.001. So up to 1e-9 above the tolerance counts as equal,
/// which is less than one word in a billion.
bool exceeds(double change, double tolerance);

/// Returns the WER of b minus the WER of a over the same utterances, with a percentile interval
/// over resampled utterances. It is a paired bootstrap: each resampled utterance brings the errors
/// of both. There must be reference words. If a single utterance has them, the ends are infinite.
Interval bootstrap_wer_difference(const std::vector<EditCounts>& a,
                                  const std::vector<EditCounts>& b, uint64_t seed,
                                  int64_t resamples = 10000);

// The rule that ends the measurement of a case. It uses neither a clock nor I/O.

struct StoppingRule {
  int64_t least = 1;          // rounds that are always run
  int64_t most = 1;           // largest number of rounds
  double precision = 0;       // relative half width of the interval that is wanted; 0: none
  double budget_seconds = 0;  // for the rounds beyond `least`; 0: no limit
};

enum class Stop { go_on, rounds, precision, budget };

/// Returns "rounds" (all rounds that were asked for or allowed), "precision" or "budget". Not for
/// go_on.
const char* to_string(Stop stop);

/// Decides after `rounds` rounds. `clean_rounds` is the number of rounds on an undisturbed machine.
/// A disturbed round is repeated while the rule has rounds and time left. `half_width` is the
/// largest relative half width of all decoders that share the rounds.
Stop decide(const StoppingRule& rule, int64_t rounds, int64_t clean_rounds, double half_width,
            double elapsed_seconds);

}  // namespace rtfx
