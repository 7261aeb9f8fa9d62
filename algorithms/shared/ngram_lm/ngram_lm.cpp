#include "algorithms/shared/ngram_lm/ngram_lm.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>

#include "algorithms/shared/ngram_lm/view.h"
#include "base/error.h"
#include "models/checkpoint/tensor_data.h"

namespace rtfx {
namespace {

void advance(const NgramLm& lm, const at::Tensor& states, const at::Tensor& scores,
             const at::Tensor& next) {
  const at::Tensor from = states.contiguous();
  const int64_t rows = from.size(0);
  const int32_t* state = data_of<int32_t>(from);
  float* score = scores.mutable_data_ptr<float>();
  int32_t* to = next.defined() ? next.mutable_data_ptr<int32_t>() : nullptr;
  const NgramView view = lm.view();
  if (lm.device().is_cuda()) {
    const c10::cuda::CUDAGuard guard(lm.device());
    launch_advance(view, state, rows, score, to, c10::cuda::getCurrentCUDAStream().stream());
    return;
  }
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t cell = r * lm.vocabulary();
    advance_row(SerialBlock{}, view, state[r], score + cell, to == nullptr ? nullptr : to + cell);
  }
}

void look_up(const NgramLm& lm, const at::Tensor& states, const at::Tensor& labels,
             const at::Tensor& scores, const at::Tensor& next) {
  const at::Tensor from = states.contiguous(), token = labels.contiguous();
  const int64_t rows = from.size(0), columns = rows == 0 ? 0 : token.numel() / rows;
  const int32_t* state = data_of<int32_t>(from);
  const int64_t* label = data_of<int64_t>(token);
  float* score = scores.defined() ? scores.mutable_data_ptr<float>() : nullptr;
  int32_t* to = next.mutable_data_ptr<int32_t>();
  const NgramView view = lm.view();
  if (lm.device().is_cuda()) {
    const c10::cuda::CUDAGuard guard(lm.device());
    launch_lookup(view, state, label, rows, columns, score, to,
                  c10::cuda::getCurrentCUDAStream().stream());
    return;
  }
  for (int64_t cell = 0; cell < rows * columns; ++cell) {
    const Transition transition = look_up(view, state[cell / columns], label[cell]);
    if (score != nullptr) score[cell] = transition.score;
    to[cell] = transition.next;
  }
}

}  // namespace

void check_lm_size(const std::string& where, int64_t arcs, int64_t states, int64_t limit) {
  const int64_t bytes = 12 * arcs + 24 * states;
  if (limit <= 0 || bytes <= limit) return;
  const auto mib = [](int64_t b) { return static_cast<double>(b) / (1 << 20); };
  throw UserError(where,
                  fmt::format("the language model needs {:.1f} MiB, the limit is {:.1f} MiB",
                              mib(bytes), mib(limit)),
                  "raise memory_limit_mib, or prune the model");
}

NgramLm::NgramLm(NgramArrays arrays, int64_t vocabulary, int64_t order)
    : arrays_(std::move(arrays)), vocabulary_(vocabulary), order_(order) {
  RTFX_CHECK(order >= 2 && order <= kMaxOrder, "order of a language model");
}

NgramLm NgramLm::to(at::Device device) const {
  const NgramArrays& a = arrays_;
  return {{a.arc_to.to(device), a.arc_label.to(device), a.arc_weight.to(device),
           a.state_arcs.to(device), a.backoff_to.to(device), a.backoff_weight.to(device),
           a.final_weight.to(device), a.context.to(device)},
          vocabulary_,
          order_};
}

NgramView NgramLm::view() const {
  const auto ints = [](const at::Tensor& t) { return data_of<int32_t>(t); };
  const auto floats = [](const at::Tensor& t) { return data_of<float>(t); };
  return {ints(arrays_.arc_to),
          ints(arrays_.arc_label),
          floats(arrays_.arc_weight),
          ints(arrays_.state_arcs),
          ints(arrays_.backoff_to),
          floats(arrays_.backoff_weight),
          static_cast<int32_t>(vocabulary_)};
}

at::Tensor NgramLm::initial_states(int64_t rows) const {
  return at::ones({rows}, arrays_.arc_to.options());
}

NgramLm::Step NgramLm::advance(const at::Tensor& states) const {
  const int64_t rows = states.size(0);
  Step step{at::empty({rows, vocabulary_}, arrays_.arc_weight.options()),
            at::empty({rows, vocabulary_}, arrays_.arc_to.options())};
  rtfx::advance(*this, states, step.scores, step.next);
  return step;
}

at::Tensor NgramLm::scores(const at::Tensor& states) const {
  const at::Tensor scores = at::empty({states.size(0), vocabulary_}, arrays_.arc_weight.options());
  rtfx::advance(*this, states, scores, {});
  return scores;
}

NgramLm::Step NgramLm::lookup(const at::Tensor& states, const at::Tensor& labels) const {
  Step step{at::empty(labels.sizes(), arrays_.arc_weight.options()),
            at::empty(labels.sizes(), arrays_.arc_to.options())};
  look_up(*this, states, labels, step.scores, step.next);
  return step;
}

at::Tensor NgramLm::next_states(const at::Tensor& states, const at::Tensor& labels) const {
  const at::Tensor next = at::empty(labels.sizes(), arrays_.arc_to.options());
  look_up(*this, states, labels, {}, next);
  return next;
}

at::Tensor NgramLm::final_scores(const at::Tensor& states) const {
  return arrays_.final_weight.index_select(0, states);
}

at::Tensor NgramLm::shorter_contexts() const {
  const at::Tensor& shorter = arrays_.backoff_to;
  const at::Tensor all = at::empty({shorter.size(0), order_ - 2}, shorter.options());
  at::Tensor context = shorter;
  for (int64_t i = 0; i < order_ - 2; ++i) {
    all.select(1, i).copy_(context);
    context = shorter.index_select(0, context);
  }
  return all;
}

int64_t NgramLm::unknown_tokens() const {
  return (arrays_.arc_to.narrow(0, 0, vocabulary_) == 0).sum().item<int64_t>();
}

int64_t NgramLm::bytes() const {
  return 12 * arrays_.arc_to.size(0) + 24 * arrays_.backoff_to.size(0);
}

}  // namespace rtfx
