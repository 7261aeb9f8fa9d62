#include "algorithms/decoders/greedy/ctc_greedy/ctc_greedy.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "algorithms/log_zero.h"
#include "algorithms/registry.h"
#include "base/error.h"
#include "models/acoustic_model.h"

namespace rtfx {
namespace {

const OptionTable<CtcGreedy::Options> kOptions{{
    option("loop", &CtcGreedy::Options::loop,
           "who drives the loop over frames that a language model needs",
           {"host", "replay", "graph"})
        .formerly("graphs", {{"none", "host"}, {"conditional", "graph"}}),
    option("lm", &CtcGreedy::Options::lm, "language model that tokens are chosen with",
           greedy_lm_options()),
}};

const RegisterDecoder registered{
    {"ctc_greedy", "best label of every frame, collapsed (CTC head)", kOptions.info(),
     [](const nlohmann::json& options, std::string_view where) {
       return std::make_unique<CtcGreedy>(kOptions.fill(options, where));
     }}};

/// One label for each frame.
struct Path {
  at::Tensor labels;    // [B, T'] int64
  at::Tensor logprobs;  // [B, T'] float32
  at::Tensor nan;       // [B, T'] bool

  explicit Path(const at::Tensor& logits) {
    const auto [best, argmax] = logits.max(2);
    labels = argmax;
    logprobs = best.to(at::kFloat) - logits.to(at::kFloat).logsumexp(2);
    nan = best.isnan();
  }

  Hypotheses collapse(const at::Tensor& lengths, int64_t blank) const {
    const int64_t frames = labels.size(1);
    const at::Tensor index = at::arange(frames, lengths.options()).unsqueeze(0);
    const at::Tensor valid = index < lengths.unsqueeze(1);
    const at::Tensor previous =
        at::constant_pad_nd(labels.narrow(1, 0, std::max<int64_t>(0, frames - 1)), {1, 0}, blank);
    const at::Tensor keep =
        valid.logical_and(labels != blank).logical_and(labels != previous.narrow(1, 0, frames));
    // The n-th kept frame goes to slot n; dropped frames go to a slot behind the last one.
    const at::Tensor slot =
        at::where(keep, keep.cumsum(1) - 1, at::full({}, frames, lengths.options()));
    Hypotheses h = Hypotheses::one_block(slot.size(0), /*entries=*/1, frames + 1,
                                         /*with_durations=*/false, slot.device());
    h.nbest = {};
    h.lengths.copy_(keep.sum(1));
    h.tokens.scatter_(1, slot, labels.to(at::kInt));
    h.frames.scatter_(1, slot, index.expand_as(slot).to(at::kInt));
    const at::Tensor zero = at::zeros({}, logprobs.options());
    at::sum_out(h.scores, at::where(valid, logprobs, zero), 1);
    at::any_out(h.nan, nan.logical_and(valid), 1);
    return h;
  }
};

}  // namespace

struct CtcGreedy::Rows {
  Rows(const GreedyLm& lm, const at::Tensor& logits, const at::Tensor& lengths)
      : logits(logits),
        normalizer(logits.to(at::kFloat).logsumexp(2)),
        path(logits),
        frame(at::zeros({1}, lengths.options())),
        longest(lengths.max().unsqueeze(0)),
        left(frame < longest),
        previous(at::full_like(lengths, blank())),
        fusion(lm, lengths.size(0)) {}

  int64_t blank() const { return logits.size(2) - 1; }

  /// Chooses the label of the next frame of all rows. What is behind a row's end does not matter.
  void step() {
    const auto at_frame = [&](const at::Tensor& t) { return t.index_select(1, frame).squeeze(1); };
    const at::Tensor label = at_frame(path.labels);
    const at::Tensor choice = label.ne(blank()).logical_and(label != previous);
    at::Tensor sum = at_frame(logits).to(at::kFloat);
    sum.narrow(1, 0, blank()).add_(fusion.bonus());
    sum.select(1, blank()).fill_(kLogZero);
    sum.scatter_(1, previous.unsqueeze(1), kLogZero);
    const auto [best, token] = sum.max(1);
    at::where_out(previous, choice, token, label);
    path.labels.index_copy_(1, frame, previous.unsqueeze(1));
    const at::Tensor logprob =
        at::where(choice, best - at_frame(normalizer), at_frame(path.logprobs));
    path.logprobs.index_copy_(1, frame, logprob.unsqueeze(1));
    fusion.append(previous, choice);
    frame.add_(1);
    at::lt_out(left, frame, longest);
  }

  at::Tensor logits;                // [B, T', V+1]
  at::Tensor normalizer;            // [B, T']
  Path path;                        // chosen up to `frame`, the acoustic model's best from there on
  at::Tensor frame, longest, left;  // [1]
  at::Tensor previous;              // [B] label of the frame before
  GreedyFusion fusion;
};

Description CtcGreedy::describe() const {
  using Exactness = Description::Exactness;
  return {"ctc_greedy",
          Head::ctc,
          uses_lm(options_.lm) ? Exactness::approximate : Exactness::exact,
          {"ctc"},
          "logprob"};
}

nlohmann::json CtcGreedy::options() const { return kOptions.resolved(options_); }

void CtcGreedy::prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) {
  require_model_kind(describe(), *model);
  model_ = std::move(model);
  lm_ = GreedyLm(options_.lm, *model_);
  if (options_.loop != "host" && !lm_) {
    throw UserError("ctc_greedy", "there is no loop to record without a language model",
                    "set \"loop\": \"host\", or give \"lm\"");
  }
  const auto logits = at::TensorOptions(model_->dtype).device(model_->device);
  options_.loop = driver_.prepare(
      options_.loop, "ctc_greedy", limits, at::empty({1, 1, model_->config.vocabulary + 1}, logits),
      [this](const at::Tensor& frames) { return model_->ctc_head->logits(frames); },
      [this](const EncodedBatch& batch, Loops& loops) { return search(batch, loops); });
}

Hypotheses CtcGreedy::decode(const EncodedBatch& batch) { return driver_.decode(batch); }

Hypotheses CtcGreedy::search(const EncodedBatch& batch, Loops& loops) {
  const at::Tensor &logits = batch.frames, &lengths = batch.lengths;
  if (!lm_) return collapse(logits, lengths);
  std::optional<Rows> rows;
  Hypotheses result;
  loops.segment(RangeName::decode_init, [&] { rows.emplace(lm_, logits, lengths); });
  if (options_.loop == "host") {
    // The host knows how many frames there are, and so need not ask the device.
    for (int64_t t = 0; t < batch.longest(); ++t)
      loops.segment(RangeName::decode_step, [&] { rows->step(); });
  } else {
    loops.while_any(rows->left,
                    [&] { loops.segment(RangeName::decode_step, [&] { rows->step(); }); });
  }
  loops.segment(RangeName::decode_trace_back,
                [&] { result = rows->path.collapse(lengths, rows->blank()); });
  return result;
}

Hypotheses CtcGreedy::collapse(const at::Tensor& logits, const at::Tensor& lengths) {
  return Path(logits).collapse(lengths, logits.size(2) - 1);
}

}  // namespace rtfx
