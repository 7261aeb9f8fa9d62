#include "algorithms/fused_beam/fused_step.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <cmath>

#include "algorithms/fused_beam/kernels.h"
#include "base/error.h"

namespace rtfx {
namespace {

using namespace fused_beam;

Elements elements(const at::Tensor& t) {
  if (!t.defined()) return {};
  RTFX_CHECK(t.is_contiguous(), "a tensor of a fused step");
  const at::ScalarType type = t.scalar_type();
  const Precision precision = type == at::kBFloat16 ? Precision::bf16
                              : type == at::kHalf   ? Precision::fp16
                                                    : Precision::fp32;
  // Kernels do not write where they are given a constant.
  return {const_cast<void*>(t.const_data_ptr()), precision};
}

template <class T>
T* data(const at::Tensor& t) {
  return t.defined() ? t.mutable_data_ptr<T>() : nullptr;
}

Beams view_of(const TransducerBeams& beams) {
  const BeamHypotheses& h = beams.hypotheses;
  RTFX_CHECK(beams.lengths.is_contiguous(), "lengths of a fused step");
  return {static_cast<int32_t>(h.batch),
          static_cast<int32_t>(h.beam),
          static_cast<int32_t>(h.blank),
          h.hash_multiplier,
          beams.lengths.const_data_ptr<int64_t>(),
          data<float>(h.scores),
          data<int64_t>(h.hash),
          data<int64_t>(h.last_label),
          data<int64_t>(h.lengths),
          data<int64_t>(h.time),
          data<int64_t>(h.prefix_hash),
          data<int64_t>(h.run),
          data<int32_t>(h.labels),
          data<int32_t>(h.parents),
          data<int32_t>(h.durations),
          data<int64_t>(h.column)};
}

Fusion fusion_of(const BeamLm& lm, const at::Tensor& states, bool scale_forced_blank) {
  if (lm.model == nullptr || (lm.options->alpha == 0 && lm.options->beta == 0)) return {};
  const LmOptions& o = *lm.options;
  return {lm.model->view(),
          data<int32_t>(states),
          static_cast<float>(o.alpha),
          static_cast<float>(o.beta),
          o.blank_scoring == "lm_weighted_full",
          static_cast<float>(1 + o.alpha),
          static_cast<float>(std::log(o.blank_eps)),
          lm.early(),
          lm.early() && !scale_forced_blank};
}

}  // namespace

FusedModel::FusedModel(std::shared_ptr<const AcousticModel> transducer)
    : model(std::move(transducer)) {
  const PredictionNetwork& network = *model->prediction;
  if (!network.layers().empty())
    first_gates = at::linear(network.embeddings()[0], network.layers()[0].w_ih);
  if (model->config.is_tdt())
    duration_values = at::tensor(model->config.durations, at::kLong).to(model->device);
}

FusedStep::FusedStep(const FusedModel& model, const BeamLm& lm, const Options& options,
                     TransducerBeams& beams)
    : any_active((beams.lengths > 0).any().reshape({1})), model_(model), beams_(beams) {
  const Joint& joint = *model.model->joint;
  const PredictionConfig& network = model.model->prediction->config();
  const Beams view = view_of(beams);
  const auto rows = static_cast<int64_t>(view.rows());
  const auto ints = at::TensorOptions(at::kInt).device(model.model->device);
  const bool tdt = model.duration_values.defined();

  candidate_scores_ = at::empty({rows, view.beam}, ints.dtype(at::kFloat));
  candidate_labels_ = at::empty({rows, view.beam}, ints);
  if (tdt) candidate_durations_ = at::empty({rows, view.beam}, ints);
  parents_ = at::empty({rows}, ints);
  tokens_ = at::empty({rows}, ints);
  const Candidates candidates{data<float>(candidate_scores_), data<int32_t>(candidate_labels_),
                              data<int32_t>(candidate_durations_)};
  const Moves moves{data<int32_t>(parents_), data<int32_t>(tokens_)};
  const Fusion fusion = fusion_of(lm, beams.lm_states, options.scale_forced_blank);

  if (network.kind == PredictionConfig::Kind::stateless) {
    texts_ = at::full({rows, network.context_size}, view.blank, ints.dtype(at::kLong));
  } else {
    const PredictionState& state = beams.prediction.state;
    from_h_ = at::empty_like(state.h);
    from_c_ = at::empty_like(state.c);
    gather_ = {moves,
               elements(state.h),
               elements(state.c),
               elements(from_h_),
               elements(from_c_),
               view.rows(),
               static_cast<int32_t>(layers()),
               static_cast<int32_t>(network.width)};
  }
  hidden_units_ = at::empty_like(beams.prediction.output);
  hidden_ = {view,
             elements(beams.encoded),
             elements(beams.prediction.output),
             elements(hidden_units_),
             beams.encoded.size(1),
             static_cast<int32_t>(joint.width()),
             static_cast<Activation>(joint.activation())};
  expand_ = {view,
             fusion,
             {},
             candidates,
             static_cast<int32_t>(joint.durations()),
             data<int64_t>(model.duration_values),
             static_cast<int32_t>(options.max_symbols),
             static_cast<float>(options.temperature),
             data<bool>(any_active)};
  choose_ = {view,
             fusion,
             candidates,
             moves,
             data<int64_t>(texts_),
             texts_.defined() ? static_cast<int32_t>(network.context_size) : 0,
             options.merge_finished,
             data<bool>(any_active)};
}

void FusedStep::operator()() {
  const at::Device device = any_active.device();
  if (device.is_cpu()) {
    step([](const auto& phase) { run_on_host(phase); });
    return;
  }
  const c10::cuda::CUDAGuard guard(device);
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(device.index()).stream();
  step([stream](const auto& phase) { launch(phase, stream); });
}

int64_t FusedStep::layers() const {
  return static_cast<int64_t>(model_.model->prediction->layers().size());
}

at::Tensor FusedStep::logits() const {
  const Joint::Linear& output = model_.model->joint->output();
  return at::linear(hidden_units_, output.weight, output.bias);
}

Expand FusedStep::expand(const at::Tensor& logits) const {
  Expand phase = expand_;
  phase.logits = elements(logits);
  return phase;
}

FusedStep::Gates FusedStep::gates_of(int64_t layer) const {
  const PredictionNetwork::LstmLayer& l =
      model_.model->prediction->layers()[static_cast<size_t>(layer)];
  const at::Tensor& h = beams_.prediction.state.h;
  return {layer == 0 ? model_.first_gates : at::linear(h.select(0, layer - 1), l.w_ih),
          at::linear(from_h_.select(0, layer), l.w_hh)};
}

LstmCell FusedStep::cell(int64_t layer, const Gates& gates) const {
  const PredictionNetwork::LstmLayer& l =
      model_.model->prediction->layers()[static_cast<size_t>(layer)];
  const PredictionState& state = beams_.prediction.state;
  return {choose_.moves,
          elements(gates.input),
          layer == 0,
          elements(gates.recurrent),
          elements(l.b_ih),
          elements(l.b_hh),
          elements(from_h_.select(0, layer)),
          elements(from_c_.select(0, layer)),
          elements(state.h.select(0, layer)),
          elements(state.c.select(0, layer)),
          gather_.rows,
          gather_.width};
}

void FusedStep::project(const at::Tensor& output) {
  // Rows with no new token have the state that they had, and so get the same again.
  const Joint::Linear& linear = model_.model->joint->prediction();
  at::addmm_out(beams_.prediction.output, linear.bias, output, linear.weight.t());
}

void FusedStep::look_up_texts() {
  const at::Tensor before = texts_.narrow(1, 1, texts_.size(1) - 1);
  project(model_.model->prediction->step(texts_.select(1, 0), {{}, {}, before}).output);
}

}  // namespace rtfx
