#include "harness/recorded_encoder.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>

#include "algorithms/cuda_graphs/graph.h"

namespace rtfx {

struct RecordedEncoder::Recording {
  Features input;  // at fixed addresses, as is the output
  Encoded output;
  Graph graph;
};

RecordedEncoder::RecordedEncoder(std::shared_ptr<const AcousticModel> model, bool graphs)
    : model_(std::move(model)), graphs_(graphs && model_->device.is_cuda()) {}
RecordedEncoder::~RecordedEncoder() = default;

RecordedEncoder::Recording& RecordedEncoder::recording_for(const Features& features) {
  const int64_t rows = features.values.size(0), mel_bins = features.values.size(1);
  const int64_t frames = (features.values.size(2) + kFrameStep - 1) / kFrameStep * kFrameStep;
  const auto found = std::find_if(recordings_.begin(), recordings_.end(), [&](const auto& r) {
    return r->input.values.size(0) == rows && r->input.values.size(2) == frames;
  });
  if (found != recordings_.end()) {
    recordings_.splice(recordings_.begin(), recordings_, found);
    return *recordings_.front();
  }
  if (recordings_.size() == kMostGraphs) recordings_.pop_back();
  auto recording = std::make_unique<Recording>();
  Recording& r = *recording;
  r.input.values = at::zeros({rows, mel_bins, frames}, features.values.options());
  r.input.lengths = features.lengths.clone();
  // Once for real, so that libraries make what they make at the first call.
  (*model_->encoder)(r.input);
  r.graph = Graph::record([&](GraphRecorder&) { r.output = (*model_->encoder)(r.input); },
                          recordings_.empty() ? nullptr : &recordings_.front()->graph);
  ++captures_;
  recordings_.push_front(std::move(recording));
  return r;
}

Encoded RecordedEncoder::operator()(const Features& features) {
  if (!graphs_) return (*model_->encoder)(features);
  Recording& r = recording_for(features);
  const int64_t frames = features.values.size(2), all = r.input.values.size(2);
  r.input.values.narrow(2, 0, frames).copy_(features.values);
  r.input.values.narrow(2, frames, all - frames).zero_();
  r.input.lengths.copy_(features.lengths);
  r.graph.launch(c10::cuda::getCurrentCUDAStream(model_->device.index()).stream());
  const int64_t encoded = model_->config.encoder.subsampled(frames);
  return {r.output.frames.narrow(1, 0, encoded).clone(), r.output.lengths.clone()};
}

}  // namespace rtfx
