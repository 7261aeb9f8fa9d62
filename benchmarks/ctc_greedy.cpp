// Times greedy CTC search from encoder frames to hypotheses on the host, with LibTorch's operators
// and with one kernel (DeviceCollapse). The product of the head, which both share, is also timed
// alone, and with the number of columns rounded up to a multiple of 8. The rate is frames/s.
#include "algorithms/decoders/greedy/ctc_greedy/ctc_greedy.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <string>

#include "algorithms/decoders/greedy/ctc_greedy/device_collapse.h"
#include "base/gpu/rounding.h"
#include "benchmarks/microbench.h"
#include "models/heads/heads.h"

namespace rtfx::microbench {
namespace {

/// Returns a head with random weights that finds blank in 70 % of random_frames().
CtcHead random_head(const Place& place, int64_t columns) {
  at::manual_seed(11);
  const at::Tensor weight = at::randn({columns, kFrameWidth}) / std::sqrt(double{kFrameWidth});
  at::Tensor bias = at::zeros({columns});
  const at::Tensor logits =
      at::linear(random_frames({at::kCPU, at::kFloat, ""}, 1, 1000)[0], weight);
  const at::Tensor best = std::get<0>(logits.narrow(1, 0, columns - 1).max(1));
  bias[columns - 1] = (best - logits.select(1, columns - 1)).quantile(0.7);
  return {weight.to(place.device, place.dtype), bias.to(place.device, place.dtype)};
}

void search(benchmark::State& state, const Place& place, const std::string& form, int64_t rows,
            int64_t columns) {
  const bool padded = form == "padded_product";
  const CtcHead head = random_head(place, padded ? round_up(columns, int64_t{8}) : columns);
  const EncodedBatch batch = random_utterances(place, rows, kUtteranceFrames);
  DeviceCollapse collapse;
  const auto work = [&] {
    const at::Tensor logits = head.logits(batch.frames);
    if (form == "operators") {
      benchmark::DoNotOptimize(CtcGreedy::collapse(logits, batch.lengths).to_host().data());
    } else if (form == "kernel") {
      benchmark::DoNotOptimize(collapse(logits, batch.lengths, {}).to_host().data());
    }
  };
  measure(state, place.device, work);
  rate(state, "frames/s", static_cast<double>(rows * kUtteranceFrames));
}

}  // namespace

void add_ctc_greedy() {
  if (!gpu()) return;
  for (const int64_t columns : {kVocabulary + 1, 8 * kVocabulary + 1}) {
    for (const int64_t batch : {1, 32, 128}) {
      for (const char* form : {"operators", "kernel", "product", "padded_product"}) {
        add(fmt::format("ctc_greedy/{}/{}/batch{}/columns{}", form, gpu()->name, batch, columns),
            [=](benchmark::State& s) { search(s, *gpu(), form, batch, columns); });
      }
    }
  }
}

}  // namespace rtfx::microbench
