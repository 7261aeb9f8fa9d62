// These cases run greedy decoders on random LSTM models, on a CPU and on a GPU. The state of every
// layer must pass from step to step. step_replay also carries it to the host and back.
#pragma once

#include <gtest/gtest.h>

#include <random>

#include "algorithms/decoder.h"
#include "tests/support/small_model.h"

namespace rtfx::test {

inline std::shared_ptr<const AcousticModel> lstm_model(int64_t layers, bool tdt, at::Device device,
                                                       at::ScalarType dtype = at::kFloat) {
  ModelConfig config = small_config();
  config.prediction.layers = layers;
  if (!tdt) config.durations = {};
  return random_model(config, static_cast<uint64_t>(layers), device, dtype);
}

inline std::unique_ptr<Decoder> prepared(const std::string& name, nlohmann::json options,
                                         const std::shared_ptr<const AcousticModel>& model,
                                         const Limits& limits = {}) {
  options["max_symbols"] = 4;
  auto decoder = make_decoder(name, options, "");
  decoder->prepare(model, limits);
  return decoder;
}

/// Expects the results of frame_looping from one decoder that serves batches of 1, 8 and other
/// numbers of rows in turn. A result must stay as it is while the decoder works on the next batch.
inline void expect_equal_to_frame_looping(const std::string& name, const nlohmann::json& options,
                                          at::Device device) {
  std::mt19937 random(3);
  at::manual_seed(4);
  size_t tokens = 0;
  for (const int64_t layers : {1, 2, 3}) {
    for (const bool tdt : {false, true}) {
      const auto model = lstm_model(layers, tdt, device);
      const auto reference = prepared("frame_looping", {}, model);
      const auto decoder = prepared(name, options, model);
      for (const int64_t rows : {1, 8, 3, 8, 1}) {
        const EncodedBatch batch =
            random_batch(random, rows, 20, model->config.encoder.width, device);
        const auto expected = reference->decode(batch).to_host();
        const Hypotheses result = decoder->decode(batch);
        decoder->decode(random_batch(random, rows, 20, model->config.encoder.width, device));
        const auto found = result.to_host();
        ASSERT_EQ(found.size(), expected.size());
        for (size_t b = 0; b < expected.size(); ++b) {
          EXPECT_EQ(found[b].tokens, expected[b].tokens) << layers << tdt << rows << " " << b;
          EXPECT_EQ(found[b].frames, expected[b].frames);
          EXPECT_EQ(found[b].durations, expected[b].durations);
          EXPECT_NEAR(found[b].score, expected[b].score, 1e-4 * (1 + std::abs(expected[b].score)));
          EXPECT_FALSE(found[b].nan);
          tokens += found[b].tokens.size();
        }
        if (testing::Test::HasFailure()) return;
      }
    }
  }
  EXPECT_GT(tokens, 100u);
}

/// Expects the numbers of uploads and of waits that one form of step_replay needs.
inline void expect_transfers(const std::string& form, at::Device device) {
  std::mt19937 random(5);
  at::manual_seed(6);
  for (const int64_t layers : {1, 2, 3}) {
    const auto model = lstm_model(layers, true, device);
    const auto decoder = prepared("step_replay", {{"loop", form}}, model);
    decoder->decode(random_batch(random, 8, 30, model->config.encoder.width, device));
    const Counters counters = decoder->counters();
    const int64_t predictions = counters.at("pred_calls"), decisions = counters.at("joint_calls");
    EXPECT_GT(predictions, 1);
    EXPECT_EQ(counters.at("joint_rows"), 8 * decisions);
    EXPECT_EQ(counters.at("host_reads"), 1 + predictions + decisions);
    EXPECT_EQ(counters.at("uploads"), form == "coalesced"
                                          ? predictions + decisions
                                          : (1 + 2 * layers) * predictions + 2 * decisions);
  }
}

}  // namespace rtfx::test
