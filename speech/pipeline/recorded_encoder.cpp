#include "speech/pipeline/recorded_encoder.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAStream.h>

#include "algorithms/gpu/graph.h"
#include "base/gpu/rounding.h"

namespace rtfx {

std::function<void()> record_step(const std::function<void()>& step) {
  Graph graph;
  retry_out_of_memory([&] { graph = Graph::record([&](GraphRecorder&) { step(); }); });
  return [graph] { graph.launch(c10::cuda::getCurrentCUDAStream().stream()); };
}

struct RecordedEncoder::Recording {
  Features input;  // a graph reads and writes the same addresses in every run
  Encoded output;
  Graph graph;
};

RecordedEncoder::RecordedEncoder(std::shared_ptr<const AcousticModel> model, bool graphs)
    : model_(std::move(model)), graphs_(graphs && model_->device.is_cuda()) {}
RecordedEncoder::~RecordedEncoder() = default;

RecordedEncoder::Recording* RecordedEncoder::recording_for(const Features& features) {
  const int64_t rows = features.values.size(0), mel_bins = features.values.size(1);
  const int64_t frames = round_up(features.values.size(2), kMelFrameStep);
  const std::array<int64_t, 3> size = {rows, frames,
                                       model_->encoder->rows(rows, frames, features.host_lengths)};
  const auto found = recordings_.find(size);
  if (found != recordings_.end()) return found->second.get();
  if (recordings_.size() == kMostGraphs) return nullptr;
  auto recording = std::make_unique<Recording>();
  Recording& r = *recording;
  r.input = {at::zeros({rows, mel_bins, frames}, features.values.options()),
             features.lengths.clone(), features.host_lengths};
  // Once without recording: at their first call libraries allocate and choose algorithms, which
  // a recording does not allow.
  (*model_->encoder)(r.input);
  const Graph* shared = recordings_.empty() ? nullptr : &recordings_.begin()->second->graph;
  retry_out_of_memory([&] {
    r.graph =
        Graph::record([&](GraphRecorder&) { r.output = (*model_->encoder)(r.input); }, shared);
  });
  recordings_.emplace(size, std::move(recording));
  return &r;
}

Encoded RecordedEncoder::operator()(const Features& features) {
  Recording* const recording = graphs_ ? recording_for(features) : nullptr;
  if (recording == nullptr) return (*model_->encoder)(features);
  Recording& r = *recording;
  const int64_t frames = features.values.size(2), all = r.input.values.size(2);
  r.input.values.narrow(2, 0, frames).copy_(features.values);
  r.input.values.narrow(2, frames, all - frames).zero_();
  r.input.lengths.copy_(features.lengths);
  r.graph.launch(c10::cuda::getCurrentCUDAStream(model_->device.index()).stream());
  const int64_t encoded = model_->config.encoder.subsampled(frames);
  return {r.output.frames.narrow(1, 0, encoded).clone(), r.output.lengths.clone()};
}

}  // namespace rtfx
