#include "algorithms/hypotheses.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "algorithms/log_zero.h"
#include "models/tokenizers/tokenizer.h"

namespace rtfx {

std::string text_of(const Hypothesis& hypothesis, const Tokenizer& tokenizer) {
  if (!hypothesis.words) return tokenizer.text(hypothesis.tokens);
  std::string text;
  for (const FoundWord& word : *hypothesis.words) {
    if (!text.empty()) text += ' ';
    text += word.text;
  }
  return text;
}

void move_frames(Hypothesis& hypothesis, int64_t shift) {
  const auto frames = static_cast<int32_t>(shift);
  for (int32_t& frame : hypothesis.frames) frame += frames;
  if (hypothesis.words)
    for (FoundWord& word : *hypothesis.words) word.frame += frames;
  for (Hypothesis& entry : hypothesis.nbest) move_frames(entry, shift);
}

Hypotheses Hypotheses::empty(int64_t batch, at::Device device) {
  const auto ints = at::TensorOptions(at::kInt).device(device);
  return {at::zeros({batch}, ints),
          at::zeros({batch, 0}, ints),
          at::zeros({batch, 0}, ints),
          {},
          at::zeros({batch}, ints.dtype(at::kFloat)),
          at::zeros({batch}, ints.dtype(at::kBool))};
}

Hypotheses Hypotheses::one_block(int64_t batch, int64_t entries, int64_t capacity,
                                 bool with_durations, at::Device device) {
  const int64_t rows = batch * entries, slots = rows * capacity;
  const int64_t marks = (batch + 3) / 4;  // four marks take the place of one int32
  const int64_t columns = with_durations ? 3 : 2;
  const at::Tensor block =
      at::empty({2 * rows + marks + columns * slots}, at::TensorOptions(at::kInt).device(device));
  int64_t used = 0;
  const auto next_part = [&](int64_t count) {
    used += count;
    return block.narrow(0, used - count, count);
  };
  NBest list;
  list.lengths = next_part(rows).view({batch, entries});
  list.scores = next_part(rows).view(at::kFloat).view({batch, entries});
  const at::Tensor nan = next_part(marks).view(at::kBool).narrow(0, 0, batch);
  list.tokens = next_part(slots).view({batch, entries, capacity});
  list.frames = next_part(slots).view({batch, entries, capacity});
  if (with_durations) list.durations = next_part(slots).view({batch, entries, capacity});
  const auto first = [](const at::Tensor& t) { return t.defined() ? t.select(1, 0) : t; };
  return {first(list.lengths),
          first(list.tokens),
          first(list.frames),
          first(list.durations),
          first(list.scores),
          nan,
          list};
}

Hypotheses Hypotheses::from_lists(const std::vector<std::vector<Hypothesis>>& rows,
                                  bool with_durations, int64_t entries, const at::Tensor& nan) {
  size_t longest = 0;
  for (const auto& ranked : rows)
    for (const Hypothesis& h : ranked) longest = std::max(longest, h.tokens.size());
  Hypotheses result = one_block(static_cast<int64_t>(rows.size()), entries,
                                static_cast<int64_t>(longest), with_durations, at::kCPU);
  NBest& list = result.nbest;
  list.lengths.zero_();
  list.scores.fill_(kLogZero);
  for (size_t b = 0; b < rows.size(); ++b) {
    for (size_t n = 0; n < rows[b].size(); ++n) {
      const Hypothesis& h = rows[b][n];
      const auto at_entry = [&](const at::Tensor& tensor) {
        return tensor[static_cast<int64_t>(b)][static_cast<int64_t>(n)];
      };
      const auto put = [&](const at::Tensor& to, const std::vector<int32_t>& values) {
        if (to.defined())
          std::copy(values.begin(), values.end(), at_entry(to).mutable_data_ptr<int32_t>());
      };
      at_entry(list.lengths).fill_(static_cast<int32_t>(h.tokens.size()));
      at_entry(list.scores).fill_(h.score);
      put(list.tokens, h.tokens);
      put(list.frames, h.frames);
      put(list.durations, h.durations);
    }
  }
  at::logical_or_out(result.nan, nan, result.scores.isfinite().logical_not());
  if (entries == 1) result.nbest = {};
  return result;
}

Hypotheses Hypotheses::each(const std::function<at::Tensor(const at::Tensor&)>& function) const {
  const auto apply = [&](const at::Tensor& t) { return t.defined() ? function(t) : t; };
  return {apply(lengths),
          apply(tokens),
          apply(frames),
          apply(durations),
          apply(scores),
          apply(nan),
          {apply(nbest.lengths), apply(nbest.tokens), apply(nbest.frames), apply(nbest.durations),
           apply(nbest.scores)},
          words,
          risk};
}

}  // namespace rtfx
