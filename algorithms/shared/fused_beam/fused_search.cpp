#include "algorithms/shared/fused_beam/fused_search.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/gpu/rounding.h"
#include "models/checkpoint/precision_of.h"
#include "models/checkpoint/tensor_data.h"

namespace rtfx::fused_beam {

Elements elements(const at::Tensor& t) {
  RTFX_CHECK(t.is_contiguous(), "a tensor of a fused step");
  // Phases write only to tensors that callers pass as mutable.
  return {const_cast<void*>(t.const_data_ptr()), precision_of(t.scalar_type(), "a fused step")};
}

Beams view_of(const BeamHypotheses& h, const at::Tensor& frames) {
  RTFX_CHECK(frames.is_contiguous(), "frames of a fused step");
  return {static_cast<int32_t>(h.batch), static_cast<int32_t>(h.beam),
          static_cast<int32_t>(h.blank), h.hash_multiplier,
          data_of<int64_t>(frames),      data<float>(h.scores),
          data<int64_t>(h.hash),         data<int64_t>(h.last_label),
          data<int64_t>(h.lengths),      data<int64_t>(h.time),
          data<int64_t>(h.prefix_hash),  data<int64_t>(h.run),
          data<int32_t>(h.labels),       data<int32_t>(h.parents),
          data<int32_t>(h.durations),    data<int64_t>(h.column)};
}

Fusion fusion_of(const NgramLm* lm, const LmOptions* options, const at::Tensor& states,
                 const DeviceBias& bias, const at::Tensor& bias_states) {
  Fusion fusion{};
  if (lm != nullptr) {
    fusion.lm = lm->view();
    fusion.states = data<int32_t>(states);
    fusion.alpha = static_cast<float>(options->alpha);
    fusion.beta = static_cast<float>(options->beta);
    fusion.full = options->blank_scoring == "lm_weighted_full";
    fusion.blank_scale = static_cast<float>(1 + options->alpha);
  }
  fusion.least_log_rest =
      static_cast<float>(std::log(lm != nullptr ? options->blank_eps : kBlankEps));
  fusion.early = lm != nullptr && options->pruning == "early";
  if (bias.has_models()) {
    fusion.bias_models = bias.models->view();
    fusion.bias_roots = data_of<int32_t>(bias.roots);
    fusion.bias_states = data<int32_t>(bias_states);
    if (bias.blank_weights.defined()) fusion.blank_weights = data_of<float>(bias.blank_weights);
  }
  return fusion;
}

}  // namespace rtfx::fused_beam

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
  precision_of(model->dtype, "a search with fused kernels");
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
          beams_.hypotheses.rule};
}

Scoring FusedRows::scoring(bool fuses_forced_blank) const {
  return {elements(logits_),
          static_cast<int32_t>(logits_.size(1)),
          view().blank,
          static_cast<int32_t>(model_.model->joint->durations()),
          data<int64_t>(model_.duration_values),
          temperature_,
          fusion(fuses_forced_blank)};
}

Fusion FusedRows::fusion(bool fuses_forced_blank) const {
  Fusion fusion =
      fusion_of(lm_.model, lm_.options, beams_.lm_states, beams_.bias, beams_.bias_states);
  fusion.acoustic_forced_blank = lm_.early() && !fuses_forced_blank;
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
  // Rows without a new token have the state of their parent, so they get its output again.
  const Joint::Linear& linear = model_.model->joint->prediction();
  at::addmm_out(beams_.prediction.output, linear.bias, output, linear.weight.t());
}

void FusedRows::look_up_texts() {
  const at::Tensor before = texts_.narrow(1, 1, texts_.size(1) - 1);
  project(model_.model->prediction->step(texts_.select(1, 0), {{}, {}, before}).output);
}

FusedStep::FusedStep(const FusedModel& model, const BeamLm& lm, const Options& options,
                     TransducerBeams& beams)
    : any_active((beams.lengths > 0).any().reshape({1})),
      earliest_(beams.hypotheses.rule == AlignmentRule::tdt && options.one_label_per_frame
                    ? at::zeros_like(beams.lengths)
                    : at::Tensor()),
      rows_(model, lm, options.temperature, beams),
      candidates_(rows_.view().rows(), rows_.view().beam, rows_.is_tdt(), any_active.device()) {
  expand_ = {rows_.view(),
             rows_.scoring(options.fuses_forced_blank),
             candidates_.view(),
             static_cast<int32_t>(options.max_symbols),
             any_active.mutable_data_ptr<bool>(),
             data<int64_t>(earliest_)};
  choose_ = {rows_.append(), candidates_.view(), options.merge_finished,
             any_active.mutable_data_ptr<bool>(), data<int64_t>(earliest_)};
  fused_beam::require_fits(
      any_active.device(), options.decoder, fmt::format("a beam of {}", rows_.view().beam),
      "choose a smaller beam_size, or \"kernels\": \"operators\"", expand_, choose_);
}

void FusedStep::operator()() { step(fused_beam::RunPhases(any_active.device())); }

FusedFrame::FusedFrame(const FusedModel& model, const BeamLm& lm, const Options& options,
                       TransducerBeams& beams)
    : active((beams.lengths > 0).any().reshape({1})),
      expanding(at::zeros_like(active)),
      open_(at::zeros({beams.lengths.size(0) * beams.hypotheses.beam}, active.options())),
      time_(at::zeros({1}, beams.lengths.options())),
      expansions_(at::zeros_like(time_)),
      softmax_(at::empty({open_.size(0), static_cast<int64_t>(sizeof(RowSoftmax) / sizeof(float))},
                         open_.options().dtype(at::kFloat))),
      rows_(model, lm, options.temperature, beams, time_),
      candidates_(open_.size(0), options.labels, rows_.is_tdt(), open_.device()) {
  const std::vector<int64_t>& durations = model.model->config.durations;
  int32_t zero = -1, shortest = -1;
  for (size_t i = 0; i < durations.size(); ++i) {
    const auto index = static_cast<int32_t>(i);
    if (durations[i] == 0) {
      zero = index;
    } else if (shortest < 0 || durations[i] < durations[static_cast<size_t>(shortest)]) {
      shortest = index;
    }
  }
  if (rows_.is_tdt()) merged_ = at::empty_like(candidates_.scores);
  const Frame frame = {rows_.view(),
                       rows_.scoring(),
                       reinterpret_cast<RowSoftmax*>(softmax_.mutable_data_ptr<float>()),
                       open_.mutable_data_ptr<bool>(),
                       time_.mutable_data_ptr<int64_t>(),
                       expansions_.mutable_data_ptr<int64_t>(),
                       active.mutable_data_ptr<bool>(),
                       expanding.mutable_data_ptr<bool>()};
  normalize_ = {frame};
  next_ = {frame};
  start_ = {frame, zero};
  expand_ = {frame, candidates_.view(), static_cast<float>(options.gamma),
             options.count_acoustic_twice};
  choose_ = {frame,
             rows_.append(),
             candidates_.view(),
             merged_.defined() ? merged_.mutable_data_ptr<float>() : nullptr,
             static_cast<int32_t>(options.num_steps),
             options.ask_former_slot};
  finish_ = {frame, rows_.append(), shortest};
  require_fits(open_.device(), "aes_pp",
               fmt::format("a beam of {} with {} labels each", frame.beams.beam, options.labels),
               "choose a smaller beam_size or expansion_beta, or \"kernels\": \"operators\"",
               normalize_, start_, expand_, choose_, finish_);
}

void FusedFrame::start_frame() { start_frame(RunPhases(open_.device())); }

void FusedFrame::expand() { expand(RunPhases(open_.device())); }

void FusedFrame::finish_frame() { finish_frame(RunPhases(open_.device())); }

}  // namespace rtfx
