// The phases of a step of ALSD++ (algorithms/decoders/beam/alsd_pp/alsd_pp.h has the
// algorithm) and of modified beam search (modified_beam_search.h). Expand finds the candidates of
// each hypothesis. Choose turns the best of them into the new beam. The kernels include this file,
// so it includes no LibTorch header.
#pragma once

#include "algorithms/shared/fused_beam/hypothesis_step.h"
#include "algorithms/shared/fused_beam/network_phases.h"

namespace rtfx::fused_beam {

/// Writes the K best candidates of each row; a block works on one row. A hypothesis behind its last
/// frame has one candidate, itself, with label -1. In modified beam search of TDT, this also holds
/// for a hypothesis that is not at the earliest frame. After max_symbols tokens at a frame, blank
/// is the only candidate. The phase also begins a column of the tree and clears any_active, which
/// Choose sets.
struct Expand {
  static constexpr int32_t kThreads = 256;

  Beams beams;
  Scoring scoring;
  Candidates candidates;
  int32_t max_symbols;
  bool* any_active;  // [1]
  /// [B] earliest frame of an utterance's hypotheses. If it is null, all are expanded. If it is
  /// given, labels move at least one frame.
  const int64_t* earliest;

  int32_t blocks() const { return beams.rows(); }
  int64_t shared_bytes() const {
    return StagedLogits::bytes(scoring) + BestLabels::bytes(scoring, beams.beam);
  }

  template <ReducingBlock Block>
  RTFX_DEVICE void operator()(Block& block, int32_t row, void* shared) const {
    const bool leads = row == 0 && block.thread() == 0;
    // These loads are in flight together with the logits, whether or not they are needed.
    const int64_t column = leads ? *beams.column : 0;
    const float before = beams.scores[row];
    const int64_t left = beams.frames_left(row), run = beams.run[row];
    const bool waits = earliest != nullptr && beams.time[row] > earliest[row / beams.beam];
    with_logits(block, scoring, row, shared, [&](const auto& logits) {
      if (leads) {
        *beams.column = column + 1;
        *any_active = false;
      }
      if (!(before > kLogZero && left > 0) || waits) {
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
  template <ReducingBlock Block, class Logits>
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
          const int32_t frames = scores.frames_of(label, index_of(key) % durations);
          candidates.write(row, i, before + value_of(key), label,
                           earliest != nullptr && frames < 1 ? 1 : frames);
        });
  }

  template <ReducingBlock Block, class Logits>
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

/// Makes the K best of an utterance's K * K candidates its hypotheses, and merges equal texts. A
/// block works on one utterance. An utterance without an active slot stays unchanged.
struct Choose {
  static constexpr int32_t kThreads = 256;

  Append append;
  Candidates candidates;
  bool merge_finished;  // TDT: merges equal texts that end at different frames
  bool* any_active;     // [1] set if a slot is active after the step
  int64_t* earliest;    // [B] see Expand; null if nothing needs it

  int32_t blocks() const { return append.beams.batch; }
  int64_t shared_bytes() const { return append.shared_bytes(); }

  template <ReducingBlock Block>
  RTFX_DEVICE void operator()(Block& block, int32_t utterance, void* shared) const {
    const Beams& beams = append.beams;
    const int32_t beam = beams.beam, first = utterance * beam;
    const int64_t frames = beams.frames[utterance];
    auto* slots = static_cast<Slot*>(shared);
    const bool leads = utterance == 0 && block.thread() == 0;
    const int32_t buffer = leads ? *append.moves.state_buffer : 0;

    // Candidates are chosen even if no slot is active: to know that first would take a barrier.
    bool active = false;
    for (int32_t k = block.thread(); k < beam; k += block.threads())
      active |= beams.active(first + k);
    candidates.best(block, utterance, beam, candidates.scores, [&](int32_t k, MaxKey key) {
      if (is_mine(block, k)) slots[k].candidate = key;
    });
    const bool open = block.all_reduce(active, Either{});
    append.run(
        block, utterance, slots, 0,
        [&](int32_t row, const Slot& slot) {
          return open ? candidates.step(utterance, beam, slot.candidate)
                      : Step{row, -1, 0, beams.scores[row]};
        },
        [&](const Slot* all, int32_t k) {
          return merged_text(all, beam, k, [&](const Slot& slot) -> int64_t {
            if (append.rule != AlignmentRule::tdt) return 0;
            return merge_finished && slot.time > frames ? frames : slot.time;
          });
        });

    active = false;
    int64_t first_frame = frames;
    for (int32_t k = block.thread(); k < beam; k += block.threads()) {
      const bool has_frame = slots[k].score > kLogZero && slots[k].time < frames;
      active |= has_frame;
      if (has_frame && slots[k].time < first_frame) first_frame = slots[k].time;
    }
    if (block.all_reduce(active, Either{}) && block.thread() == 0) *any_active = true;
    if (earliest != nullptr) {
      first_frame =
          block.all_reduce(first_frame, [](int64_t a, int64_t b) { return a < b ? a : b; });
      if (block.thread() == 0) earliest[utterance] = first_frame;
    }
    if (leads) *append.moves.state_buffer = 1 - buffer;
  }
};

}  // namespace rtfx::fused_beam
