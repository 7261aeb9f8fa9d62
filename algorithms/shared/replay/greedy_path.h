// The decisions that a greedy hypothesis needs, and the check whether all of them are within
// rounding. This code uses no tensors: the outputs of the network at each place come in as numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/hypotheses.h"
#include "algorithms/shared/replay/replayed.h"

namespace rtfx {

/// A label at a frame, which the hypothesis has there or may have there.
struct Place {
  int64_t row = 0;     // number of the hypothesis
  int64_t prefix = 0;  // tokens before it
  int64_t frame = 0;
  int64_t label = 0;
  int64_t previous = -1;  // CTC: the label that would only be repeated here
  bool is_token = false;  // the label is a token of the hypothesis
};

/// The reference's judgement of the label at one place.
struct Judged {
  struct Choice {
    double gap = 0, bound = 1;
    int64_t best = 0;
    double ratio() const { return gap <= 0 ? 0 : gap / bound; }
  };
  Choice label;
  std::vector<Choice> durations;   // TDT, by index
  double score = 0, variance = 0;  // score of the label, and its variance
};

/// The stretch between two tokens of a row: places [first, first + count).
struct Segment {
  int64_t first = 0, count = 0;
  int64_t begin = 0, target = 0;  // frames; `target` is that of the next token, or the end
  bool has_token = false;
  bool broken = false;  // the token's frame lies before `begin`, or no token may come there
};

/// Appends the places of hypothesis `row`, which has `length` frames, and returns its segments.
std::vector<Segment> transducer_places(const Hypothesis& hypothesis, int64_t row, int64_t length,
                                       int64_t blank, bool is_tdt, int64_t max_symbols,
                                       std::vector<Place>& places);

/// Checks the segments of a hypothesis. Where blanks have durations, it takes the chain of blanks
/// whose worst decision is best. `durations` are the values of TDT, empty for RNN-T. `judged`
/// belongs to `places`.
Replayed follow_transducer(const Hypothesis& hypothesis, const std::vector<Segment>& segments,
                           const std::vector<Place>& places, const std::vector<Judged>& judged,
                           const std::vector<int64_t>& durations);

/// Appends the places of a CTC hypothesis. Each segment but the first begins with a token, and a
/// segment ends before the next token. Each frame has two places: the token again, then blank. A
/// token's own frame has one place.
std::vector<Segment> ctc_places(const Hypothesis& hypothesis, int64_t row, int64_t length,
                                int64_t blank, std::vector<Place>& places);
/// Checks the segments of a CTC hypothesis. `judged` belongs to `places`.
Replayed follow_ctc(const std::vector<Segment>& segments, const std::vector<Place>& places,
                    const std::vector<Judged>& judged);

}  // namespace rtfx
