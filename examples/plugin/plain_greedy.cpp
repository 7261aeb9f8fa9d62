// Greedy RNN-T and TDT, one utterance after the other, as in the pseudocode of the papers:
//
//   for each frame t:  repeat  k = argmax joint(E_t, predictor(y));  emit k unless blank
//                      until k is blank or max_symbols tokens were emitted at t
//
// TDT advances by the predicted duration instead of by one frame. The search waits for the device
// twice for each evaluation of the joint network.
#include <ATen/ATen.h>

#include <optional>

#include "algorithms/batched_hypotheses.h"
#include "algorithms/decoder.h"
#include "algorithms/gpu/host_read.h"
#include "algorithms/shared/transducer/transducer.h"

namespace {

using namespace rtfx;

struct PlainGreedyOptions {
  int64_t max_symbols = 10;

  static const OptionTable<PlainGreedyOptions>& table() {
    using O = PlainGreedyOptions;
    static const OptionTable<O> table{{
        option("max_symbols", &O::max_symbols,
               "Largest number of tokens that can be emitted at one encoder frame.", 1, 1000),
    }};
    return table;
  }
};

class PlainGreedy : public DecoderBase<PlainGreedyOptions> {
 public:
  using DecoderBase::DecoderBase;

  Description describe() const override {
    return {
        "plain_greedy", Head::transducer, Description::Exactness::exact, {"rnnt", "tdt"}, "logit"};
  }
  Counters counters() const override { return {{"host_reads", reads_.count()}}; }

  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override {
    require_model_kind(describe(), *model);
    transducer_.emplace(std::move(model), Transducer::Options());
  }

  Hypotheses decode(const EncodedBatch& batch) override {
    reads_.reset();
    if (batch.lengths_host.empty()) return Hypotheses::empty(0, batch.frames.device());
    std::vector<Hypotheses> rows;
    for (size_t b = 0; b < batch.lengths_host.size(); ++b) rows.push_back(search(batch, b));
    return concatenate(rows);
  }

 private:
  Hypotheses search(const EncodedBatch& batch, size_t b) {
    const auto row = static_cast<int64_t>(b);
    const at::Tensor frames = batch.frames.narrow(0, row, 1),
                     length = batch.lengths.narrow(0, row, 1);
    BatchedHypotheses result(frames, length, transducer_->is_tdt(), batch.lengths_host[b]);
    const at::Tensor encoded = transducer_->encode(frames);
    Transducer::Prediction prediction = transducer_->start(1);
    for (int64_t t = 0, symbols = 0; t < batch.lengths_host[b];) {
      const Decision decision = transducer_->decide(encoded.select(1, t), prediction.output);
      int64_t step = reads_.integer(decision.durations);  // frames to advance
      if (!reads_.any(decision.is_blank)) {
        result.append(decision.is_blank.logical_not(), decision.labels, at::full_like(length, t),
                      decision.durations, decision.scores);
        prediction = transducer_->predict(decision.labels, prediction.state);
        if (step == 0 && ++symbols == options_.max_symbols) step = 1;
      }
      if (step > 0) symbols = 0;
      t += step;
    }
    return result.result();
  }

  std::optional<Transducer> transducer_;
  HostReads reads_;
};

const Register<PlainGreedy> registered{"plain_greedy",
                                       "greedy RNN-T and TDT, an utterance at a time"};

}  // namespace
