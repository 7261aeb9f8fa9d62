#include "harness/results/stopping.h"

namespace rtfx {

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
