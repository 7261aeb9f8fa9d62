// Times a frame of the Viterbi search over a decoding graph of 20,000 random words, at several
// beams. The rates are frames/s, and arcs/s that the search looks at.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <map>
#include <random>

#include "algorithms/decoders/wfst/ctc_wfst_cpu/ctc_wfst_cpu.h"
#include "algorithms/shared/wfst/composition.h"
#include "algorithms/shared/wfst/topology.h"
#include "benchmarks/microbench.h"
#include "models/checkpoint/tensor_data.h"

namespace rtfx::microbench {
namespace {

/// Returns a tree of words of one to five tokens, each of which ends in state 0 again.
TransducerArcs word_loop(const TokenLabels& labels, std::vector<std::string>& words) {
  constexpr int32_t kWords = 20'000;
  std::mt19937 random(5);
  std::uniform_int_distribution<int32_t> token(1, labels.tokens), length(1, 5);
  std::uniform_real_distribution<float> cost(4, 12);
  TransducerArcs lg;
  lg.add_state();
  lg.finals = {{0, 0.0F}};
  std::map<std::pair<int32_t, int32_t>, int32_t> children;
  for (int32_t word = 1; word <= kWords; ++word) {
    words.push_back(fmt::format("w{}", word));
    int32_t state = 0;
    for (int32_t left = length(random); left > 1; --left) {
      const int32_t next = token(random);
      const auto [child, is_new] = children.try_emplace({state, next}, lg.states);
      if (is_new) lg.add(state, lg.add_state(), next, 0);
      state = child->second;
    }
    lg.add(state, 0, token(random), word, cost(random));
  }
  return lg;
}

const WfstGraph& graph() {
  static const WfstGraph built = [] {
    const TokenLabels labels{kVocabulary, 1};
    std::vector<std::string> words;
    const TransducerArcs lg = word_loop(labels, words);
    return WfstGraph::from(compose(token_transducer(Topology::compact, labels), lg), kVocabulary,
                           words, topology_name(Topology::compact), std::string(64, '0'),
                           "wfst_frame");
  }();
  return built;
}

void frames(benchmark::State& state, float beam) {
  constexpr int64_t kMaxActive = 7000, kColumns = kVocabulary + 1;
  ViterbiSearch search(graph().view(), beam, kMaxActive);
  at::manual_seed(6);
  at::Tensor logits = at::randn({kUtteranceFrames, kColumns}) * 4;
  logits.select(1, kVocabulary).add_(12);  // the blank is the best label of half of the frames
  const at::Tensor lp = logits.log_softmax(1);
  for (auto _ : state) {
    ViterbiState utterance = search.start();
    search.advance(utterance, data_of<float>(lp), kUtteranceFrames, kColumns);
    benchmark::DoNotOptimize(search.finish(utterance).cost);
    state.counters["tokens_per_frame"] =
        static_cast<double>(utterance.counts.kept_tokens) / kUtteranceFrames;
    state.counters["arcs_per_frame"] =
        static_cast<double>(utterance.counts.scanned_arcs) / kUtteranceFrames;
  }
  rate(state, "frames/s", kUtteranceFrames);
}

}  // namespace

void add_wfst_frame() {
  for (const int beam : {8, 12, 16}) {
    add(
        fmt::format("wfst_frame/cpu/{}frames/beam{}", kUtteranceFrames, beam),
        [beam](benchmark::State& s) { frames(s, static_cast<float>(beam)); },
        benchmark::kMillisecond);
  }
}

}  // namespace rtfx::microbench
