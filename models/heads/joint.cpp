#include "models/heads/joint.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "models/checkpoint/weight_reader.h"

namespace rtfx {

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
  tokens_ = output_.weight.size(0) - durations;
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

}  // namespace rtfx
