// Errors that tests plant in the results of greedy searches.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <random>

#include "algorithms/shared/transducer/transducer.h"

namespace rtfx::test {

inline size_t any_token(const Hypothesis& h, std::mt19937& random) {
  return random() % h.tokens.size();
}

inline bool swap_a_token(Hypothesis& h, std::mt19937& random, int64_t vocabulary) {
  int32_t& token = h.tokens[any_token(h, random)];
  token = static_cast<int32_t>((token + 1 + static_cast<int64_t>(random() % 1000)) % vocabulary);
  return true;
}

/// Moves a random token one frame later, and returns false if the next token leaves no room for
/// that.
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

/// Rounds to e4m3, which has three bits behind the leading one, as a kernel would that keeps its
/// logits in fp8.
inline at::Tensor to_fp8(const at::Tensor& logits) {
  return logits.to(at::kFloat8_e4m3fn).to(logits.scalar_type());
}

/// Decodes one row greedily with the decoder's own network, whose logits `change` may alter.
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
