#include "speech/pipeline/recorded_encoder.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <bit>

#include "algorithms/gpu/graph.h"
#include "base/gpu/rounding.h"
#include "models/encoder/encoder.h"
#include "models/encoder/encoder_interface.h"
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

namespace {

constexpr int64_t kMelFrameStep = 64;  // 8 or 16 encoder frames

/// Rounds up to one of `steps` sizes between a power of two and the next one. Steps are at least
/// `least`. The result is larger by at most 1 / steps, or by less than `least`.
int64_t rounded(int64_t size, int64_t steps, int64_t least) {
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(size)));
  return round_up(size, std::max(least, power / steps));
}

}  // namespace

EncoderSize rounded_up(const EncoderSize& size, bool fused) {
  return {.utterances = fused ? rounded(size.utterances, 8, 1) : size.utterances,
          .mel_frames = rounded(size.mel_frames, fused ? 8 : 16, kMelFrameStep),
          .rows = fused ? rounded(size.rows, 32, kPackedRowStep) : size.rows};
}

EncoderSize rounded_size(const AcousticModel& model, const Features& features) {
  const Encoder& encoder = *model.encoder;
  EncoderSize size{features.values.size(0), features.values.size(2), 1};
  size = rounded_up(size, encoder.is_fused());
  const int64_t padded = encoder.rows(size.utterances, size.mel_frames, {});
  size.rows = encoder.rows(size.utterances, size.mel_frames, features.host_lengths);
  size.rows = std::min(padded, rounded_up(size, encoder.is_fused()).rows);
  return size;
}

namespace {

/// Copies `from` to `to`. Where `to` is larger, the rest becomes zeros.
void copy_padded(const at::Tensor& from, const at::Tensor& to) {
  if (from.sizes() != to.sizes()) to.zero_();
  at::Tensor part = to;
  for (int64_t d = 0; d < from.dim(); ++d) part = part.narrow(d, 0, from.size(d));
  part.copy_(from);
}

}  // namespace

Features padded_features(const Features& features, const EncoderSize& size) {
  const at::Tensor &values = features.values, &lengths = features.lengths;
  if (values.size(0) == size.utterances && values.size(2) == size.mel_frames)
    return {values, lengths, features.host_lengths, size.rows, features.prompts};
  Features padded{at::empty({size.utterances, values.size(1), size.mel_frames}, values.options()),
                  at::empty({size.utterances}, lengths.options()), features.host_lengths,
                  size.rows};
  copy_padded(values, padded.values);
  copy_padded(lengths, padded.lengths);
  if (features.prompts.defined()) {
    padded.prompts = at::empty_like(padded.lengths);
    copy_padded(features.prompts, padded.prompts);
  }
  if (!padded.host_lengths.empty())
    padded.host_lengths.resize(static_cast<size_t>(size.utterances), 0);
  return padded;
}

RecordedEncoder::RecordedEncoder(std::shared_ptr<const AcousticModel> model, bool graphs,
                                 bool at_once)
    : model_(std::move(model)),
      can_record_(graphs && model_->device.is_cuda()),
      graphs_(can_record_),
      at_once_(at_once) {}
RecordedEncoder::~RecordedEncoder() = default;

void RecordedEncoder::forget() {
  synchronize(model_->device);
  sizes_.clear();
  input_ = at::Tensor();
  counts_ = {};
  room_ = true;
}

at::Tensor RecordedEncoder::input(at::IntArrayRef shape, const at::TensorOptions& options) {
  const int64_t count = c10::multiply_integers(shape);
  // Earlier graphs continue to use the memory with which they were recorded.
  if (!input_.defined() || input_.numel() < count) {
    const auto power = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count)));
    input_ = at::empty({power}, options);
  }
  return input_.narrow(0, 0, count).view(shape);
}

std::shared_ptr<RecordedEncoder::Recording> RecordedEncoder::record(const Features& features) {
  auto recording = std::make_shared<Recording>();
  Recording& r = *recording;
  r.input = features;  // including its lengths on the host and its packed rows
  r.input.values = input(features.values.sizes(), features.values.options());
  r.input.lengths = features.lengths.clone();
  if (features.prompts.defined()) r.input.prompts = features.prompts.clone();
  const std::shared_ptr<Recording> last = last_recorded_.lock();
  retry_out_of_memory([&] {
    r.graph = Graph::record([&](GraphRecorder&) { r.output = (*model_->encoder)(r.input); },
                            last ? &last->graph : nullptr);
  });
  last_recorded_ = recording;
  return recording;
}

Encoded RecordedEncoder::operator()(const Features& given) {
  if (!can_record_) {
    ++counts_.launched;
    return (*model_->encoder)(given);
  }
  const Features features = model_->encoder->with_prompts(given);
  const EncoderSize size = rounded_size(*model_, features);
  Size* known = nullptr;
  // With more sizes in a round than are kept, each would otherwise be recorded again in every
  // round.
  const bool full = at_once_ && sizes_.size() == kMostSizes && sizes_.find(size) == nullptr;
  if (graphs_ && !full) {
    known = &sizes_(size, [&](const Size& oldest) {
      if (!oldest.recording) return;
      synchronize(model_->device);  // its graph may still run
      room_ = true;
    });
  }
  Encoded encoded;
  if (known != nullptr && known->recording) {
    ++counts_.replayed;
    const Recording& r = *known->recording;
    copy_padded(features.values, r.input.values);
    copy_padded(features.lengths, r.input.lengths);
    if (features.prompts.defined()) copy_padded(features.prompts, r.input.prompts);
    r.graph.launch(c10::cuda::getCurrentCUDAStream(model_->device.index()).stream());
    encoded = r.output;
  } else {
    // This also precedes a recording. At their first call on a thread, libraries allocate and
    // choose algorithms, which a recording does not allow.
    ++counts_.launched;
    const Features padded = padded_features(features, size);
    encoded = (*model_->encoder)(padded);
    if (known != nullptr && room_ && (known->seen || at_once_)) {
      try {
        known->recording = record(padded);
        ++counts_.recorded;
      } catch (const c10::OutOfMemoryError&) {
        room_ = false;  // the frames exist; later batches are launched, too
      }
    }
    if (known != nullptr) known->seen = true;
  }
  const int64_t rows = features.values.size(0);
  const int64_t frames =
      std::max<int64_t>(1, model_->config.encoder.subsampled(features.values.size(2)));
  return {encoded.frames.narrow(0, 0, rows).narrow(1, 0, frames).clone(),
          encoded.lengths.narrow(0, 0, rows).clone()};
}

}  // namespace rtfx
