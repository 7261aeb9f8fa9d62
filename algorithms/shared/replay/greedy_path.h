// The decisions that a greedy hypothesis needs, and whether all of them are within rounding. No
// tensors: what the network says of a place comes in as numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/hypotheses.h"
#include "algorithms/shared/replay/replayed.h"

namespace rtfx {

/// A label that the hypothesis, or a way through it, has at a frame.
struct Place {
  int64_t row = 0;     // of the hypotheses
  int64_t prefix = 0;  // tokens before it
  int64_t frame = 0;
  int64_t label = 0;
  int64_t previous = -1;  // CTC: the label that would only be repeated here
  bool is_token = false;  // that the hypothesis holds
};

/// The reference's judgement of one place on the path.
struct Judged {
  struct Choice {
    double gap = 0, bound = 1;
    int64_t best = 0;
    double ratio() const { return gap <= 0 ? 0 : gap / bound; }
  };
  Choice label;
  std::vector<Choice> durations;   // TDT, by index
  double score = 0, variance = 0;  // of the label
};

/// Everything between two tokens of a row: places [first, first + count).
struct Segment {
  int64_t first = 0, count = 0;
  int64_t begin = 0, target = 0;  // frames; the target is the token's, or behind the last
  bool has_token = false;
  bool broken = false;  // the token's frame lies before `begin`, or no token may come there
};

/// Appends the places of hypothesis `row`, of `length` frames.
std::vector<Segment> transducer_places(const Hypothesis& hypothesis, int64_t row, int64_t length,
                                       int64_t blank, bool is_tdt, int64_t max_symbols,
                                       std::vector<Place>& places);

/// Goes along the segments of a hypothesis; where blanks have durations, along the chain of them
/// whose worst decision is the best. `durations`: their values, empty for RNN-T. `judged`: of all
/// places.
Replayed follow_transducer(const Hypothesis& hypothesis, const std::vector<Segment>& segments,
                           const std::vector<Place>& places, const std::vector<Judged>& judged,
                           const std::vector<int64_t>& durations);

/// The places of CTC. A segment begins with a token (but the first one) and ends before the next.
/// Each frame has two places, the token again and blank, in this order; a token's own frame has
/// one.
std::vector<Segment> ctc_places(const Hypothesis& hypothesis, int64_t row, int64_t length,
                                int64_t blank, std::vector<Place>& places);
Replayed follow_ctc(const std::vector<Segment>& segments, const std::vector<Place>& places,
                    const std::vector<Judged>& judged);

}  // namespace rtfx
