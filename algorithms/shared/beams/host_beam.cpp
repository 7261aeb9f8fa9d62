#include "algorithms/shared/beams/host_beam.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "algorithms/batched_hypotheses.h"
#include "base/nvtx.h"
#include "models/checkpoint/tensor_data.h"
#include "models/parallel.h"

namespace rtfx {

namespace {

/// Compares as at::topk does: all NaNs are equal.
template <class T>
bool are_equal(T a, T b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

/// Counts the values that equal `value` among the first `count` of a row. The loop has no branches,
/// so that the compiler vectorises it.
template <class T>
int64_t count_equal(const T* row, int64_t count, T value) {
  int64_t equal = 0;
  for (int64_t i = 0; i < count; ++i) equal += row[i] == value;
  return equal;
}

/// Gives equal values the order of the rule. `best` [k] holds the values that LibTorch chose from
/// `row`, best first, and `index` [k] where it found them.
template <class T>
void order_equal_values(const T* row, const T* best, int64_t* index, int64_t k) {
  for (int64_t begin = 0; begin < k;) {
    int64_t end = begin + 1;
    while (end < k && are_equal(best[begin], best[end])) ++end;
    std::sort(index + begin, index + end);
    // The row may hold more of the last value than were chosen, at lower indices.
    const T value = best[begin];
    const int64_t width = index[end - 1] + 1;
    if (end == k && count_equal(row, width, value) != end - begin) {
      for (int64_t i = 0; i < width && begin < k; ++i)
        if (are_equal(row[i], value)) index[begin++] = i;
    }
    begin = end;
  }
}

/// Returns the values that LibTorch chooses, in the order of our rule. LibTorch leaves open which
/// of equal values it takes, and in which order.
template <class T>
TopK top_k_on_cpu(const at::Tensor& values, int64_t k) {
  const at::Tensor rows = values.contiguous();
  const auto [best, indices] = rows.topk(k, -1);
  const int64_t width = rows.size(-1);
  const T* row = data_of<T>(rows);
  const T* chosen = data_of<T>(best);
  auto* index = indices.mutable_data_ptr<int64_t>();
  parallel_ranges(k == 0 ? 0 : indices.numel() / k, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      order_equal_values(row + r * width, chosen + r * k, index + r * k, k);
  });
  return {rows.gather(-1, indices), indices};
}

/// Sorts integers that hold value and index, so that no two of a row are equal. They have the order
/// of max_key (algorithms/gpu/ordered_key.h). The bits of positive floats have the order of their
/// values, and those of negative ones the reverse order. Adding 0 turns -0 into 0, and any NaN into
/// the GPU's own, whose bits are 0x7fffffff.
TopK top_k_on_gpu(const at::Tensor& values, int64_t k) {
  const at::Tensor bits = (values + 0.0).view(at::kInt).to(at::kLong);
  const at::Tensor order = at::where(bits < 0, bits.bitwise_xor(0x7fffffff), bits);
  const at::Tensor index = at::arange(values.size(-1), order.options());
  const at::Tensor indices = std::get<1>((order.mul(int64_t{1} << 32) - index).topk(k, -1));
  return {values.gather(-1, indices), indices};
}

}  // namespace

TopK top_k(const at::Tensor& values, int64_t k) {
  if (k == 1) {
    const auto [best, index] = values.max(-1, /*keepdim=*/true);  // the first of equal ones
    return {best, index};
  }
  if (values.is_cuda()) return top_k_on_gpu(values, k);
  return values.scalar_type() == at::kDouble ? top_k_on_cpu<double>(values, k)
                                             : top_k_on_cpu<float>(values, k);
}

PredictionTree::PredictionTree(const Transducer& transducer)
    : transducer_(transducer),
      labels_(at::arange(transducer.blank() + 1,
                         at::TensorOptions(at::kLong).device(transducer.device()))),
      nodes_(1) {
  const Transducer::Prediction start = transducer.start(1);
  ++predictor_calls_;
  nodes_[kEmpty].output = start.output.squeeze(0);
  nodes_[kEmpty].state = start.state;
}

PredictionTree::Text PredictionTree::extended(Text text, int32_t token) {
  const auto [found, fresh] = nodes_[text].children.emplace(token, nodes_.size());
  if (!fresh) return found->second;
  nodes_.push_back({text, token, nodes_[text].length + 1});
  return nodes_.size() - 1;
}

std::vector<int32_t> PredictionTree::tokens(Text text) const {
  std::vector<int32_t> tokens;
  for (; text != kEmpty; text = parent(text)) tokens.push_back(last_token(text));
  std::reverse(tokens.begin(), tokens.end());
  return tokens;
}

at::Tensor PredictionTree::outputs(const std::vector<Text>& texts) {
  std::vector<Text> missing;
  for (const Text text : texts) {
    const bool listed = std::find(missing.begin(), missing.end(), text) != missing.end();
    if (!nodes_[text].output.defined() && !listed) missing.push_back(text);
  }
  if (!missing.empty()) compute(missing);
  std::vector<at::Tensor> rows;
  for (const Text text : texts) rows.push_back(nodes_[text].output);
  return at::stack(rows);
}

void PredictionTree::compute(const std::vector<Text>& texts) {
  std::vector<at::Tensor> labels, h, c, context;
  for (const Text text : texts) {
    const PredictionState& state = nodes_[nodes_[text].parent].state;
    labels.push_back(labels_[nodes_[text].token]);
    if (state.h.defined()) {
      h.push_back(state.h);
      c.push_back(state.c);
    } else {
      context.push_back(state.context);
    }
  }
  const PredictionState before = h.empty() ? PredictionState{{}, {}, at::cat(context)}
                                           : PredictionState{at::cat(h, 1), at::cat(c, 1), {}};
  const Transducer::Prediction after = transducer_.predict(at::stack(labels), before);
  ++predictor_calls_;
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    const PredictionState& all = after.state;
    nodes_[texts[i]].output = after.output[row];
    nodes_[texts[i]].state =
        h.empty() ? PredictionState{{}, {}, all.context.narrow(0, row, 1)}
                  : PredictionState{all.h.narrow(1, row, 1), all.c.narrow(1, row, 1), {}};
  }
}

namespace {

constexpr double kImpossible = -std::numeric_limits<double>::infinity();

}  // namespace

HostHypothesis HostHypothesis::after(PredictionTree::Text next, double log_prob,
                                     int64_t duration) const {
  HostHypothesis result = *this;
  result.score += log_prob;
  result.time += duration;
  if (next != text) {
    result.text = next;
    result.frames.push_back(static_cast<int32_t>(time));
    result.durations.push_back(static_cast<int32_t>(duration));
  }
  return result;
}

double log_add(double a, double b) {
  const double high = std::max(a, b), low = std::min(a, b);
  return low == kImpossible ? high : high + std::log1p(std::exp(low - high));
}

void keep_best(HostBeam& beam, size_t count) {
  std::stable_sort(beam.begin(), beam.end(), [](const HostHypothesis& a, const HostHypothesis& b) {
    return a.score > b.score;
  });
  if (beam.size() > count) beam.resize(count);
}

void merge_equal(HostBeam& beam, bool same_time) {
  std::map<std::pair<PredictionTree::Text, int64_t>, size_t> indices;  // in `merged`
  HostBeam merged;
  std::vector<double> best;  // score of the hypothesis that stays, without the others
  for (HostHypothesis& hypothesis : beam) {
    const auto [found, fresh] =
        indices.emplace(std::pair{hypothesis.text, same_time ? hypothesis.time : 0}, merged.size());
    if (fresh) {
      best.push_back(hypothesis.score);
      merged.push_back(std::move(hypothesis));
      continue;
    }
    HostHypothesis& stays = merged[found->second];
    const double sum = log_add(stays.score, hypothesis.score);
    if (double& alone = best[found->second]; hypothesis.score > alone) {
      alone = hypothesis.score;
      stays = std::move(hypothesis);
    }
    stays.score = sum;
  }
  beam = std::move(merged);
}

HostLogProbs::HostLogProbs(at::Tensor values, int64_t labels)
    : values_(std::move(values)),
      labels_(labels),
      numbers_(values_.scalar_type() == at::kDouble ? Numbers(data_of<double>(values_))
                                                    : Numbers(data_of<float>(values_))) {}

std::vector<int32_t> HostLogProbs::best_labels(size_t i, int64_t labels, int64_t count) const {
  std::vector<int32_t> order(static_cast<size_t>(labels));
  std::iota(order.begin(), order.end(), 0);
  const auto end = order.begin() + std::min(labels, count);
  const auto sort = [&](const auto* all) {
    const auto* const row = all + static_cast<int64_t>(i) * values_.size(1);
    std::partial_sort(order.begin(), end, order.end(), [row](int32_t a, int32_t b) {
      return row[a] > row[b] || (row[a] == row[b] && a < b);
    });
  };
  std::visit(sort, numbers_);
  order.erase(end, order.end());
  return order;
}

bool HostLogProbs::nan() const {
  const auto any = [this](const auto* all) {
    return std::any_of(all, all + values_.numel(), [](auto x) { return std::isnan(x); });
  };
  return std::visit(any, numbers_);
}

HostLogProbs HostLattice::log_probs(const std::vector<Node>& nodes) {
  std::vector<PredictionTree::Text> texts;
  std::vector<at::Tensor> frames;
  for (const Node& node : nodes) {
    texts.push_back(node.text);
    frames.push_back(encoded_[node.time]);
  }
  ++joint_calls_;
  const LogProbs next =
      transducer_.log_probs(at::stack(frames), tree_.outputs(texts), temperature_);
  const at::Tensor all =
      next.durations.defined() ? at::cat({next.labels, next.durations}, 1) : next.labels;
  return {host_.values(all), next.labels.size(1)};
}

HostLogProbs HostLattice::log_probs(const HostBeam& beam) {
  std::vector<Node> nodes;
  for (const HostHypothesis& hypothesis : beam) nodes.push_back({hypothesis.text, hypothesis.time});
  return log_probs(nodes);
}

std::vector<Move> HostLattice::moves(const HostLogProbs& next, size_t i) const {
  if (durations_.empty()) return {Move{}};
  std::vector<Move> moves;
  for (size_t d = 0; d < durations_.size(); ++d) {
    const int64_t frames = durations_[d];
    moves.push_back(
        {std::max<int64_t>(1, frames), frames, next.duration(i, static_cast<int64_t>(d))});
  }
  return moves;
}

std::vector<Hypothesis> rank(HostBeam beam, const PredictionTree& tree, bool score_norm,
                             int64_t nbest) {
  const auto key = [&](const HostHypothesis& h) {
    return score_norm ? h.score / static_cast<double>(tree.length(h.text) + 1) : h.score;
  };
  std::stable_sort(beam.begin(), beam.end(), [&](const HostHypothesis& a, const HostHypothesis& b) {
    return key(a) > key(b);
  });
  if (beam.size() > static_cast<size_t>(nbest)) beam.resize(static_cast<size_t>(nbest));
  std::vector<Hypothesis> ranked;
  for (const HostHypothesis& h : beam) {
    ranked.push_back(
        {tree.tokens(h.text), h.frames, h.durations, static_cast<float>(h.score), false});
  }
  return ranked;
}

Hypotheses search_one_by_one(
    const Transducer& transducer, const EncodedBatch& batch, int64_t nbest, HostReads& host,
    const std::function<std::vector<Hypothesis>(const at::Tensor& encoded)>& search) {
  at::Tensor encoded;
  {
    const ScopedRange range(RangeName::decode_project, batch.frames.size(0));
    encoded = transducer.encode(batch.frames);
  }
  const ScopedRange range(RangeName::decode_loop, batch.frames.size(0));
  std::vector<std::vector<Hypothesis>> results;
  for (size_t b = 0; b < batch.lengths_host.size(); ++b) {
    const ScopedRange one(RangeName::decode_row, static_cast<int64_t>(b));
    const at::Tensor row = encoded[static_cast<int64_t>(b)];
    results.push_back(search(row.narrow(0, 0, batch.lengths_host[b])));
  }
  const at::Tensor nan = host.values(rows_with_nan(encoded, batch.lengths));
  return Hypotheses::from_lists(results, transducer.is_tdt(), nbest, nan);
}

}  // namespace rtfx
