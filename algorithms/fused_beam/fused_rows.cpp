#include "algorithms/fused_beam/fused_rows.h"

#include <ATen/ATen.h>

#include "algorithms/fused_beam/views.h"

namespace rtfx {

using namespace fused_beam;

CandidateArrays::CandidateArrays(int64_t rows, int64_t count, bool tdt, at::Device device) {
  const auto ints = at::TensorOptions(at::kInt).device(device);
  scores = at::empty({rows, count}, ints.dtype(at::kFloat));
  labels = at::empty({rows, count}, ints);
  if (tdt) durations = at::empty({rows, count}, ints);
}

Candidates CandidateArrays::view() const {
  return {data<float>(scores), data<int32_t>(labels), data<int32_t>(durations),
          static_cast<int32_t>(scores.size(1))};
}

FusedModel::FusedModel(std::shared_ptr<const AcousticModel> transducer)
    : model(std::move(transducer)) {
  const PredictionNetwork& network = *model->prediction;
  if (!network.layers().empty())
    first_gates = at::linear(network.embeddings()[0], network.layers()[0].w_ih);
  if (model->config.is_tdt())
    duration_values = at::tensor(model->config.durations, at::kLong).to(model->device);
}

FusedRows::FusedRows(const FusedModel& model, const BeamLm& lm, double temperature,
                     TransducerBeams& beams, const at::Tensor& frame)
    : model_(model), lm_(lm), temperature_(static_cast<float>(temperature)), beams_(beams) {
  const Joint& joint = *model.model->joint;
  const PredictionConfig& network = model.model->prediction->config();
  const Beams view = view_of(beams.hypotheses, beams.lengths);
  const auto rows = static_cast<int64_t>(view.rows());
  const auto ints = at::TensorOptions(at::kInt).device(model.model->device);

  parents_ = at::empty({rows}, ints);
  tokens_ = at::empty({rows}, ints);
  moves_ = {data<int32_t>(parents_), data<int32_t>(tokens_)};
  if (network.kind == PredictionConfig::Kind::stateless) {
    texts_ = at::full({rows, network.context_size}, view.blank, ints.dtype(at::kLong));
  } else {
    const PredictionState& state = beams.prediction.state;
    from_h_ = at::empty_like(state.h);
    from_c_ = at::empty_like(state.c);
    gather_ = {moves_,
               elements(state.h),
               elements(state.c),
               elements(from_h_),
               elements(from_c_),
               view.rows(),
               static_cast<int32_t>(layers()),
               static_cast<int32_t>(network.width)};
  }
  hidden_units_ = at::empty_like(beams.prediction.output);
  logits_ = at::empty({rows, joint.tokens() + joint.durations()}, hidden_units_.options());
  hidden_ = {view,
             elements(beams.encoded),
             elements(beams.prediction.output),
             elements(hidden_units_),
             data<int64_t>(frame),
             beams.encoded.size(1),
             static_cast<int32_t>(joint.width()),
             static_cast<Activation>(joint.activation())};
}

Append FusedRows::append() const {
  return {view(),
          fusion(true),
          moves_,
          data<int64_t>(texts_),
          texts_.defined() ? static_cast<int32_t>(texts_.size(1)) : 0,
          is_tdt()};
}

Scoring FusedRows::scoring(bool scale_forced_blank) const {
  return {elements(logits_),
          view().blank,
          static_cast<int32_t>(model_.model->joint->durations()),
          data<int64_t>(model_.duration_values),
          temperature_,
          fusion(scale_forced_blank)};
}

Fusion FusedRows::fusion(bool scale_forced_blank) const {
  Fusion fusion = fusion_of(lm_.model, lm_.options, beams_.lm_states);
  fusion.acoustic_forced_blank = lm_.early() && !scale_forced_blank;
  return fusion;
}

int64_t FusedRows::layers() const {
  return static_cast<int64_t>(model_.model->prediction->layers().size());
}

void FusedRows::write_logits() {
  const Joint::Linear& output = model_.model->joint->output();
  at::addmm_out(logits_, output.bias, hidden_units_, output.weight.t());
}

FusedRows::Gates FusedRows::gates_of(int64_t layer) const {
  const PredictionNetwork::LstmLayer& l =
      model_.model->prediction->layers()[static_cast<size_t>(layer)];
  const at::Tensor& h = beams_.prediction.state.h;
  return {layer == 0 ? model_.first_gates : at::linear(h.select(0, layer - 1), l.w_ih),
          at::linear(from_h_.select(0, layer), l.w_hh)};
}

LstmCell FusedRows::cell(int64_t layer, const Gates& gates) const {
  const PredictionNetwork::LstmLayer& l =
      model_.model->prediction->layers()[static_cast<size_t>(layer)];
  const PredictionState& state = beams_.prediction.state;
  return {moves_,
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

void FusedRows::project(const at::Tensor& output) {
  // Rows without a new token have the state that they had, and so get the same again.
  const Joint::Linear& linear = model_.model->joint->prediction();
  at::addmm_out(beams_.prediction.output, linear.bias, output, linear.weight.t());
}

void FusedRows::look_up_texts() {
  const at::Tensor before = texts_.narrow(1, 1, texts_.size(1) - 1);
  project(model_.model->prediction->step(texts_.select(1, 0), {{}, {}, before}).output);
}

}  // namespace rtfx
