#include "algorithms/shared/replay/network.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "algorithms/blank_penalty.h"

namespace rtfx {
namespace {

Rounding::Linear output_of(const AcousticModel& model, Head head, at::ScalarType wide) {
  if (head == Head::ctc) return {model.ctc_head->weight(), model.ctc_head->bias(), wide};
  const Joint::Linear& output = model.joint->output();
  return {output.weight, output.bias, wide};
}

at::Tensor pick(const at::Tensor& rows, const at::Tensor& columns) {
  return rows.gather(1, columns.unsqueeze(1)).squeeze(1);
}

}  // namespace

ReplayNetwork::ReplayNetwork(std::shared_ptr<const AcousticModel> model, Head head)
    : model_(std::move(model)),
      rounding_(model_->dtype),
      labels_(model_->config.vocabulary + 1),
      durations_(head == Head::transducer ? model_->joint->durations() : 0),
      output_(output_of(*model_, head, rounding_.wide())) {
  if (head == Head::ctc) return;
  const at::ScalarType wide = rounding_.wide();
  const Joint& joint = *model_->joint;
  encoder_.emplace(joint.encoder().weight, joint.encoder().bias, wide);
  prediction_.emplace(joint.prediction().weight, joint.prediction().bias, wide);
  for (const at::Tensor& table : model_->prediction->embeddings())
    embeddings_.push_back(table.to(wide));
  for (const PredictionNetwork::LstmLayer& layer : model_->prediction->layers()) {
    layers_.push_back({Rounding::Linear(layer.w_ih, layer.b_ih, wide),
                       Rounding::Linear(layer.w_hh, layer.b_hh, wide)});
  }
}

ReplayNetwork ReplayNetwork::penalised(double penalty) const {
  if (penalty == 0) return *this;
  ReplayNetwork network = *this;
  network.model_ = with_blank_penalty(model_, penalty);
  const at::Tensor& bias =
      encoder_ ? network.model_->joint->output().bias : network.model_->ctc_head->bias();
  network.output_.bias = bias.to(rounding_.wide());
  return network;
}

Uncertain ReplayNetwork::predictions(const at::Tensor& tokens) const {
  const PredictionConfig& config = model_->prediction->config();
  const bool stateless = config.kind == PredictionConfig::Kind::stateless;
  const int64_t before = stateless ? config.context_size : 1;  // blanks before the first token
  const int64_t steps = tokens.size(1) + 1;
  const at::Tensor labels = at::constant_pad_nd(tokens, {before, 0}, labels_ - 1);
  std::vector<at::Tensor> parts;
  for (size_t i = 0; i < embeddings_.size(); ++i) {
    const at::Tensor nth = labels.narrow(1, before - 1 - static_cast<int64_t>(i), steps);
    parts.push_back(at::embedding(embeddings_[i], nth));
  }
  Uncertain output = Uncertain::exact(at::cat(parts, 2));
  if (stateless && config.layer_norm)
    output = rounding_.rounded(at::layer_norm(output.value, {config.width}), output.variance);
  for (const Layer& layer : layers_) output = lstm(output, layer);
  return rounding_.linear(output, *prediction_);
}

/// Runs a layer over all steps: inputs [B, S, P] -> h after each step.
Uncertain ReplayNetwork::lstm(const Uncertain& inputs, const Layer& layer) const {
  const int64_t width = layer.recurrent.weight.size(1), steps = inputs.value.size(1);
  const Uncertain from_input = rounding_.linear(inputs, layer.input);
  Uncertain h = Uncertain::exact(at::zeros_like(inputs.value.select(1, 0)));
  if (h.value.size(1) != width) h = Uncertain::exact(h.value.new_zeros({h.value.size(0), width}));
  Uncertain c = h;
  std::vector<at::Tensor> values, variances;
  for (int64_t s = 0; s < steps; ++s) {
    const Uncertain gates =
        rounding_.sum(from_input.select(1, s), rounding_.linear(h, layer.recurrent));
    const auto gate = [&](int64_t index) { return gates.narrow(1, index * width, width); };
    const Uncertain added = rounding_.product(rounding_.sigmoid(gate(0)), rounding_.tanh(gate(2)));
    c = rounding_.sum(rounding_.product(rounding_.sigmoid(gate(1)), c), added);
    h = rounding_.product(rounding_.sigmoid(gate(3)), rounding_.tanh(c));
    values.push_back(h.value);
    variances.push_back(h.variance);
  }
  return {at::stack(values, 1), at::stack(variances, 1)};
}

Uncertain ReplayNetwork::encode(const at::Tensor& frames) const {
  const Uncertain exact = Uncertain::exact(frames.to(rounding_.wide()));
  return encoder_ ? rounding_.linear(exact, *encoder_) : exact;
}

ReplayNetwork::Outputs ReplayNetwork::outputs(const Uncertain& encoded,
                                              const Uncertain& prediction) const {
  Uncertain hidden = encoded;
  if (encoder_)
    hidden = rounding_.activation(model_->joint->activation(), rounding_.sum(encoded, prediction));
  return {at::linear(hidden.value, output_.weight, output_.bias), hidden};
}

size_t ReplayNetwork::rows_within(int64_t bytes) const {
  const int64_t row = (6 * (labels_ + durations_) + 10 * width()) * int64_t{sizeof(double)};
  return static_cast<size_t>(std::max<int64_t>(1, bytes / row));
}

at::Tensor ReplayNetwork::bound(const Outputs& outputs, const at::Tensor& chosen,
                                const at::Tensor& best) const {
  const at::Tensor left = output_.weight.index_select(0, best),
                   right = output_.weight.index_select(0, chosen);
  const at::Tensor input_variance = (left - right).square_().mul_(outputs.hidden.variance).sum(1);
  const at::Tensor products = (left.square() + right.square()) * outputs.hidden.value.square();
  const at::Tensor variance = input_variance + products.sum(1) * rounding_.sum_variance(width());
  const at::Tensor logits = pick(outputs.logits, best).abs() + pick(outputs.logits, chosen).abs();
  return logits * rounding_.unit() + variance.sqrt() * kDeviations;
}

Uncertain ReplayNetwork::logit(const Outputs& outputs, const at::Tensor& labels) const {
  const at::Tensor squared = output_.squared.index_select(0, labels);
  const at::Tensor value = pick(outputs.logits, labels);
  const at::Tensor inputs =
      outputs.hidden.value.square() * rounding_.sum_variance(width()) + outputs.hidden.variance;
  return rounding_.rounded(value, (squared * inputs).sum(1));
}

Uncertain ReplayNetwork::log_prob(const Outputs& outputs, const at::Tensor& labels, int64_t first,
                                  int64_t count, double temperature) const {
  const at::Tensor logits = outputs.logits.narrow(1, first, count);
  const at::Tensor logprobs = (logits / temperature).log_softmax(1);
  // The derivative of the label's log-probability by its own logit is 1 - p, and by another logit
  // -p.
  at::Tensor slope = logprobs.exp().neg_();
  slope.scatter_add_(1, labels.unsqueeze(1), at::ones_like(labels, slope.options()).unsqueeze(1));
  const at::Tensor direction = slope.matmul(output_.weight.narrow(0, first, count));
  const at::Tensor own =
      outputs.hidden.value.square().matmul(output_.squared.narrow(0, first, count).t()) *
          rounding_.sum_variance(width()) +
      logits.square() * rounding_.value_variance();
  const at::Tensor variance =
      (direction.square() * outputs.hidden.variance).sum(1) + (slope.square() * own).sum(1);
  return {pick(logprobs, labels), variance / (temperature * temperature)};
}

}  // namespace rtfx
