#include "algorithms/shared/fused_beam/fused_rows.h"

#include <ATen/ATen.h>

#include "algorithms/shared/fused_beam/views.h"
#include "base/error.h"
#include "base/gpu/rounding.h"

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
  if (!network.layers().empty()) {
    first_gates = at::linear(network.embeddings()[0], network.layers()[0].w_ih);
    std::vector<at::Tensor> w_hh;
    for (const PredictionNetwork::LstmLayer& layer : network.layers()) w_hh.push_back(layer.w_hh);
    recurrent = at::stack(w_hh).transpose(1, 2);
  }
  const Joint::Linear& joint = model->joint->output();
  constexpr int64_t kMultiple = 8;
  const int64_t missing = round_up(joint.bias.size(0), kMultiple) - joint.bias.size(0);
  output = {at::constant_pad_nd(joint.weight, {0, 0, 0, missing}),
            at::constant_pad_nd(joint.bias, {0, missing})};
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
  state_buffer_ = at::zeros({1}, ints);
  moves_ = {data<int32_t>(parents_), data<int32_t>(tokens_), data<int32_t>(state_buffer_)};
  if (network.kind == PredictionConfig::Kind::stateless) {
    texts_ = at::full({rows, network.context_size}, view.blank, ints.dtype(at::kLong));
  } else {
    const PredictionState& state = beams.prediction.state;
    h_ = at::stack({state.h, state.h}, 1);
    c_ = at::stack({state.c, state.c}, 1);
    recurrent_gates_ = at::empty({layers(), rows, 4 * network.width}, state.h.options());
  }
  hidden_units_ = at::empty_like(beams.prediction.output);
  RTFX_CHECK(beams.encoded.scalar_type() == hidden_units_.scalar_type(), "dtypes of a fused step");
  logits_ = at::empty({rows, model.output.bias.size(0)}, hidden_units_.options());
  hidden_ = {view,
             elements(beams.encoded),
             elements(beams.prediction.output),
             elements(hidden_units_),
             data<int64_t>(frame),
             beams.encoded.size(1),
             {view.rows(), static_cast<int32_t>(joint.width())},
             joint.activation()};
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
          static_cast<int32_t>(logits_.size(1)),
          view().blank,
          static_cast<int32_t>(model_.model->joint->durations()),
          data<int64_t>(model_.duration_values),
          temperature_,
          fusion(scale_forced_blank)};
}

Fusion FusedRows::fusion(bool scale_forced_blank) const {
  Fusion fusion =
      fusion_of(lm_.model, lm_.options, beams_.lm_states, beams_.bias, beams_.bias_states);
  fusion.acoustic_forced_blank = lm_.early() && !scale_forced_blank;
  return fusion;
}

int64_t FusedRows::layers() const {
  return static_cast<int64_t>(model_.model->prediction->layers().size());
}

void FusedRows::write_logits() {
  at::addmm_out(logits_, model_.output.bias, hidden_units_, model_.output.weight.t());
  const at::Tensor& forbidden = beams_.bias.forbidden;
  if (forbidden.defined())
    logits_.narrow(1, 0, forbidden.size(1)).masked_fill_(forbidden, kLogZero);
}

void FusedRows::write_recurrent_gates() {
  at::bmm_out(recurrent_gates_, beams_.prediction.state.h, model_.recurrent);
}

at::Tensor FusedRows::input_gates(int64_t layer) const {
  if (layer == 0) return model_.first_gates;
  const auto& weights = model_.model->prediction->layers()[static_cast<size_t>(layer)];
  return at::linear(beams_.prediction.state.h.select(0, layer - 1), weights.w_ih);
}

LstmCell FusedRows::cell(int64_t layer, const at::Tensor& input_gates) const {
  const auto& weights = model_.model->prediction->layers()[static_cast<size_t>(layer)];
  const at::Tensor& h = beams_.prediction.state.h;
  return {moves_,
          elements(input_gates),
          layer == 0,
          elements(recurrent_gates_.select(0, layer)),
          elements(weights.b_ih),
          elements(weights.b_hh),
          elements(h_.select(0, layer)),
          elements(c_.select(0, layer)),
          elements(h.select(0, layer)),
          {hidden_.chunks.rows, static_cast<int32_t>(h.size(2))}};
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
