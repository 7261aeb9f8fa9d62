#include "harness/results/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace rtfx {

// `rtfx run` and `rtfx gate` exit with one code for wrong results.
static_assert(static_cast<int>(Verdict::pass) == kOk);
static_assert(static_cast<int>(Verdict::correctness) == kCorrectness);

std::string number_text(double value) {
  return std::abs(value) < 10 ? fmt::format("{:.2g}", value) : fmt::format("{:.0f}", value);
}

std::string percent_text(double share) { return number_text(100 * share) + " %"; }

std::string GateRow::full_reason() const {
  if (baseline_run.empty()) return reason;
  return fmt::format("{}{}baseline {}", reason, reason.empty() ? "" : "; ", baseline_run);
}

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass:
      return "PASS";
    case Verdict::regressed:
      return "REGRESSED";
    case Verdict::inconclusive:
      return "INCONCLUSIVE";
    case Verdict::invalid:
      return "INVALID";
    case Verdict::correctness:
      return "CORRECTNESS";
  }
  return "";
}

Verdict worse(Verdict a, Verdict b) {
  const auto gravity = [](Verdict v) {
    return v == Verdict::inconclusive ? 1 : v == Verdict::regressed ? 2 : static_cast<int>(v);
  };
  return gravity(a) >= gravity(b) ? a : b;
}

Judgement judge(const Interval& gain, double tolerance, double floor,
                std::optional<double> corrected_high, bool less_is_better) {
  if (!std::isfinite(gain.high) || gain.low <= 0)
    return {Verdict::inconclusive,
            "one value has no interval: measure more rounds, or give five baselines of one value"};
  if (gain.low > 1) return {Verdict::pass, "better"};
  // A time that is 10 % longer is a gain of 1 / 1.1, and a speed that is 10 % lower one of 0.9.
  const auto least = [&](double loss) { return less_is_better ? 1 / (1 + loss) : 1 - loss; };
  const double limit = least(std::max(tolerance, floor));
  if (gain.high < limit && corrected_high.value_or(0) >= limit) {
    return {Verdict::inconclusive,
            "worse beyond the tolerance, but among so many rows this can be chance"};
  }
  if (tolerance < floor) {
    if (gain.high < least(floor)) return {Verdict::regressed, "worse, beyond the noise floor"};
    return {Verdict::inconclusive, fmt::format("the tolerance of {} is below the noise floor of {}",
                                               percent_text(tolerance), percent_text(floor))};
  }
  if (gain.high < least(tolerance)) return {Verdict::regressed, "worse beyond the tolerance"};
  if (gain.low >= least(tolerance)) return {Verdict::pass, ""};
  return {Verdict::inconclusive, "the interval holds the tolerance: more rounds would tell"};
}

Verdict worst(const std::vector<GateRow>& rows) {
  Verdict verdict = rows.empty() ? Verdict::invalid : Verdict::pass;
  for (const GateRow& row : rows) verdict = worse(verdict, row.verdict);
  return verdict;
}

}  // namespace rtfx
