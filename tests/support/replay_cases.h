// Replays of whole batches, errors to plant, and transducers of full width.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>

#include "algorithms/registry.h"
#include "algorithms/shared/replay/replay.h"
#include "algorithms/shared/transducer/transducer.h"
#include "tests/support/small_model.h"

namespace rtfx::test {

constexpr double kBlankBias = 0.3;

/// Of each row, with its score; of a beam's row, all entries of its list together.
inline std::vector<Replayed> replay(const std::shared_ptr<const AcousticModel>& model,
                                    const Decoder& decoder, const EncodedBatch& batch,
                                    const std::vector<Hypothesis>& found) {
  const auto rules = ReplayRules::of(decoder.describe(), decoder.options());
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

/// The share of `trials` errors, planted at random places of random rows, that the replay finds.
/// plant: changes a hypothesis; false where the row has no place for it.
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

inline size_t any_token(const Hypothesis& h, std::mt19937& random) {
  return random() % h.tokens.size();
}

inline bool swap_a_token(Hypothesis& h, std::mt19937& random, int64_t vocabulary) {
  int32_t& token = h.tokens[any_token(h, random)];
  token = static_cast<int32_t>((token + 1 + static_cast<int64_t>(random() % 1000)) % vocabulary);
  return true;
}

/// Later by one, where the next token leaves room for it.
inline bool move_a_frame(Hypothesis& h, std::mt19937& random, int64_t frames) {
  const size_t i = any_token(h, random);
  const int64_t end = i + 1 < h.frames.size() ? h.frames[i + 1] : frames - 1;
  const int64_t duration = h.durations.empty() ? 0 : h.durations[i];
  if (h.frames[i] + 1 + duration > end) return false;
  ++h.frames[i];
  return true;
}

inline bool change_a_duration(Hypothesis& h, std::mt19937& random, int64_t longest) {
  int32_t& duration = h.durations[any_token(h, random)];
  duration = static_cast<int32_t>(duration < longest ? duration + 1 : duration - 1);
  return true;
}

/// To e4m3: three bits behind the leading one, as a kernel would that keeps its logits in fp8.
inline at::Tensor to_fp8(const at::Tensor& logits) {
  return logits.to(at::kFloat8_e4m3fn).to(logits.scalar_type());
}

/// LSTM 640, joint 640, vocabulary 1024 and blank, as Parakeet has them, with random weights; the
/// blank is as often the best label as not.
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

/// Greedy search of one row with the decoder's own network, whose logits `change` may alter.
inline Hypothesis greedy_with(const std::shared_ptr<const AcousticModel>& model,
                              const EncodedBatch& batch, int64_t row, int64_t max_symbols,
                              const std::function<at::Tensor(at::Tensor)>& change) {
  const Transducer transducer(model, {});
  const at::Tensor encoded = transducer.encode(batch.frames.select(0, row));
  auto prediction = transducer.start(1);
  Hypothesis h;
  int64_t at_frame = 0;
  for (int64_t t = 0; t < batch.lengths_host[static_cast<size_t>(row)];) {
    const at::Tensor logits = transducer.logits(encoded.narrow(0, t, 1), prediction.output);
    const Decision decision = transducer.decide_logits(change(logits));
    const auto label = decision.labels.item<int64_t>();
    auto by = decision.durations.item<int64_t>();
    if (label != transducer.blank()) {
      h.tokens.push_back(static_cast<int32_t>(label));
      h.frames.push_back(static_cast<int32_t>(t));
      if (transducer.is_tdt()) h.durations.push_back(static_cast<int32_t>(by));
      h.score += decision.scores.to(at::kFloat).item<float>();
      prediction = transducer.predict(decision.labels, prediction.state);
      if (by == 0 && ++at_frame == max_symbols) by = 1;
    }
    if (by > 0) at_frame = 0;
    t += by;
  }
  return h;
}

}  // namespace rtfx::test
