// The best labels to follow each hypothesis, out of its logits: a block for each row.
#pragma once

#include "algorithms/fused_beam/candidates.h"
#include "algorithms/fused_beam/row_scores.h"

namespace rtfx::fused_beam {

/// ALSD++: writes `candidates`, K for each row. A hypothesis behind its last frame has one alone:
/// itself, with label -1; after max_symbols tokens at a frame blank alone. Also begins a column of
/// the tree and takes back any_active, for Choose.
struct Expand {
  Beams beams;
  Scoring scoring;
  Candidates candidates;
  int32_t max_symbols;
  bool* any_active;  // [1]

  int32_t blocks() const { return beams.rows(); }
  int64_t shared_bytes() const { return BestLabels::bytes(scoring, beams.beam); }

  template <class Block>
  RTFX_DEVICE void operator()(Block& block, int32_t row, void* shared) const {
    if (row == 0 && block.thread() == 0) {
      ++*beams.column;
      *any_active = false;
    }
    const float before = beams.scores[row];
    if (!beams.active(row)) {
      candidates.write_alone(block, row, 0, before, -1, 0);
      return;
    }
    const RowScores scores(scoring, row, row_softmax(block, scoring, row));
    if (beams.run[row] >= max_symbols) {
      force_blank(block, scores);
      return;
    }
    const BestLabels best(shared, beams.beam);
    best.fill(block, scores);
    if (scoring.durations == 0) {
      for (int32_t i = block.thread(); i < best.count; i += block.threads())
        candidates.write(row, i, before + best.scores[i], best.labels[i], 0);
      return;
    }
    const int32_t durations = scoring.durations;
    select(
        block, best.count * durations, best.count,
        [&](int32_t pair) {
          return key_of(best.scores[pair / durations] + scores.duration(pair % durations), pair);
        },
        [&](int32_t i, Key key) {
          if (!is_mine(block, i)) return;
          const int32_t label = best.labels[index_of(key) / durations];
          candidates.write(row, i, before + value_of(key), label,
                           scores.frames_of(label, index_of(key) % durations));
        });
  }

 private:
  template <class Block>
  RTFX_DEVICE void force_blank(Block& block, const RowScores& scores) const {
    float score = scoring.fusion.acoustic_forced_blank ? scores.blank() : scores.fused_blank();
    int32_t frames = 0;
    if (scoring.durations > 0) {
      const int32_t likeliest = scores.likeliest_duration();
      score += scores.duration(likeliest);
      frames = scores.frames_of(scoring.blank, likeliest);
    }
    const int32_t row = scores.row();
    candidates.write_alone(block, row, 0, beams.scores[row] + score, scoring.blank, frames);
  }
};

}  // namespace rtfx::fused_beam
