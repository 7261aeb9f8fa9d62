// The phases of a frame of AES++ (algorithms/decoders/beam/aes_pp/aes_pp.h has the algorithm). A
// frame begins with Normalize and StartFrame. ExpandFrame, ChooseExpanded and Normalize follow for
// each expansion. The frame ends with FinishFrame and NextFrame. The kernels include this file, so
// it includes no LibTorch header.
#pragma once

#include <cmath>

#include "algorithms/shared/fused_beam/hypothesis_step.h"
#include "algorithms/shared/fused_beam/network_phases.h"

namespace rtfx::fused_beam {

/// Returns ln(e^a + e^b).
RTFX_DEVICE inline float log_add(float a, float b) {
  const float high = a > b ? a : b, low = a > b ? b : a;
  return low == kLogZero ? high : high + log1pf(expf(low - high));
}

/// The state that the phases of a frame share.
struct Frame {
  Beams beams;
  Scoring scoring;
  RowSoftmax* softmax;  // [R] normalisers of the logits
  bool* open;           // [R] the hypothesis is at this frame and has no blank yet
  int64_t* time;        // [1] this frame
  int64_t* expansions;  // [1] number of expansions at this frame so far
  bool* any_active;     // [1] an utterance has a frame left
  bool* any_expanding;  // [1] a hypothesis must be expanded at this frame

  RTFX_HOST_DEVICE bool tdt() const { return scoring.durations > 0; }
  RTFX_DEVICE bool alive(int32_t row) const { return beams.scores[row] > kLogZero; }
  RTFX_DEVICE bool is_here(int32_t row) const {
    return alive(row) && (!tdt() || beams.time[row] == *time);
  }
  RTFX_DEVICE RowScores<RowLogits> row_scores(int32_t row) const {
    return RowScores(RowLogits(scoring, row), softmax[row]);
  }
};

/// Computes the normalisers of each row's logits; a block works on one row.
struct Normalize {
  static constexpr int32_t kThreads = 256;

  Frame frame;
  int32_t blocks() const { return frame.beams.rows(); }
  int64_t shared_bytes() const { return StagedLogits::bytes(frame.scoring); }

  template <ReducingBlock Block>
  RTFX_DEVICE void operator()(Block& block, int32_t row, void* shared) const {
    with_logits(block, frame.scoring, row, shared, [&](const auto& logits) {
      const RowSoftmax softmax = row_softmax(block, logits);
      if (block.thread() == 0) frame.softmax[row] = softmax;
    });
  }
};

/// Finds the hypotheses that are at the frame, and does the prefix search. A block works on one
/// utterance.
struct StartFrame {
  static constexpr int32_t kThreads = 128;

  Frame frame;
  int32_t zero;  // TDT: index of duration 0, -1 if there is none

  int32_t blocks() const { return frame.beams.batch; }
  int64_t shared_bytes() const {
    return int64_t{frame.beams.beam} * static_cast<int64_t>(sizeof(Text));
  }

  template <ReducingBlock Block>
  RTFX_DEVICE void operator()(Block& block, int32_t utterance, void* shared) const {
    const Beams& beams = frame.beams;
    const int32_t first = utterance * beams.beam;
    const int64_t now = *frame.time;
    const bool active = now < beams.frames[utterance];
    const bool searches = active && beams.beam > 1 && (!frame.tdt() || zero >= 0);
    auto* texts = static_cast<Text*>(shared);
    for (int32_t k = block.thread(); k < beams.beam; k += block.threads())
      texts[k] = text_of(first + k);
    block.sync();
    bool any = false;
    for (int32_t k = block.thread(); k < beams.beam; k += block.threads()) {
      const Text& own = texts[k];
      const bool here = own.score > kLogZero && (!frame.tdt() || own.time == now);
      frame.open[first + k] = active && here;
      any |= active && here;
      if (searches && here)
        beams.scores[first + k] = log_add(own.score, from_prefixes(first, texts, own));
    }
    any = block.all_reduce(any, Either{});
    if (block.thread() != 0) return;
    if (any) *frame.any_expanding = true;  // it was false at the end of the last frame
    if (utterance == 0) *frame.expansions = 0;
  }

 private:
  /// A hypothesis before the prefix search.
  struct Text {
    int64_t hash, prefix_hash, length, time;
    int32_t last_label;
    float score;
  };
  RTFX_DEVICE Text text_of(int32_t row) const {
    const Beams& beams = frame.beams;
    return {beams.hash[row],
            beams.prefix_hash[row],
            beams.lengths[row],
            beams.time[row],
            static_cast<int32_t>(beams.last_label[row]),
            beams.scores[row]};
  }

  /// Returns ln of the probability that `own` gets from the hypotheses without its last token.
  RTFX_DEVICE float from_prefixes(int32_t first, const Text* texts, const Text& own) const {
    float sum = kLogZero;
    for (int32_t k = 0; k < frame.beams.beam; ++k) {
      const Text& from = texts[k];
      const bool extends = own.length == from.length + 1 && own.prefix_hash == from.hash &&
                           (!frame.tdt() || own.time == from.time);
      if (!extends || !(from.score > kLogZero)) continue;
      const RowScores<RowLogits> scores = frame.row_scores(first + k);
      float total = scores.fused_label(own.last_label, scores.label(own.last_label)) + from.score;
      if (frame.tdt()) total += scores.duration(zero);
      sum = log_add(sum, total);
    }
    return sum;
  }
};

/// Writes the best labels to follow each open hypothesis. Labels that are `gamma` or more worse
/// than the best one get -inf, and so do labels that make a text which the beam holds. A hypothesis
/// that is not open has one candidate, itself, in the last column. A block works on one row. The
/// phase also begins a column of the tree and clears any_expanding, which ChooseExpanded sets.
struct ExpandFrame {
  static constexpr int32_t kThreads = 256;

  Frame frame;
  Candidates candidates;
  float gamma;
  bool count_acoustic_twice;  // as NeMo does: see AesPp::Options::compatibility

  int32_t blocks() const { return frame.beams.rows(); }
  int64_t shared_bytes() const {
    return frame.beams.beam * static_cast<int64_t>(sizeof(Held)) +
           StagedLogits::bytes(frame.scoring) + candidates.count * 4 +
           BestLabels::bytes(frame.scoring, candidates.count);
  }

  template <ReducingBlock Block>
  RTFX_DEVICE void operator()(Block& block, int32_t row, void* shared) const {
    const bool leads = row == 0 && block.thread() == 0;
    const int32_t count = candidates.count, beam = frame.beams.beam, first = row - row % beam;
    auto* held = static_cast<Held*>(shared);
    // These loads are in flight together with the logits, whether or not they are needed.
    const int64_t column = leads ? *frame.beams.column : 0;
    const int64_t expansions = leads ? *frame.expansions : 0;
    const float before = frame.beams.scores[row];
    const bool open = frame.open[row];
    const RowSoftmax softmax = frame.softmax[row];
    with_logits(block, frame.scoring, row, held + beam, [&](const auto& logits) {
      if (leads) {
        *frame.beams.column = column + 1;
        *frame.expansions = expansions + 1;
        *frame.any_expanding = false;
      }
      if (!open) {
        candidates.write_alone(block, row, count - 1, before, -1, 0);
        return;
      }
      for (int32_t k = block.thread(); k < beam; k += block.threads())
        held[k] = {frame.beams.hash[first + k], frame.is_here(first + k)};
      block.sync();
      expand(block, before, RowScores(logits, softmax), held);
    });
  }

 private:
  /// A text of the beam, and whether it is at this frame.
  struct Held {
    int64_t hash;
    bool here;
  };

  template <ReducingBlock Block, class Logits>
  RTFX_DEVICE void expand(Block& block, float before, const RowScores<Logits>& scores,
                          Held* held) const {
    const int32_t row = scores.row(), count = candidates.count, durations = frame.scoring.durations;
    const int64_t hash = held[row % frame.beams.beam].hash;
    char* behind_logits =
        reinterpret_cast<char*>(held + frame.beams.beam) + StagedLogits::bytes(frame.scoring);
    auto* pairs = reinterpret_cast<int32_t*>(behind_logits);  // TDT: pairs of label and duration
    const BestLabels best(pairs + count, count);
    best.fill(block, scores);
    if (durations > 0) {
      select(
          block, count * durations, count,
          [&](int32_t pair) {
            return max_key(best.scores[pair / durations] + scores.duration(pair % durations), pair);
          },
          [&](int32_t i, MaxKey key) {
            if (is_mine(block, i)) pairs[i] = index_of(key);
          });
      block.sync();
    }
    const auto value_at = [&](const float* values, int32_t i) {
      if (durations == 0) return values[i];
      return values[pairs[i] / durations] + scores.duration(pairs[i] % durations);
    };
    float greatest = kLogZero;
    for (int32_t i = 0; i < count; ++i)
      greatest = fmaxf(greatest, before + value_at(best.ranks, i));
    for (int32_t i = block.thread(); i < count; i += block.threads()) {
      const int32_t label = best.labels[durations == 0 ? i : pairs[i] / durations];
      const int32_t frames = durations == 0 ? 0 : scores.frames_of(label, pairs[i] % durations);
      const float rank = value_at(best.ranks, i);
      float total = before + value_at(best.scores, i);
      if (count_acoustic_twice) total += rank;
      const bool possible =
          before + rank > greatest - gamma &&
          (label == frame.beams.blank || frames > 0 || !is_held(held, hash, label));
      candidates.write(row, i, possible ? total : kLogZero, label, frames);
    }
  }

  /// Returns whether the beam holds, at this frame, the text of `hash` followed by `token`.
  RTFX_DEVICE bool is_held(const Held* held, int64_t hash, int32_t token) const {
    const int64_t extended = frame.beams.extended(hash, token);
    for (int32_t k = 0; k < frame.beams.beam; ++k)
      if (held[k].hash == extended && held[k].here) return true;
    return false;
  }
};

/// Makes the K best candidates of an utterance its hypotheses. A block works on one utterance. An
/// utterance without an open slot stays unchanged.
struct ChooseExpanded {
  static constexpr int32_t kThreads = 256;

  Frame frame;
  Append append;
  Candidates candidates;
  float* merged;         // [R, N] scores after merging; TDT
  int32_t most;          // upper bound of the expansions at a frame
  bool ask_former_slot;  // as NeMo does: see AesPp::Options::compatibility

  int32_t blocks() const { return frame.beams.batch; }
  int64_t shared_bytes() const {
    const int64_t all = int64_t{frame.beams.beam} * candidates.count;
    return append.shared_bytes() + (frame.tdt() ? all * 16 : 0) + frame.beams.beam * 4;
  }

  template <ReducingBlock Block>
  RTFX_DEVICE void operator()(Block& block, int32_t utterance, void* shared) const {
    const Beams& beams = frame.beams;
    const int32_t beam = beams.beam, first = utterance * beam;
    auto* slots = static_cast<Slot*>(shared);
    char* behind = static_cast<char*>(shared) + append.shared_bytes();
    auto* texts = reinterpret_cast<int64_t*>(behind);
    const int32_t all = frame.tdt() ? beam * candidates.count : 0;
    auto* may_go_on = reinterpret_cast<int32_t*>(texts + 2 * all);
    const bool leads = utterance == 0 && block.thread() == 0;
    const int32_t buffer = leads ? *append.moves.state_buffer : 0;
    const bool goes_on = *frame.expansions < most;
    bool open = false;
    for (int32_t k = block.thread(); k < beam; k += block.threads()) {
      const bool was_open = frame.open[first + k], alive = frame.alive(first + k);
      open |= was_open;
      may_go_on[k] = !ask_former_slot || was_open || !alive;
    }
    open = block.all_reduce(open, Either{});
    if (open) {
      if (frame.tdt()) merge(block, first, texts, texts + all);
      candidates.best(block, utterance, beam, frame.tdt() ? merged : candidates.scores,
                      [&](int32_t k, MaxKey key) {
                        if (is_mine(block, k)) slots[k].candidate = key;
                      });
    }
    append.run(
        block, utterance, slots, 0,
        [&](int32_t row, const Slot& slot) {
          return open ? candidates.step(utterance, beam, slot.candidate)
                      : Step{row, -1, 0, beams.scores[row]};
        },
        [](const Slot* all, int32_t k) { return all[k].step.score; });

    bool any = false;
    for (int32_t k = block.thread(); k < beam; k += block.threads()) {
      const Step& step = slots[k].step;
      const bool still = append.is_token(step.label) && slots[k].score > kLogZero &&
                         step.duration == 0 && may_go_on[k] != 0;
      frame.open[first + k] = still;
      any |= still;
    }
    any = block.all_reduce(any, Either{});
    if (any && goes_on && block.thread() == 0) *frame.any_expanding = true;
    if (leads) *append.moves.state_buffer = 1 - buffer;
  }

 private:
  /// Gives the best of the candidates with equal texts at equal frames their sum. TDT only.
  template <ReducingBlock Block>
  RTFX_DEVICE void merge(Block& block, int32_t first, int64_t* hashes, int64_t* times) const {
    const Beams& beams = frame.beams;
    const int32_t count = candidates.count, all = beams.beam * count;
    const int64_t own = int64_t{first} * count;
    for (int32_t i = block.thread(); i < all; i += block.threads()) {
      const int32_t row = first + i / count, label = candidates.labels[own + i];
      const int64_t hash = beams.hash[row];
      hashes[i] = append.is_token(label) ? beams.extended(hash, label) : hash;
      times[i] = beams.time[row] + candidates.durations[own + i];
    }
    block.sync();
    for (int32_t i = block.thread(); i < all; i += block.threads()) {
      merged[own + i] = merged_score(
          all, i, [&](int32_t j) { return candidates.scores[own + j]; },
          [&](int32_t j) { return hashes[j] == hashes[i] && times[j] == times[i]; });
    }
    block.sync();
  }
};

/// Appends a blank to each hypothesis that has none yet. A block works on one utterance.
struct FinishFrame {
  static constexpr int32_t kThreads = 128;

  Frame frame;
  Append append;
  int32_t shortest;  // TDT: index of the smallest duration above 0, -1 if there is none

  int32_t blocks() const { return frame.beams.batch; }
  int64_t shared_bytes() const { return append.shared_bytes(); }

  template <ReducingBlock Block>
  RTFX_DEVICE void operator()(Block& block, int32_t utterance, void* shared) const {
    const int32_t beam = frame.beams.beam;
    append.run(
        block, utterance, static_cast<Slot*>(shared), 1,
        [&](int32_t row, const Slot&) { return step_of(row); },
        [&](const Slot* all, int32_t k) {
          if (!frame.tdt()) return all[k].step.score;
          return merged_text(all, beam, k, [](const Slot& slot) { return slot.time; });
        });
  }

 private:
  RTFX_DEVICE Step step_of(int32_t row) const {
    const float before = frame.beams.scores[row];
    if (!frame.open[row]) return {row, -1, 0, before};
    const RowScores<RowLogits> scores = frame.row_scores(row);
    float blank = scores.blank();
    int32_t frames = 0;
    if (frame.tdt()) {
      int32_t duration = scores.likeliest_duration();
      if (shortest >= 0 && frame.scoring.duration_values[duration] == 0) duration = shortest;
      blank += scores.duration(duration);
      frames = scores.frames_of(frame.beams.blank, duration);
    }
    return {row, frame.beams.blank, frames, before + blank};
  }
};

/// Moves to the next frame, by one block.
struct NextFrame {
  static constexpr int32_t kThreads = 128;

  Frame frame;
  int32_t blocks() const { return 1; }
  int64_t shared_bytes() const { return 0; }

  template <ReducingBlock Block>
  RTFX_DEVICE void operator()(Block& block, int32_t, void*) const {
    const int64_t next = *frame.time + 1;
    bool any = false;
    for (int32_t b = block.thread(); b < frame.beams.batch; b += block.threads())
      any |= next < frame.beams.frames[b];
    any = block.all_reduce(any, Either{});
    if (block.thread() != 0) return;
    *frame.time = next;
    ++*frame.beams.column;
    *frame.any_active = any;
  }
};

}  // namespace rtfx::fused_beam
