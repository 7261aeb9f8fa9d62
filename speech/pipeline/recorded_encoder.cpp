#include "speech/pipeline/recorded_encoder.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "algorithms/gpu/graph.h"
#include "base/error.h"
#include "base/gpu/check.h"
#include "base/gpu/rounding.h"
#include "models/encoder/encoder.h"
#include "speech/runtime/device.h"

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

namespace {

/// The machine's, of memory that needs no swapping; the largest number where it does not say.
int64_t available_bytes() {
  std::ifstream in("/proc/meminfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("MemAvailable:")) return std::stoll(line.substr(13)) * 1024;
  }
  return std::numeric_limits<int64_t>::max();
}

int64_t resident_bytes() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

int64_t free_memory(const at::Device& device) {
  if (device.is_cuda()) {
    using c10::CachingAllocator::StatType;
    const auto index = device.index();
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(index);
    const auto all = static_cast<size_t>(StatType::AGGREGATE);
    const int64_t kept = stats.reserved_bytes[all].current - stats.allocated_bytes[all].current;
    const c10::cuda::CUDAGuard guard(device);
    size_t unused = 0, total = 0;
    RTFX_CUDA(cudaMemGetInfo(&unused, &total));
    return static_cast<int64_t>(unused) + kept;
  }
  const int64_t available = available_bytes();
  const auto limit = group_limits().memory_bytes;
  return limit ? std::min(available, *limit - resident_bytes()) : available;
}

int64_t least_encoder_memory(const AcousticModel& model, int64_t rows, int64_t samples) {
  const FeatureConfig& features = model.config.features;
  const int64_t frames = features.frames(samples);
  if (model.encoder->fused())
    return fused_encoder_bytes(model.config.encoder, features.mel_bins, rows, frames);
  return encoder_bytes(model.config.encoder, features.mel_bins, rows, frames,
                       static_cast<int64_t>(c10::elementSize(model.encoder_dtype)));
}

void require_encoder_memory(const AcousticModel& model, int64_t rows, int64_t samples, int64_t free,
                            const std::string& where) {
  constexpr double kGiB = 1 << 30;
  const int64_t needed = least_encoder_memory(model, rows, samples);
  if (needed <= free) return;
  const double seconds =
      static_cast<double>(samples) / static_cast<double>(model.config.features.sample_rate);
  throw UserError(
      where,
      fmt::format(
          "encoding {}{:.0f} s of audio needs at least {:.1f} GiB, of which {:.1f} are free",
          rows > 1 ? fmt::format("{} utterances of up to ", rows) : "", seconds,
          static_cast<double>(needed) / kGiB, static_cast<double>(free) / kGiB),
      rows > 1 ? "use a smaller batch size"
               : "cut it into shorter recordings, or use a model of limited attention context");
}

}  // namespace rtfx
