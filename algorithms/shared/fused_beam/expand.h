// The best labels to follow each hypothesis, out of its logits: a block for each row.
#pragma once

#include "algorithms/shared/fused_beam/candidates.h"
#include "algorithms/shared/fused_beam/row_scores.h"

namespace rtfx::fused_beam {

/// ALSD++: writes `candidates`, K for each row. A hypothesis behind its last frame has one alone:
/// itself, with label -1; after max_symbols tokens at a frame blank alone. Also begins a column of
/// the tree and takes back any_active, for Choose.
struct Expand {
  static constexpr int32_t kThreads = 256;

  Beams beams;
  Scoring scoring;
  Candidates candidates;
  int32_t max_symbols;
  bool* any_active;  // [1]

  int32_t blocks() const { return beams.rows(); }
  int64_t shared_bytes() const {
    return StagedLogits::bytes(scoring) + BestLabels::bytes(scoring, beams.beam);
  }

  template <class Block>
  RTFX_DEVICE void operator()(Block& block, int32_t row, void* shared) const {
    const bool leads = row == 0 && block.thread() == 0;
    // Loaded along with the logits, whether or not they are needed.
    const int64_t column = leads ? *beams.column : 0;
    const float before = beams.scores[row];
    const int64_t left = beams.frames_left(row), run = beams.run[row];
    with_logits(block, scoring, row, shared, [&](const auto& logits) {
      if (leads) {
        *beams.column = column + 1;
        *any_active = false;
      }
      if (!(before > kLogZero && left > 0)) {
        candidates.write_alone(block, row, 0, before, -1, 0);
        return;
      }
      const RowScores scores(logits, row_softmax(block, logits));
      if (run >= max_symbols) {
        force_blank(block, before, scores);
      } else {
        expand(block, before, scores, static_cast<char*>(shared) + StagedLogits::bytes(scoring));
      }
    });
  }

 private:
  template <class Block, class Logits>
  RTFX_DEVICE void expand(Block& block, float before, const RowScores<Logits>& scores,
                          void* shared) const {
    const int32_t row = scores.row(), durations = scoring.durations;
    const BestLabels best(shared, beams.beam);
    best.fill(block, scores);
    if (durations == 0) {
      for (int32_t i = block.thread(); i < best.count; i += block.threads())
        candidates.write(row, i, before + best.scores[i], best.labels[i], 0);
      return;
    }
    select(
        block, best.count * durations, best.count,
        [&](int32_t pair) {
          return max_key(best.scores[pair / durations] + scores.duration(pair % durations), pair);
        },
        [&](int32_t i, MaxKey key) {
          if (!is_mine(block, i)) return;
          const int32_t label = best.labels[index_of(key) / durations];
          candidates.write(row, i, before + value_of(key), label,
                           scores.frames_of(label, index_of(key) % durations));
        });
  }

  template <class Block, class Logits>
  RTFX_DEVICE void force_blank(Block& block, float before, const RowScores<Logits>& scores) const {
    float score = scoring.fusion.acoustic_forced_blank ? scores.blank() : scores.fused_blank();
    int32_t frames = 0;
    if (scoring.durations > 0) {
      const int32_t likeliest = scores.likeliest_duration();
      score += scores.duration(likeliest);
      frames = scores.frames_of(scoring.blank, likeliest);
    }
    candidates.write_alone(block, scores.row(), 0, before + score, scoring.blank, frames);
  }
};

}  // namespace rtfx::fused_beam
