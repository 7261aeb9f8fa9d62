// Times boosted phrases. The first benchmark makes the tree of 100 or 1,000 phrases (phrases/s).
// The second computes the scores of all tokens and the states behind one token each, for rows that
// share a tree (rows/s). The third lays out the trees of rows that have one each. The trees are new
// ones in each iteration (rows/s).
#include "algorithms/shared/biasing/phrase_tree.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <array>
#include <random>

#include "algorithms/shared/biasing/device_bias.h"
#include "benchmarks/microbench.h"

namespace rtfx::microbench {
namespace {

/// Returns phrases of two to six tokens. Half of the tokens are chosen from 64 frequent ones.
std::vector<PhraseTokens> phrases(int64_t count, uint32_t seed = 8) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int32_t> length(2, 6), any(0, kVocabulary - 1), frequent(0, 63);
  std::vector<PhraseTokens> all(static_cast<size_t>(count));
  for (PhraseTokens& phrase : all) {
    for (int32_t left = length(random); left > 0; --left)
      phrase.tokens.push_back(random() % 2 == 0 ? any(random) : frequent(random));
  }
  return all;
}

void make(benchmark::State& state, int64_t count) {
  const std::vector<PhraseTokens> all = phrases(count);
  PhraseTree tree;
  for (auto _ : state) tree = make_phrase_tree(all, {});
  rate(state, "phrases/s", static_cast<double>(count));
  state.counters["states"] = static_cast<double>(tree.states());
  state.counters["arcs"] = static_cast<double>(tree.arc_to.size());
}

void look_up(benchmark::State& state, at::Device device, int64_t count, int64_t rows, bool scores) {
  auto bias = std::make_shared<CompiledBias>();
  bias->tree = make_phrase_tree(phrases(count), {});
  DeviceBiasTables tables(kVocabulary, device);
  tables.load(std::vector<std::shared_ptr<const CompiledBias>>(static_cast<size_t>(rows), bias));
  const DeviceBias of = tables.rows(rows);
  at::manual_seed(9);
  const auto labels = [&] { return at::randint(0, 64, {rows}, at::kLong).to(device); };
  at::Tensor states = of.initial_states();
  for (int step = 0; step < 4; ++step) states = of.next_states(states, labels());
  const at::Tensor next = labels();
  measure(state, device, [&] {
    benchmark::DoNotOptimize(
        (scores ? of.scores(states) : of.next_states(states, next)).const_data_ptr());
  });
  rate(state, "rows/s", static_cast<double>(rows));
}

void load(benchmark::State& state, at::Device device, int64_t count, int64_t rows) {
  std::array<std::vector<std::shared_ptr<const CompiledBias>>, 2> turns;
  uint32_t seed = 0;
  for (auto& biases : turns) {
    for (int64_t row = 0; row < rows; ++row) {
      auto bias = std::make_shared<CompiledBias>();
      bias->tree = make_phrase_tree(phrases(count, seed++), {});
      biases.push_back(std::move(bias));
    }
  }
  DeviceBiasTables tables(kVocabulary, device);
  size_t turn = 0;
  measure(state, device, [&] { tables.load(turns[turn++ % 2]); });
  rate(state, "rows/s", static_cast<double>(rows));
}

}  // namespace

void add_phrase_tree() {
  for (const int64_t count : {100, 1000}) {
    add(fmt::format("phrase_tree/make/{}phrases", count),
        [count](benchmark::State& s) { make(s, count); });
    for (const Place& place : places()) {
      add(fmt::format("phrase_tree/load/{}/{}phrases/batch32",
                      place.device.is_cuda() ? "cuda" : "cpu", count),
          [=, device = place.device](benchmark::State& s) { load(s, device, count, 32); });
      for (const bool scores : {true, false}) {
        for (const int64_t batch : kBatches) {
          add(fmt::format("phrase_tree/{}/{}/{}phrases/batch{}", scores ? "scores" : "next_states",
                          place.device.is_cuda() ? "cuda" : "cpu", count, batch),
              [=, device = place.device](benchmark::State& s) {
                look_up(s, device, count, batch, scores);
              });
        }
      }
    }
  }
}

}  // namespace rtfx::microbench
