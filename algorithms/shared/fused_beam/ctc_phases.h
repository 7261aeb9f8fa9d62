// CTC prefix beam search as one kernel (algorithms/decoders/beam/ctc_beam/ctc_beam.h has the
// algorithm): a block of threads searches all frames of an utterance. The kernel includes this
// file, so it includes no LibTorch header.
#pragma once

#include "algorithms/shared/fused_beam/hypothesis_step.h"
#include "algorithms/shared/ngram_lm/view.h"

namespace rtfx::fused_beam {

/// A hypothesis ("prefix") of an utterance, in memory that the block shares.
struct Prefix {
  MaxKey candidate;  // its next step: index hypothesis * (V+1) + label, and score
  int64_t hash, prefix_hash;
  int32_t length, last_label;  // number of tokens; last label, blank included, -1 at the start
  float chosen, score;         // before and after equal texts were merged
  int32_t lm_state, bias_state;
  int32_t bonus_row;  // row of `bonuses` that holds the bonus of each next token
  bool new_token;
};

/// Moves `beams` from the start to the end of the utterances. In the tree's columns behind an
/// utterance's last frame its hypotheses stay unchanged. Candidates are not stored: each thread
/// computes those that it compares.
struct CtcFrames {
  static constexpr int32_t kThreads = 512;

  Beams beams;
  const float* log_probs;  // [B, columns, V+1]
  int32_t columns;         // T', the number of frames and of the tree's columns
  Fusion fusion;           // early and full have no effect: all labels are candidates
  float* bonuses;          // [B, K, V] scratch, K rows for each utterance; null without fusion
  float threshold;
  bool sum;  // equal texts get the sum of their probabilities; otherwise the best one

  int32_t blocks() const { return beams.batch; }
  int64_t shared_bytes() const {
    return beams.beam * static_cast<int64_t>(2 * sizeof(Prefix) + sizeof(int32_t));
  }

  template <ReducingBlock Block>
  RTFX_DEVICE void operator()(Block& block, int32_t utterance, void* shared) const {
    auto* now = static_cast<Prefix*>(shared);
    Prefix* next = now + beams.beam;
    auto* row_in_use = reinterpret_cast<int32_t*>(next + beams.beam);
    load(block, utterance, now);
    const auto frames = static_cast<int32_t>(beams.frames[utterance]);
    for (int32_t t = 0; t < frames; ++t) {
      choose(block, utterance, t, now, next);
      for (int32_t k = block.thread(); k < beams.beam; k += block.threads())
        extend(utterance, t, now, next, k);
      block.sync();
      for (int32_t k = block.thread(); k < beams.beam; k += block.threads())
        next[k].score = merged(next, k);
      block.sync();
      if (fusion.any()) score_tokens(block, utterance, next, row_in_use);
      Prefix* const before = now;
      now = next;
      next = before;
    }
    store(block, utterance, now, frames);
  }

 private:
  RTFX_DEVICE int32_t labels() const { return beams.blank + 1; }
  RTFX_DEVICE float* bonus_row(int32_t utterance, int32_t row) const {
    return bonuses + (int64_t{utterance} * beams.beam + row) * beams.blank;
  }

  /// Writes the bonus of each token after `p` into the row of `p`.
  template <ThreadBlock Block>
  RTFX_DEVICE void fill_row(const Block& block, int32_t utterance, const Prefix& p) const {
    float* const row = bonus_row(utterance, p.bonus_row);
    if (fusion.states != nullptr) advance_row(block, fusion.lm, p.lm_state, row, nullptr);
    // Threads read tokens that other threads may have written: advance_row() ended with a barrier.
    for (int32_t token = block.thread(); token < beams.blank; token += block.threads()) {
      float bonus = fusion.states != nullptr ? lm_bonus(row[token]) : 0.0f;
      if (fusion.bias_roots != nullptr)
        bonus += fusion.bias_score(utterance * beams.beam, p.bias_state, token);
      row[token] = bonus;
    }
  }

  /// Loads the beam. All slots have the same text at the start, and so they share a row.
  template <ReducingBlock Block>
  RTFX_DEVICE void load(Block& block, int32_t utterance, Prefix* now) const {
    const int32_t first = utterance * beams.beam;
    for (int32_t k = block.thread(); k < beams.beam; k += block.threads()) {
      const int32_t row = first + k;
      now[k] = {0,
                beams.hash[row],
                beams.prefix_hash[row],
                static_cast<int32_t>(beams.lengths[row]),
                static_cast<int32_t>(beams.last_label[row]),
                beams.scores[row],
                beams.scores[row],
                fusion.states != nullptr ? fusion.states[row] : 0,
                fusion.bias_roots != nullptr ? fusion.bias_states[row] : 0,
                0,
                false};
    }
    block.sync();
    if (fusion.any()) fill_row(block, utterance, now[0]);
    block.sync();
  }

  /// Chooses the K best candidates among all hypotheses with all labels.
  template <ReducingBlock Block>
  RTFX_DEVICE void choose(Block& block, int32_t utterance, int32_t t, const Prefix* now,
                          Prefix* next) const {
    const float* frame = log_probs + (int64_t{utterance} * columns + t) * labels();
    select(
        block, beams.beam * labels(), beams.beam,
        [&](int32_t i) {
          const Prefix& p = now[i / labels()];
          const int32_t label = i % labels();
          float score = frame[label] + p.score;
          if (fusion.any() && is_new_token(p, label))
            score += bonus_row(utterance, p.bonus_row)[label];
          return max_key(score, i);
        },
        [&](int32_t k, MaxKey key) {
          if (is_mine(block, k)) next[k].candidate = key;
        });
    block.sync();
  }

  RTFX_DEVICE bool is_new_token(const Prefix& p, int32_t label) const {
    return label != beams.blank && label != p.last_label;
  }
  RTFX_DEVICE float lm_bonus(float lm) const {
    // An unknown token may have ln p = -inf, and 0 * -inf would be NaN.
    return (fusion.alpha == 0 ? 0.0f : product(lm, fusion.alpha)) + fusion.beta;
  }

  /// Fills slot k of `next` from its candidate.
  RTFX_DEVICE void extend(int32_t utterance, int32_t t, const Prefix* now, Prefix* next,
                          int32_t k) const {
    Prefix& p = next[k];
    const int32_t index = index_of(p.candidate), label = index % labels(),
                  parent = index / labels();
    const Prefix& from = now[parent];
    const float value = value_of(p.candidate);
    p.chosen = value > value_of(next[0].candidate) - threshold ? value : kLogZero;
    p.new_token = is_new_token(from, label);
    p.hash = p.new_token ? beams.extended(from.hash, label) : from.hash;
    p.prefix_hash = p.new_token ? from.hash : from.prefix_hash;
    p.length = from.length + static_cast<int32_t>(p.new_token);
    p.last_label = label;
    p.bonus_row = from.bonus_row;
    p.lm_state = from.lm_state;
    p.bias_state = from.bias_state;
    if (p.new_token && fusion.states != nullptr)
      p.lm_state = look_up(fusion.lm, from.lm_state, label).next;
    if (p.new_token)
      p.bias_state = fusion.bias_next(utterance * beams.beam, from.bias_state, label);
    write_tree(utterance, t, k, label, parent);
  }

  RTFX_DEVICE void write_tree(int32_t utterance, int32_t t, int32_t k, int32_t label,
                              int32_t parent) const {
    const int64_t place = int64_t{t} * beams.rows() + utterance * beams.beam + k;
    beams.tree_labels[place] = label;
    beams.tree_parents[place] = parent;
  }

  RTFX_DEVICE float merged(const Prefix* all, int32_t k) const {
    const Prefix& own = all[k];
    return merged_score(
        beams.beam, k, [&](int32_t j) { return all[j].chosen; },
        [&](int32_t j) {
          return all[j].hash == own.hash && all[j].last_label == own.last_label &&
                 all[j].length == own.length;
        },
        sum);
  }

  /// Fills the rows of the hypotheses that have a new token. The others keep their rows, so that at
  /// most K rows are in use.
  template <ReducingBlock Block>
  RTFX_DEVICE void score_tokens(Block& block, int32_t utterance, Prefix* all,
                                int32_t* row_in_use) const {
    const auto is_fresh = [](const Prefix& p) { return p.new_token && p.score > kLogZero; };
    for (int32_t k = block.thread(); k < beams.beam; k += block.threads()) row_in_use[k] = 0;
    block.sync();
    for (int32_t k = block.thread(); k < beams.beam; k += block.threads())
      if (!is_fresh(all[k])) row_in_use[all[k].bonus_row] = 1;
    block.sync();
    if (block.thread() == 0) {
      int32_t row = 0;
      for (int32_t k = 0; k < beams.beam; ++k) {
        if (!is_fresh(all[k])) continue;
        while (row_in_use[row] != 0) ++row;
        all[k].bonus_row = row++;
      }
    }
    block.sync();
    for (int32_t k = 0; k < beams.beam; ++k)
      if (is_fresh(all[k])) fill_row(block, utterance, all[k]);
    block.sync();
  }

  template <ReducingBlock Block>
  RTFX_DEVICE void store(Block& block, int32_t utterance, const Prefix* all, int32_t frames) const {
    const int32_t first = utterance * beams.beam;
    for (int32_t k = block.thread(); k < beams.beam; k += block.threads()) {
      const int32_t row = first + k;
      beams.scores[row] = all[k].score;
      beams.hash[row] = all[k].hash;
      beams.prefix_hash[row] = all[k].prefix_hash;
      beams.lengths[row] = all[k].length;
      beams.last_label[row] = all[k].last_label;
      beams.time[row] = frames;
      if (fusion.states != nullptr) fusion.states[row] = all[k].lm_state;
      if (fusion.bias_roots != nullptr) fusion.bias_states[row] = all[k].bias_state;
      for (int32_t t = frames; t < columns; ++t) write_tree(utterance, t, k, -1, k);
    }
    if (utterance == 0 && block.thread() == 0) *beams.column = columns;
  }
};

}  // namespace rtfx::fused_beam
