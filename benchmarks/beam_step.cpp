// Times a step of a beam search for a whole batch, in alsd_pp, with LibTorch's operators and with
// fused kernels. It decodes utterances of some frames (on a GPU as one graph) and divides by the
// number of steps. The rate is steps/s.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "algorithms/decoder.h"
#include "benchmarks/microbench.h"

namespace rtfx::microbench {
namespace {

std::unique_ptr<Decoder> make(const Place& place, const char* kernels, const char* loop,
                              const Limits& limits, int64_t beam) {
  auto decoder = make_decoder(
      "alsd_pp", {{"beam_size", beam}, {"max_symbols", 1}, {"kernels", kernels}, {"loop", loop}},
      "beam_step");
  decoder->prepare(transducer(place), limits);
  return decoder;
}

void steps(benchmark::State& state, const Place& place, const char* kernels, int64_t rows,
           int64_t beam) {
  // Each step costs the same, so a few steps are enough on the CPU, where they are slow.
  const int64_t frames = place.device.is_cuda() ? kUtteranceFrames : 8;
  const Limits limits{rows, frames};
  const EncodedBatch batch = random_utterances(place, rows, frames);
  const auto counting = make(place, kernels, "host", limits, beam);  // a graph counts nothing
  counting->decode(batch);
  const auto made = static_cast<double>(counting->counters().at("outer_iters"));
  const auto decoder =
      make(place, kernels, place.device.is_cuda() ? "graph" : "host", limits, beam);
  measure(state, place.device, [&] { decoder->decode(batch); });
  rate(state, "steps/s", made);
  rate(state, "hypotheses/s", made * static_cast<double>(rows * beam));
  state.counters["steps"] = made;
}

}  // namespace

void add_beam_step() {
  for (const Place& place : places()) {
    for (const int64_t batch : kBatches) {
      if (batch == 128 && place.device.is_cpu()) continue;  // seconds a step
      for (const int64_t beam : kBeams) {
        for (const char* kernels : {"operators", "fused"}) {
          add(
              fmt::format("beam_step/{}/{}/batch{}/beam{}", kernels, place.name, batch, beam),
              [&place, kernels, batch, beam](benchmark::State& s) {
                steps(s, place, kernels, batch, beam);
              },
              benchmark::kMillisecond);
        }
      }
    }
  }
}

}  // namespace rtfx::microbench
