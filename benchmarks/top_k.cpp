// Times the choice of the best labels of each hypothesis. top_k() has a rule for the order of equal
// values, and LibTorch's topk has none. The rates are rows/s, and bytes/s of the values that are
// read.
#include "algorithms/shared/beams/top_k.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "benchmarks/microbench.h"

namespace rtfx::microbench {
namespace {

void best_labels(benchmark::State& state, at::Device device, int64_t rows, int64_t k, bool own) {
  at::manual_seed(2);
  const at::Tensor scores = at::randn({rows, kVocabulary + 1}).to(device);
  measure(state, device, [&] {
    if (own) {
      benchmark::DoNotOptimize(top_k(scores, k).indices.const_data_ptr());
    } else {
      benchmark::DoNotOptimize(std::get<1>(scores.topk(k, -1)).const_data_ptr());
    }
  });
  rate(state, "rows/s", static_cast<double>(rows));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) *
                          static_cast<int64_t>(scores.nbytes()));
}

}  // namespace

void add_top_k() {
  for (const Place& place : places()) {
    for (const int64_t batch : kBatches) {
      for (const int64_t beam : kBeams) {
        for (const bool own : {true, false}) {
          add(fmt::format("top_k/{}/{}/batch{}/beam{}", own ? "own" : "libtorch",
                          place.device.is_cuda() ? "cuda" : "cpu", batch, beam),
              [=, device = place.device](benchmark::State& s) {
                best_labels(s, device, batch * beam, beam, own);
              });
        }
      }
    }
  }
}

}  // namespace rtfx::microbench
