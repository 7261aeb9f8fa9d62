// Times fused_looping on whole batches of utterances of 16 s. Vocabularies of 1,024 and 8,192
// tokens show the cost of a large vocabulary. It reports frames/s of all utterances, and the number
// of steps of the search.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "algorithms/decoder.h"
#include "benchmarks/microbench.h"

namespace rtfx::microbench {
namespace {

void search(benchmark::State& state, const Place& place, int64_t vocabulary, int64_t rows) {
  const auto decoder = make_decoder("fused_looping", {{"max_symbols", 1}}, "greedy");
  decoder->prepare(transducer(place, vocabulary), {});
  const EncodedBatch batch = random_utterances(place, rows, kUtteranceFrames);
  measure(state, place.device, [&] { decoder->decode(batch); });
  rate(state, "frames/s", static_cast<double>(rows * kUtteranceFrames));
  state.counters["steps"] = static_cast<double>(decoder->counters().at("joint_calls"));
}

}  // namespace

void add_greedy() {
  const Place* place = gpu();
  if (place == nullptr) return;
  for (const int64_t vocabulary : {kVocabulary, int64_t{8192}}) {
    for (const int64_t rows : kBatches) {
      add(fmt::format("fused_looping/{}/vocabulary{}/batch{}", place->name, vocabulary, rows),
          [place, vocabulary, rows](benchmark::State& s) { search(s, *place, vocabulary, rows); });
    }
  }
}

}  // namespace rtfx::microbench
