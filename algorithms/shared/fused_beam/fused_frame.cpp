#include "algorithms/shared/fused_beam/fused_frame.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "algorithms/shared/fused_beam/run_phases.h"

namespace rtfx {

using namespace fused_beam;

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
               "choose a smaller beam_size or expansion_beta, or \"step\": \"operators\"",
               normalize_, start_, expand_, choose_, finish_);
}

void FusedFrame::start_frame() { start_frame(RunPhases(open_.device())); }

void FusedFrame::expand() { expand(RunPhases(open_.device())); }

void FusedFrame::finish_frame() { finish_frame(RunPhases(open_.device())); }

}  // namespace rtfx
