#include "algorithms/shared/beams/prediction_tree.h"

#include <ATen/ATen.h>

#include <algorithm>

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

}  // namespace rtfx
