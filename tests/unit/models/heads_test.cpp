// Tests LSTM and stateless prediction networks against worked values.
#include "models/heads/heads.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/random_weights.h"

namespace rtfx {
namespace {

const std::string kPrefix = "decoder.prediction.";

TEST(PredictionNetwork, ScalarLstmEqualsTheWorkedValues) {
  PredictionConfig config;
  config.width = 1;
  config.layers = 1;
  StateDict weights;
  weights[kPrefix + "embed.weight"] = at::tensor({1.0f, -0.5f, 0.0f}).view({3, 1});
  const std::string lstm = kPrefix + "dec_rnn.lstm.";
  weights[lstm + "weight_ih_l0"] = at::tensor({.5f, -.25f, 1.f, .75f}).view({4, 1});
  weights[lstm + "weight_hh_l0"] = at::tensor({.1f, .2f, -.3f, .4f}).view({4, 1});
  weights[lstm + "bias_ih_l0"] = at::tensor({.01f, .02f, .03f, .04f});
  weights[lstm + "bias_hh_l0"] = at::tensor({-.05f, 0.f, .05f, .1f});
  const PredictionNetwork network(config, 2, weights, at::kCPU, at::kFloat);
  PredictionState state = network.initial_state(1);
  const std::vector<std::array<double, 3>> expected = {
      {2, 0.020914533, 0.039116693}, {0, 0.329815995, 0.502560515}, {1, 0.033011418, 0.069719730}};
  for (const auto& [label, h, c] : expected) {
    auto step = network.step(at::tensor({static_cast<int64_t>(label)}, at::kLong), state);
    EXPECT_NEAR(step.output.item<double>(), h, 1e-6);
    EXPECT_NEAR(step.state.c.item<double>(), c, 1e-6);
    state = step.state;
  }
}

TEST(PredictionNetwork, TwoLstmLayersEqualAtLstm) {
  ModelConfig model;
  model.has_transducer = true;
  model.vocabulary = 5;
  model.joint_width = 4;
  model.encoder.width = 4;
  model.prediction.width = 6;
  model.prediction.layers = 2;
  const StateDict weights = test::random_state_dict(model, 3);
  const PredictionNetwork network(model.prediction, 5, weights, at::kCPU, at::kFloat);
  const at::Tensor labels = at::tensor({5, 1, 3, 0}, at::kLong);
  std::vector<at::Tensor> parameters;
  for (const char* layer : {"l0", "l1"}) {
    for (const char* name : {"weight_ih_", "weight_hh_", "bias_ih_", "bias_hh_"}) {
      parameters.push_back(weights.at(kPrefix + "dec_rnn.lstm." + name + layer));
    }
  }
  const at::Tensor input = at::embedding(weights.at(kPrefix + "embed.weight"), labels).unsqueeze(1);
  const at::Tensor zeros = at::zeros({2, 1, 6});
  const auto [output, h, c] =
      at::lstm(input, {zeros, zeros}, parameters, true, 2, 0, false, false, false);
  PredictionState state = network.initial_state(1);
  for (int64_t i = 0; i < 4; ++i) {
    auto step = network.step(labels.narrow(0, i, 1), state);
    EXPECT_LT((step.output[0] - output[i][0]).abs().max().item<double>(), 1e-6);
    state = step.state;
  }
}

TEST(PredictionNetwork, StatelessConcatenatesNewestFirst) {
  PredictionConfig config;
  config.kind = PredictionConfig::Kind::stateless;
  config.width = 8;  // [6 newest, 2 older]
  config.context_size = 2;
  StateDict weights;
  weights[kPrefix + "embeds.0.weight"] =
      at::arange(18, at::kFloat).view({3, 6}) * at::tensor({1.f, 1.f, 0.f}).view({3, 1});
  weights[kPrefix + "embeds.1.weight"] =
      at::arange(6, at::kFloat).view({3, 2}) * at::tensor({1.f, 1.f, 0.f}).view({3, 1});
  const PredictionNetwork network(config, 2, weights, at::kCPU, at::kFloat);
  auto step = network.step(at::tensor({2}, at::kLong), network.initial_state(1));
  EXPECT_EQ(step.output.abs().sum().item<double>(), 0);
  step = network.step(at::tensor({1}, at::kLong), step.state);
  EXPECT_TRUE(at::equal(step.output[0], at::tensor({6.f, 7.f, 8.f, 9.f, 10.f, 11.f, 0.f, 0.f})));
  step = network.step(at::tensor({0}, at::kLong), step.state);
  EXPECT_TRUE(at::equal(step.output[0], at::tensor({0.f, 1.f, 2.f, 3.f, 4.f, 5.f, 2.f, 3.f})));
}

/// Random models of transformers have a row of blank that is not zero, and they start with it.
TEST(PredictionNetwork, TheStartSymbolHasTheRowOfBlank) {
  PredictionConfig config;
  config.kind = PredictionConfig::Kind::stateless;
  config.width = 2;
  config.context_size = 1;
  const at::Tensor table = at::tensor({1.0f, 2.0f, 3.0f, 4.0f}).view({2, 2});
  const PredictionNetwork network(config, 1, {{kPrefix + "embeds.0.weight", table}}, at::kCPU,
                                  at::kFloat);
  const auto step = network.step(at::tensor({1}, at::kLong), network.initial_state(1));
  EXPECT_TRUE(at::equal(step.output, table.narrow(0, 1, 1)));
}

}  // namespace
}  // namespace rtfx
