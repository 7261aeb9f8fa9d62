// Replays of whole batches, and transducers of full width.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>

#include "algorithms/decoder.h"
#include "algorithms/shared/replay/replay.h"
#include "tests/support/planted_errors.h"
#include "tests/support/random_weights.h"
#include "tests/support/small_model.h"

namespace rtfx::test {

constexpr double kBlankBias = 0.3;

/// Replays each row with its score. A row with an n-best list is replayed with all entries of the
/// list.
inline std::vector<Replayed> replay(const std::shared_ptr<const AcousticModel>& model,
                                    const Decoder& decoder, const EncodedBatch& batch,
                                    const std::vector<Hypothesis>& found) {
  const auto rules = ReplayRules::from(decoder.describe(), decoder.options());
  EXPECT_TRUE(rules) << decoder.describe().name;
  std::vector<int64_t> rows;
  std::vector<const Hypothesis*> texts;
  for (size_t b = 0; b < found.size(); ++b) {
    const auto add = [&](const Hypothesis& text) {
      rows.push_back(static_cast<int64_t>(b));
      texts.push_back(&text);
    };
    if (found[b].nbest.empty()) add(found[b]);
    for (const Hypothesis& entry : found[b].nbest) add(entry);
  }
  const Replay replay(model, rules->head);
  const auto each = rules->is_beam() ? replay.beam(batch, rows, texts, *rules)
                                     : replay.greedy(batch, rows, texts, *rules);
  std::vector<Replayed> results(found.size());
  for (size_t i = 0; i < each.size(); ++i) {
    const Replayed one = each[i].with_score(texts[i]->score);
    Replayed& row = results[static_cast<size_t>(rows[i])];
    row.decisions += one.decisions;
    row.beyond += one.beyond;
    row.worst = std::max(row.worst, one.worst);
    row.score_bound = std::max(row.score_bound, one.score_bound);
    if (!row.first) row.first = one.first;
  }
  return results;
}

inline std::string text(const Replayed& replayed) {
  if (!replayed.first) return "within";
  const Deviation& d = *replayed.first;
  return d.kind + " at frame " + std::to_string(d.frame) + ": " + std::to_string(d.chosen) +
         " instead of " + std::to_string(d.best) + ", gap " + std::to_string(d.gap) + ", bound " +
         std::to_string(d.bound);
}

/// Returns the share of planted errors that the replay finds. Each of `trials` trials plants one
/// error at a random place of every row. `plant` changes a hypothesis, and returns false if it has
/// no place for the error.
inline double share_found(const std::shared_ptr<const AcousticModel>& model, const Decoder& decoder,
                          const EncodedBatch& batch, const std::vector<Hypothesis>& honest,
                          const std::function<bool(Hypothesis&, std::mt19937&)>& plant,
                          int trials) {
  std::mt19937 random(7);
  int planted = 0, found = 0;
  for (int trial = 0; trial < trials; ++trial) {
    std::vector<Hypothesis> wrong = honest;
    std::vector<bool> changed;
    for (Hypothesis& h : wrong) changed.push_back(!h.tokens.empty() && plant(h, random));
    const auto results = replay(model, decoder, batch, wrong);
    for (size_t b = 0; b < wrong.size(); ++b) {
      planted += changed[b] ? 1 : 0;
      found += changed[b] && !results[b].within() ? 1 : 0;
    }
  }
  EXPECT_GT(planted, 0);
  return static_cast<double>(found) / std::max(1, planted);
}

/// Returns a transducer with random weights and the sizes of Parakeet: LSTM 640, joint 640,
/// vocabulary 1024 and blank. Blank is the best label in about half of the decisions.
inline std::shared_ptr<const AcousticModel> full_width_model(bool tdt, at::Device device,
                                                             at::ScalarType dtype) {
  Checkpoint checkpoint;
  ModelConfig& config = checkpoint.config;
  config = small_config();
  config.encoder.width = 512;
  config.prediction.width = config.joint_width = 640;
  config.vocabulary = 1024;
  if (!tdt) config.durations = {};
  checkpoint.weights = random_state_dict(config, 3);
  at::Tensor bias = checkpoint.weights.at("joint.joint_net.bias").clone();
  bias[config.vocabulary] += kBlankBias;
  checkpoint.weights["joint.joint_net.bias"] = bias;
  return AcousticModel::build(checkpoint, device, dtype);
}

}  // namespace rtfx::test
