// Times align_ctc_batch(), the forced alignment of whole batches through CTC emissions. The time
// includes its copies to the device and to the host. The rate is rows/s.
// rivals/torchaudio/forced_align.py times torchaudio's function at the same sizes.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <random>

#include "algorithms/shared/alignment/ctc_alignment.h"
#include "benchmarks/microbench.h"

namespace rtfx::microbench {
namespace {

constexpr int64_t kTextTokens = 50;  // tokens of an utterance of 16 s

void align(benchmark::State& state, at::Device device, int64_t rows) {
  at::manual_seed(9);
  const at::Tensor emissions =
      at::randn({rows, kUtteranceFrames, kVocabulary + 1}).log_softmax(2).to(device);
  std::mt19937 random(9);
  std::uniform_int_distribution<int32_t> any(0, kVocabulary - 1);
  std::vector<std::vector<int32_t>> texts(static_cast<size_t>(rows));
  for (auto& text : texts)
    for (int64_t i = 0; i < kTextTokens; ++i) text.push_back(any(random));
  const std::vector<int64_t> lengths(texts.size(), kUtteranceFrames);
  measure(state, device,
          [&] { benchmark::DoNotOptimize(align_ctc_batch(emissions, lengths, texts).data()); });
  rate(state, "rows/s", static_cast<double>(rows));
}

}  // namespace

void add_alignment() {
  for (const Place& place : places()) {
    for (const int64_t batch : kBatches) {
      add(fmt::format("alignment/{}/batch{}", place.device.is_cuda() ? "cuda" : "cpu", batch),
          [=, device = place.device](benchmark::State& s) { align(s, device, batch); });
    }
  }
}

}  // namespace rtfx::microbench
