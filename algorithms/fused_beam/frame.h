// AES++ (algorithms/aes_pp): the parts of a frame's expansions.
#pragma once

#include <cmath>

#include "algorithms/fused_beam/append.h"
#include "algorithms/fused_beam/row_scores.h"

namespace rtfx::fused_beam {

/// ln(e^a + e^b)
RTFX_DEVICE inline float log_add(float a, float b) {
  const float high = a > b ? a : b, low = a > b ? b : a;
  return low == kNothing ? high : high + log1pf(expf(low - high));
}

/// What the phases of a frame share.
struct Frame {
  Beams beams;
  Scoring scoring;
  RowSoftmax* softmax;  // [R] of the logits
  bool* open;           // [R] at this frame and without a blank
  int64_t* time;        // [1] this frame
  int64_t* expansions;  // [1] at this frame so far
  bool* any_active;     // [1] an utterance has a frame left
  bool* any_expanding;  // [1] a hypothesis is to be expanded at this frame

  RTFX_HOST_DEVICE bool tdt() const { return scoring.durations > 0; }
  RTFX_DEVICE bool alive(int32_t row) const { return beams.scores[row] > kNothing; }
  RTFX_DEVICE bool is_here(int32_t row) const {
    return alive(row) && (!tdt() || beams.time[row] == *time);
  }
  RTFX_DEVICE RowScores row_scores(int32_t row) const {
    return RowScores(scoring, row, softmax[row]);
  }
};

/// The softmax of each row's logits: a block for each row.
struct Normalize {
  Frame frame;
  int32_t blocks() const { return frame.beams.rows(); }
  int64_t shared_bytes() const { return 0; }

  template <class Block>
  RTFX_DEVICE void operator()(Block& block, int32_t row, void*) const {
    const RowSoftmax softmax = row_softmax(block, frame.scoring, row);
    if (block.thread() == 0) frame.softmax[row] = softmax;
  }
};

/// Which hypotheses are at the frame, and prefix search: a block for each utterance.
struct StartFrame {
  Frame frame;
  int32_t zero;  // TDT: index of duration 0, -1: none

  int32_t blocks() const { return frame.beams.batch; }
  int64_t shared_bytes() const { return int64_t{frame.beams.beam} * 4; }

  template <class Block>
  RTFX_DEVICE void operator()(Block& block, int32_t utterance, void* shared) const {
    const Beams& beams = frame.beams;
    const int32_t first = utterance * beams.beam;
    const bool active = *frame.time < beams.frames[utterance];
    const bool searches = active && beams.beam > 1 && (!frame.tdt() || zero >= 0);
    auto* totals = static_cast<float*>(shared);
    for (int32_t k = block.thread(); k < beams.beam; k += block.threads()) {
      const int32_t row = first + k;
      totals[k] = beams.scores[row];
      frame.open[row] = active && frame.is_here(row);
      if (searches && frame.open[row]) totals[k] = log_add(totals[k], given(first, row));
    }
    block.sync();  // totals are of the scores before
    int32_t any = 0;
    for (int32_t k = block.thread(); k < beams.beam; k += block.threads()) {
      beams.scores[first + k] = totals[k];
      any |= static_cast<int32_t>(frame.open[first + k]);
    }
    any = block.all(any, [](int32_t a, int32_t b) { return a | b; });
    if (block.thread() != 0) return;
    if (any != 0) *frame.any_expanding = true;  // it was false when the last frame was done
    if (utterance == 0) *frame.expansions = 0;
  }

 private:
  /// What the hypotheses without the last token of `row` give it.
  RTFX_DEVICE float given(int32_t first, int32_t row) const {
    const Beams& beams = frame.beams;
    float sum = kNothing;
    for (int32_t from = first; from < first + beams.beam; ++from) {
      const bool extends = beams.lengths[row] == beams.lengths[from] + 1 &&
                           beams.prefix_hash[row] == beams.hash[from] &&
                           (!frame.tdt() || beams.time[row] == beams.time[from]);
      if (!extends || !frame.alive(from)) continue;
      const RowScores scores = frame.row_scores(from);
      const auto last = static_cast<int32_t>(beams.last_label[row]);
      float total = scores.fused_label(last, scores.label(last)) + beams.scores[from];
      if (frame.tdt()) total += scores.duration(zero);
      sum = log_add(sum, total);
    }
    return sum;
  }
};

/// The best labels to follow each hypothesis that is open, without those that fall behind its best
/// by `gamma` and those that make a text which the beam holds; the others as they are, in the last
/// place. A block for each row. Also begins a column of the tree and takes back any_expanding, for
/// ChooseExpanded.
struct ExpandFrame {
  Frame frame;
  Candidates candidates;
  float gamma;
  bool count_acoustic_twice;

  int32_t blocks() const { return frame.beams.rows(); }
  int64_t shared_bytes() const {
    return candidates.count * 4 + BestLabels::bytes(frame.scoring, candidates.count);
  }

  template <class Block>
  RTFX_DEVICE void operator()(Block& block, int32_t row, void* shared) const {
    if (row == 0 && block.thread() == 0) {
      ++*frame.beams.column;
      ++*frame.expansions;
      *frame.any_expanding = false;
    }
    const int32_t count = candidates.count, durations = frame.scoring.durations;
    const float before = frame.beams.scores[row];
    if (!frame.open[row]) {
      candidates.write_alone(block, row, count - 1, before, -1, 0);
      return;
    }
    auto* pairs = static_cast<int32_t*>(shared);  // TDT: of label and duration
    const BestLabels best(pairs + count, count);
    const RowScores scores = frame.row_scores(row);
    best.fill(block, scores);
    if (durations > 0) {
      select(
          block, count * durations, count,
          [&](int32_t pair) {
            return key_of(best.scores[pair / durations] + scores.duration(pair % durations), pair);
          },
          [&](int32_t i, Key key) {
            if (is_mine(block, i)) pairs[i] = index_of(key);
          });
      block.sync();
    }
    const auto of_pair = [&](const float* values, int32_t i) {
      if (durations == 0) return values[i];
      return values[pairs[i] / durations] + scores.duration(pairs[i] % durations);
    };
    float greatest = kNothing;
    for (int32_t i = 0; i < count; ++i) greatest = fmaxf(greatest, before + of_pair(best.ranks, i));
    for (int32_t i = block.thread(); i < count; i += block.threads()) {
      const int32_t label = best.labels[durations == 0 ? i : pairs[i] / durations];
      const int32_t frames = durations == 0 ? 0 : scores.frames_of(label, pairs[i] % durations);
      const float rank = of_pair(best.ranks, i);
      float total = before + of_pair(best.scores, i);
      if (count_acoustic_twice) total += rank;
      const bool possible = before + rank > greatest - gamma && !held(row, label, frames);
      candidates.write(row, i, possible ? total : kNothing, label, frames);
    }
  }

 private:
  /// Whether the beam holds, at this frame, the text of `row` and a token that stays there.
  RTFX_DEVICE bool held(int32_t row, int32_t label, int32_t frames) const {
    const Beams& beams = frame.beams;
    if (label == beams.blank || frames > 0) return false;
    const int64_t hash = beams.extended(beams.hash[row], label);
    const int32_t first = row - row % beams.beam;
    for (int32_t other = first; other < first + beams.beam; ++other)
      if (beams.hash[other] == hash && frame.is_here(other)) return true;
    return false;
  }
};

/// What each slot takes of its utterance's candidates: a block for each utterance. Without an open
/// slot everything stays as it is.
struct ChooseExpanded {
  Frame frame;
  Append append;
  Candidates candidates;
  float* merged;         // [R, N]; TDT
  int32_t most;          // expansions of a frame
  bool ask_former_slot;  // as in NeMo: AesPp::Options::permute_update

  int32_t blocks() const { return frame.beams.batch; }
  int64_t shared_bytes() const {
    const int64_t all = int64_t{frame.beams.beam} * candidates.count;
    return append.shared_bytes() + (frame.tdt() ? all * 16 : 0) + frame.beams.beam * 4;
  }

  template <class Block>
  RTFX_DEVICE void operator()(Block& block, int32_t utterance, void* shared) const {
    const Beams& beams = frame.beams;
    const int32_t beam = beams.beam, first = utterance * beam;
    const auto either = [](int32_t a, int32_t b) { return a | b; };
    auto* slots = static_cast<Slot*>(shared);
    char* behind = static_cast<char*>(shared) + append.shared_bytes();
    auto* texts = reinterpret_cast<int64_t*>(behind);
    const int32_t all = frame.tdt() ? beam * candidates.count : 0;
    auto* may_go_on = reinterpret_cast<int32_t*>(texts + 2 * all);

    int32_t open = 0;
    for (int32_t k = block.thread(); k < beam; k += block.threads()) {
      const int32_t row = first + k;
      open |= static_cast<int32_t>(frame.open[row]);
      may_go_on[k] = !ask_former_slot || frame.open[row] || !frame.alive(row);
    }
    open = block.all(open, either);
    if (open != 0) {
      if (frame.tdt()) merge(block, first, texts, texts + all);
      candidates.best(block, utterance, beam, frame.tdt() ? merged : candidates.scores,
                      [&](int32_t k, Key key) {
                        if (is_mine(block, k)) slots[k].candidate = key;
                      });
    }
    block.sync();
    append.run(
        block, utterance, slots, 0,
        [&](int32_t row, const Slot& slot) {
          return open != 0 ? candidates.step(utterance, beam, slot.candidate)
                           : Step{row, -1, 0, beams.scores[row]};
        },
        [](const Slot* all, int32_t k) { return all[k].step.score; });

    int32_t any = 0;
    for (int32_t k = block.thread(); k < beam; k += block.threads()) {
      const Step& step = slots[k].step;
      const bool still = append.is_token(step.label) && frame.alive(first + k) &&
                         step.duration == 0 && may_go_on[k] != 0;
      frame.open[first + k] = still;
      any |= static_cast<int32_t>(still);
    }
    any = block.all(any, either);
    if (any != 0 && *frame.expansions < most && block.thread() == 0) *frame.any_expanding = true;
  }

 private:
  /// TDT: of candidates with equal texts at equal frames the best has the sum.
  template <class Block>
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

/// A blank for each hypothesis that has none yet: a block for each utterance.
struct FinishFrame {
  Frame frame;
  Append append;
  int32_t shortest;  // TDT: index of the smallest duration but 0, -1: none

  int32_t blocks() const { return frame.beams.batch; }
  int64_t shared_bytes() const { return append.shared_bytes(); }

  template <class Block>
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
    const RowScores scores = frame.row_scores(row);
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

/// On to the next frame: one block.
struct NextFrame {
  Frame frame;
  int32_t blocks() const { return 1; }
  int64_t shared_bytes() const { return 0; }

  template <class Block>
  RTFX_DEVICE void operator()(Block& block, int32_t, void*) const {
    const int64_t next = *frame.time + 1;
    int32_t any = 0;
    for (int32_t b = block.thread(); b < frame.beams.batch; b += block.threads())
      any |= static_cast<int32_t>(next < frame.beams.frames[b]);
    any = block.all(any, [](int32_t a, int32_t b) { return a | b; });
    if (block.thread() != 0) return;
    *frame.time = next;
    ++*frame.beams.column;
    *frame.any_active = any != 0;
  }
};

}  // namespace rtfx::fused_beam
