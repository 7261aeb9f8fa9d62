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

namespace rtfx {

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
