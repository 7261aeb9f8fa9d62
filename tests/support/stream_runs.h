// Runs of utterances through EncoderStreams, in pieces of random sizes.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "models/streaming/encoder_streams.h"
#include "tests/support/nemo_streams.h"

namespace rtfx::test {

/// Returns noise whose loudness changes, so that frames differ.
inline Samples noise(int64_t samples, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 0.1F);
  Samples audio(static_cast<size_t>(samples));
  for (size_t i = 0; i < audio.size(); ++i)
    audio[i] = normal(random) * (0.1F + static_cast<float>(i / 1600 % 5));
  return audio;
}

struct Streamed {
  at::Tensor frames;  // [T', D]
  int64_t steps = 0;
};

/// Streams every utterance, at most `at_a_time` of them at once. Each round pushes 1 to `longest`
/// samples to each open stream and takes a step. Frames beyond a row's length are ignored.
inline std::vector<Streamed> stream(EncoderStreams& streams, const std::vector<Samples>& utterances,
                                    size_t at_a_time, int64_t longest, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<size_t> size(1, static_cast<size_t>(longest));
  std::map<int64_t, std::pair<size_t, size_t>> open;  // utterance, samples pushed
  std::vector<std::vector<at::Tensor>> pieces(utterances.size());
  std::vector<Streamed> results(utterances.size());
  size_t next = 0;
  while (next < utterances.size() || !open.empty()) {
    while (next < utterances.size() && open.size() < at_a_time) {
      // Models without prompts ignore it.
      const auto prompt = static_cast<int64_t>(next % 3);
      open[streams.open(prompt)] = {next++, 0};
    }
    for (auto& [number, state] : open) {
      const Samples& audio = utterances[state.first];
      if (state.second > audio.size()) continue;
      const size_t count = std::min(size(random), audio.size() - state.second);
      streams.push(number, std::span(audio).subspan(state.second, count));
      state.second += count;
      if (state.second < audio.size() || random() % 2 == 0) continue;
      streams.finish(number);
      ++state.second;
    }
    const EncodedPieces step = streams.step();
    for (size_t row = 0; row < step.streams.size(); ++row) {
      const int64_t number = step.streams[row];
      const size_t utterance = open.at(number).first;
      EXPECT_LE(step.lengths[row], streams.most_frames());
      pieces[utterance].push_back(step.row(row).clone());
      ++results[utterance].steps;
      if (!step.last[row]) continue;
      streams.close(number);
      open.erase(number);
    }
  }
  EXPECT_TRUE(streams.step().empty());
  for (size_t i = 0; i < results.size(); ++i) results[i].frames = at::cat(pieces[i]);
  return results;
}

/// Expects that neither the sizes of a stream's pieces nor other streams change any bit of its
/// frames.
inline void expect_independent(const std::shared_ptr<const AcousticModel>& model,
                               const std::vector<Samples>& all) {
  const auto run = [&](size_t at_a_time, int64_t longest, uint64_t seed) {
    const auto streams = make_encoder_streams(model, {.streams = 6});
    return stream(*streams, all, at_a_time, longest, seed);
  };
  const auto alone = run(1, 100000, 1);
  for (const auto& other : {run(6, 100000, 2), run(6, 400, 3), run(3, 5000, 4)}) {
    for (size_t i = 0; i < all.size(); ++i)
      EXPECT_TRUE(alone[i].frames.equal(other[i].frames)) << all[i].size();
  }
}

inline float largest(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == 0 ? 0 : (a.to(at::kFloat) - b.to(at::kFloat)).abs().max().item<float>();
}

}  // namespace rtfx::test
