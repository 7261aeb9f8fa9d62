#include "algorithms/ctc_greedy/ctc_greedy.h"

#include <ATen/ATen.h>

#include "algorithms/common/transducer.h"
#include "algorithms/registry.h"
#include "base/nvtx.h"
#include "models/acoustic_model.h"

namespace rtfx {

Description CtcGreedy::describe() const {
  return {"ctc_greedy", Head::ctc, Description::Exactness::exact, {"ctc"}, "logprob"};
}

void CtcGreedy::prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) {
  require_model_kind(describe(), *model);
  model_ = std::move(model);
}

Hypotheses CtcGreedy::decode(const EncodedBatch& batch) {
  at::Tensor logits;
  {
    const ScopedRange range("decode.project");
    logits = model_->ctc_head->logits(batch.frames);
  }
  const ScopedRange range("decode.loop");
  return collapse(logits, batch.lengths);
}

Hypotheses CtcGreedy::collapse(const at::Tensor& logits, const at::Tensor& lengths) {
  const int64_t frames = logits.size(1), blank = logits.size(2) - 1;
  const at::Tensor index = at::arange(frames, lengths.options()).unsqueeze(0);
  const at::Tensor valid = index < lengths.unsqueeze(1);
  const auto [best, labels] = logits.max(2);
  const at::Tensor logprobs = best.to(at::kFloat) - logits.to(at::kFloat).logsumexp(2);

  const at::Tensor previous =
      at::constant_pad_nd(labels.narrow(1, 0, std::max<int64_t>(0, frames - 1)), {1, 0}, blank);
  const at::Tensor keep =
      valid.logical_and(labels != blank).logical_and(labels != previous.narrow(1, 0, frames));
  // The n-th kept frame goes to slot n; dropped frames go to a slot behind the last one.
  const at::Tensor slot =
      at::where(keep, keep.cumsum(1) - 1, at::full({}, frames, lengths.options()));
  const auto compact = [&](const at::Tensor& values) {
    at::Tensor out = at::zeros({slot.size(0), frames + 1}, values.options().dtype(at::kInt));
    out.scatter_(1, slot, values.expand_as(slot).to(at::kInt));
    return out;
  };
  const at::Tensor zero = at::zeros({}, logprobs.options());
  return {keep.sum(1).to(at::kInt),
          compact(labels),
          compact(index),
          {},
          at::where(valid, logprobs, zero).sum(1),
          best.isnan().logical_and(valid).any(1)};
}

namespace {

struct Options {};
const OptionTable<Options> kOptions{};
const RegisterDecoder registered{{"ctc_greedy", "best label of every frame, collapsed (CTC head)",
                                  kOptions.info(),
                                  [](const nlohmann::json& options, std::string_view where) {
                                    kOptions.fill(options, where);
                                    return std::make_unique<CtcGreedy>();
                                  }}};

}  // namespace
}  // namespace rtfx
