// When a case has been measured enough. Numbers in, a decision out: no clock, no I/O.
#pragma once

#include <cstdint>

namespace rtfx {

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
