// Times one call of the joint network, as greedy searches (decide) and beam searches (log_probs, 4
// hypotheses for each utterance) make it, and one call of the prediction network. The rate is
// rows/s, where a row is a hypothesis.
#include "algorithms/shared/transducer/transducer.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "benchmarks/microbench.h"

namespace rtfx::microbench {
namespace {

enum class Call { decide, log_probs, predict };

void call(benchmark::State& state, const Place& place, int64_t rows, Call which) {
  const Transducer of(transducer(place), {});
  const at::Tensor encoded = of.encode(random_frames(place, 1, rows))[0];  // [rows, H]
  Transducer::Prediction last = of.start(rows);
  const at::Tensor labels = at::arange(rows, encoded.options().dtype(at::kLong)) % kVocabulary;
  measure(state, place.device, [&] {
    switch (which) {
      case Call::decide:
        benchmark::DoNotOptimize(of.decide(encoded, last.output).labels.const_data_ptr());
        break;
      case Call::log_probs:
        benchmark::DoNotOptimize(of.log_probs(encoded, last.output, 1).labels.const_data_ptr());
        break;
      case Call::predict:
        last = of.predict(labels, last.state);
        benchmark::DoNotOptimize(last.output.const_data_ptr());
    }
  });
  rate(state, "rows/s", static_cast<double>(rows));
}

}  // namespace

void add_transducer() {
  constexpr int64_t kBeam = 4;
  for (const Place& place : places()) {
    for (const auto& [name, which, beam] :
         {std::tuple("joint/decide", Call::decide, int64_t{1}),
          std::tuple("joint/log_probs_of_beams", Call::log_probs, kBeam),
          std::tuple("prediction/predict", Call::predict, int64_t{1})}) {
      for (const int64_t batch : kBatches) {
        add(fmt::format("{}/{}/batch{}", name, place.name, batch),
            [&place, rows = batch * beam, w = which](benchmark::State& s) {
              call(s, place, rows, w);
            });
      }
    }
  }
}

}  // namespace rtfx::microbench
