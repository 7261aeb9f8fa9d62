#include "models/heads/heads.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/error.h"
#include "models/checkpoint/checkpoint.h"

namespace rtfx {

CtcHead::CtcHead(const at::Tensor& weight, const at::Tensor& bias)
    : weight_(weight.reshape({weight.size(0), weight.size(1)})), bias_(bias) {}

at::Tensor CtcHead::logits(const at::Tensor& frames) const {
  return at::linear(frames, weight_, bias_);
}

Joint::Joint(const StateDict& weights, const std::string& activation, int64_t durations,
             at::Device device, at::ScalarType dtype)
    : durations_(durations) {
  const WeightReader joint(weights, "joint.", device, dtype);
  encoder_.weight = joint.get("enc.weight");
  encoder_.bias = joint.get("enc.bias");
  prediction_.weight = joint.get("pred.weight");
  prediction_.bias = joint.get("pred.bias");
  output_.weight = joint.get("joint_net.weight");
  output_.bias = joint.get("joint_net.bias");
  if (activation == "relu") {
    activation_ = Activation::relu;
  } else if (activation == "tanh") {
    activation_ = Activation::tanh;
  } else if (activation == "sigmoid") {
    activation_ = Activation::sigmoid;
  } else {
    const std::vector<std::string> allowed = {"relu", "sigmoid", "tanh"};
    throw unknown_name("joint.jointnet.activation", "activation", activation, allowed);
  }
}

at::Tensor Joint::project_encoder(const at::Tensor& frames) const {
  return at::linear(frames, encoder_.weight, encoder_.bias);
}

at::Tensor Joint::project_prediction(const at::Tensor& output) const {
  return at::linear(output, prediction_.weight, prediction_.bias);
}

Joint Joint::with_output_bias(at::Tensor bias) const {
  Joint joint = *this;
  joint.output_.bias = std::move(bias);
  return joint;
}

at::Tensor Joint::logits(const at::Tensor& encoder, const at::Tensor& prediction) const {
  at::Tensor hidden = encoder + prediction;
  switch (activation_) {
    case Activation::relu:
      hidden.relu_();
      break;
    case Activation::tanh:
      hidden.tanh_();
      break;
    case Activation::sigmoid:
      hidden.sigmoid_();
      break;
  }
  return at::linear(hidden, output_.weight, output_.bias);
}

namespace {

at::Tensor where_rows(const at::Tensor& mask, const at::Tensor& taken, const at::Tensor& kept) {
  return at::where(mask.unsqueeze(-1), taken, kept);
}

}  // namespace

PredictionState PredictionState::select(const at::Tensor& mask,
                                        const PredictionState& taken) const {
  if (h.defined()) return {where_rows(mask, taken.h, h), where_rows(mask, taken.c, c), {}};
  return {{}, {}, where_rows(mask, taken.context, context)};
}

void PredictionState::take(const at::Tensor& mask, const PredictionState& taken) {
  const at::Tensor rows = mask.unsqueeze(-1);
  for (const auto member : {&PredictionState::h, &PredictionState::c, &PredictionState::context}) {
    at::Tensor& kept = this->*member;
    if (kept.defined()) at::where_out(kept, rows, taken.*member, kept);
  }
}

void PredictionState::assign(const PredictionState& from) {
  for (const auto member : {&PredictionState::h, &PredictionState::c, &PredictionState::context}) {
    if ((this->*member).defined()) (this->*member).copy_(from.*member);
  }
}

PredictionState PredictionState::rows(const at::Tensor& index) const {
  if (h.defined()) return {h.index_select(1, index), c.index_select(1, index), {}};
  return {{}, {}, context.index_select(0, index)};
}

PredictionNetwork::PredictionNetwork(const PredictionConfig& config, int64_t blank,
                                     const StateDict& weights, at::Device device,
                                     at::ScalarType dtype)
    : config_(config), blank_(blank) {
  const WeightReader reader(weights, "decoder.prediction.", device, dtype);
  const auto add_table = [&](const std::string& name) { embeddings_.push_back(reader.get(name)); };
  if (config.kind == PredictionConfig::Kind::stateless) {
    for (int64_t i = 0; i < config.context_size; ++i) add_table(fmt::format("embeds.{}.weight", i));
    return;
  }
  add_table("embed.weight");
  const WeightReader lstm = reader.below("dec_rnn.lstm");
  for (int64_t i = 0; i < config.layers; ++i) {
    layers_.push_back(
        {lstm.get(fmt::format("weight_ih_l{}", i)), lstm.get(fmt::format("weight_hh_l{}", i)),
         lstm.get(fmt::format("bias_ih_l{}", i)), lstm.get(fmt::format("bias_hh_l{}", i))});
  }
}

PredictionState PredictionNetwork::initial_state(int64_t batch) const {
  const at::TensorOptions options = embeddings_.front().options();
  if (config_.kind == PredictionConfig::Kind::stateless) {
    return {{}, {}, at::full({batch, config_.context_size - 1}, blank_, options.dtype(at::kLong))};
  }
  const auto zeros = [&] { return at::zeros({config_.layers, batch, config_.width}, options); };
  return {zeros(), zeros(), {}};
}

PredictionNetwork::Step PredictionNetwork::step(const at::Tensor& labels,
                                                const PredictionState& state) const {
  if (config_.kind == PredictionConfig::Kind::stateless) {
    std::vector<at::Tensor> parts = {at::embedding(embeddings_[0], labels)};
    for (int64_t i = 1; i < config_.context_size; ++i) {
      parts.push_back(at::embedding(embeddings_[i], state.context.select(1, i - 1)));
    }
    at::Tensor output = at::cat(parts, 1);
    if (config_.layer_norm) output = at::layer_norm(output, {config_.width});
    const at::Tensor longer = at::cat({labels.unsqueeze(1), state.context}, 1);
    return {output, {{}, {}, longer.narrow(1, 0, config_.context_size - 1)}};
  }
  at::Tensor output = at::embedding(embeddings_[0], labels);
  std::vector<at::Tensor> h, c;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const LstmLayer& layer = layers_[i];
    const auto [next_h, next_c] = at::lstm_cell(output, {state.h[i], state.c[i]}, layer.w_ih,
                                                layer.w_hh, layer.b_ih, layer.b_hh);
    h.push_back(next_h);
    c.push_back(next_c);
    output = next_h;
  }
  return {output, {at::stack(h), at::stack(c), {}}};
}

}  // namespace rtfx
