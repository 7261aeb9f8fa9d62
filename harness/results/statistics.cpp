#include "harness/results/statistics.h"

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "base/error.h"

namespace rtfx {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> logarithms(const std::vector<double>& values) {
  std::vector<double> logs;
  for (const double v : values) {
    RTFX_CHECK(v > 0, "a ratio needs positive values");
    logs.push_back(std::log(v));
  }
  return logs;
}

Interval around(double estimate, double half_width) {
  return {estimate, estimate - half_width, estimate + half_width};
}

Interval exponential(const Interval& logs) {
  return {std::exp(logs.estimate), std::exp(logs.low), std::exp(logs.high)};
}

/// Draws without a distribution of the standard library. The C++ standard fixes only the numbers of
/// the engine, and intervals must be equal on every machine.
class Resampler {
 public:
  explicit Resampler(uint64_t seed) : engine_(seed) {}
  size_t index(size_t count) { return static_cast<size_t>(engine_() % count); }

  /// Returns how often each of `count` things is drawn in `count` draws.
  std::vector<int64_t> multiplicities(size_t count) {
    std::vector<int64_t> times(count);
    for (size_t i = 0; i < count; ++i) ++times[index(count)];
    return times;
  }

 private:
  std::mt19937_64 engine_;
};

Interval percentiles(double estimate, std::vector<double> draws) {
  std::sort(draws.begin(), draws.end());
  const auto at = [&](double share) {
    return draws[static_cast<size_t>(std::llround(share * static_cast<double>(draws.size() - 1)))];
  };
  return {estimate, at((1 - kConfidence) / 2), at((1 + kConfidence) / 2)};
}

}  // namespace

Spread spread_of(const std::vector<double>& values) {
  RTFX_CHECK(!values.empty(), "no values");
  const auto n = static_cast<double>(values.size());
  Spread s;
  s.mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double v : values) squares += (v - s.mean) * (v - s.mean);
  s.sd = values.size() > 1 ? std::sqrt(squares / (n - 1)) : 0;
  s.min = *std::min_element(values.begin(), values.end());
  s.max = *std::max_element(values.begin(), values.end());
  return s;
}

std::optional<double> percentile(std::vector<double> values, double share) {
  const auto n = static_cast<double>(values.size());
  const double above = n * (1 - share) + 1e-9;
  if (values.empty() || (share > 0.5 && above < 1)) return std::nullopt;
  const auto rank = static_cast<size_t>(std::max(1.0, std::ceil(share * n - 1e-9)));
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(rank - 1));
  return values[rank - 1];
}

double Interval::relative_half_width() const { return (high - low) / 2 / std::abs(estimate); }

double student_t(int64_t df, double confidence) {
  if (df < 1) return kInfinity;
  const boost::math::students_t distribution(static_cast<double>(df));
  return boost::math::quantile(boost::math::complement(distribution, (1 - confidence) / 2));
}

Interval mean_interval(const std::vector<double>& values) {
  const Spread s = spread_of(values);
  if (values.size() < 2) return around(s.mean, kInfinity);
  const auto n = static_cast<double>(values.size());
  const double t = student_t(static_cast<int64_t>(values.size()) - 1);
  return around(s.mean, t * s.sd / std::sqrt(n));
}

Interval paired_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  RTFX_CHECK(a.size() == b.size(), "rounds do not pair");
  const std::vector<double> log_a = logarithms(a);
  std::vector<double> differences = logarithms(b);
  for (size_t i = 0; i < a.size(); ++i) differences[i] -= log_a[i];
  return exponential(mean_interval(differences));
}

Interval unpaired_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  return runs_ratio({a}, b, 0);
}

Interval runs_ratio(const std::vector<std::vector<double>>& before, const std::vector<double>& now,
                    std::optional<double> drift, double confidence) {
  RTFX_CHECK(!before.empty(), "no runs");
  const auto square = [](double x) { return x * x; };
  const auto runs = static_cast<double>(before.size());
  // Variances by Welch and Satterthwaite: their sum, and the sum of their squares over the degrees
  // of freedom of each.
  double variance = 0, squares = 0;
  bool one_round = false;
  const auto add = [&](const std::vector<double>& logs, double weight) {
    const Spread s = spread_of(logs);
    const auto n = static_cast<double>(logs.size());
    one_round = one_round || logs.size() < 2;
    variance += weight * s.sd * s.sd / n;
    squares += square(weight * s.sd * s.sd / n) / (n - 1);
    return s.mean;
  };
  const double mean_now = add(logarithms(now), 1);
  const double variance_now = variance;
  std::vector<double> means;
  for (const std::vector<double>& run : before)
    means.push_back(add(logarithms(run), 1 / square(runs)));
  const Spread between = spread_of(means);
  const double difference = mean_now - between.mean;
  const bool many = before.size() >= kRunsThatTellDrift;
  const bool are_single =
      std::ranges::all_of(before, [](const auto& run) { return run.size() == 1; });
  if (one_round && !(many && are_single)) return exponential(around(difference, kInfinity));
  if (many && (!drift || are_single)) {
    // The variance between runs includes the variance between their rounds. Single values have no
    // other estimate of it, so a given drift is only their least spread.
    const double spread = square(std::max(between.sd, drift.value_or(0)));
    variance = spread / runs + std::max(spread, variance_now);
    squares = square(variance) / (runs - 1);
  } else {
    variance += square(drift.value_or(std::max(kRunDrift, between.sd))) * (1 + 1 / runs);
  }
  if (variance == 0) return exponential(around(difference, 0));
  constexpr double kMany = 1000;  // so many degrees of freedom are as good as a normal distribution
  const double df = squares == 0 ? kMany : std::min(kMany, square(variance) / squares);
  const double t = student_t(static_cast<int64_t>(df + 1e-9), confidence);
  return exponential(around(difference, t * std::sqrt(variance)));
}

double minimum_detectable_change(double sd, int64_t rounds, double drift) {
  RTFX_CHECK(rounds >= 2, "one round says nothing of its spread");
  static const double kPower = boost::math::quantile(boost::math::normal(), 0.8);
  const double by_rounds = 2 * sd * sd / static_cast<double>(rounds);
  const double variance = by_rounds + 2 * drift * drift;
  if (variance == 0) return 0;
  // Welch and Satterthwaite. The drift counts as known, as in runs_ratio().
  constexpr double kMany = 1000;
  const double squares = by_rounds * by_rounds / (2 * static_cast<double>(rounds - 1));
  const double df = squares == 0 ? kMany : std::min(kMany, variance * variance / squares);
  return std::expm1((student_t(static_cast<int64_t>(df + 1e-9)) + kPower) * std::sqrt(variance));
}

double noise_floor(const Interval& aa_ratio) {
  return std::max(std::abs(1 - aa_ratio.low), std::abs(aa_ratio.high - 1));
}

bool exceeds(double change, double tolerance) { return change > tolerance + 1e-9; }

Interval bootstrap_wer_difference(const std::vector<EditCounts>& a,
                                  const std::vector<EditCounts>& b, uint64_t seed,
                                  int64_t resamples) {
  RTFX_CHECK(a.size() == b.size() && !a.empty(), "utterances do not pair");
  // A draw of utterances without a reference word says nothing and is drawn anew.
  const auto difference = [&](const std::vector<int64_t>& weight) {
    int64_t errors = 0, words = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      errors += weight[i] * (b[i].errors() - a[i].errors());
      words += weight[i] * a[i].reference_words;
    }
    return words == 0 ? kInfinity : static_cast<double>(errors) / static_cast<double>(words);
  };
  const double estimate = difference(std::vector<int64_t>(a.size(), 1));
  RTFX_CHECK(std::isfinite(estimate), "no reference words");
  const auto has_words = [](const EditCounts& one) { return one.reference_words > 0; };
  if (std::ranges::count_if(a, has_words) < 2) return around(estimate, kInfinity);
  Resampler resampler(seed);
  std::vector<double> draws;
  while (static_cast<int64_t>(draws.size()) < resamples) {
    const double draw = difference(resampler.multiplicities(a.size()));
    if (std::isfinite(draw)) draws.push_back(draw);
  }
  return percentiles(estimate, std::move(draws));
}

const char* to_string(Stop stop) {
  switch (stop) {
    case Stop::go_on:
      return "";
    case Stop::rounds:
      return "rounds";
    case Stop::precision:
      return "precision";
    case Stop::budget:
      return "budget";
  }
  return "";
}

Stop decide(const StoppingRule& rule, int64_t rounds, int64_t clean_rounds, double half_width,
            double elapsed_seconds) {
  if (rounds < rule.least) return Stop::go_on;
  if (rule.precision == 0) return Stop::rounds;
  if (clean_rounds >= rule.least && half_width <= rule.precision) return Stop::precision;
  if (rounds >= rule.most) return Stop::rounds;
  if (rule.budget_seconds > 0 && elapsed_seconds >= rule.budget_seconds) return Stop::budget;
  return Stop::go_on;
}

}  // namespace rtfx
