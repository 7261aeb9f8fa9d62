#include "models/streaming/buffered_streams.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace rtfx {
namespace {

constexpr const char* kBufferedStreams = "buffered streams";
constexpr double kMostSeconds = 3600;

}  // namespace

BufferedStreams::BufferedStreams(std::shared_ptr<const AcousticModel> model,
                                 const StreamOptions& options)
    : EncoderStreams(options, kBufferedStreams),
      model_(std::move(model)),
      frame_(model_->config.features.hop * model_->config.encoder.factor()),
      left_(frames_of_seconds(options.buffer->left) * frame_),
      chunk_(frames_of_seconds(options.buffer->chunk) * frame_),
      right_(frames_of_seconds(options.buffer->right) * frame_) {
  if (!options.att_context_size.empty())
    throw UserError(kBufferedStreams, "att_context_size is for streams by caches",
                    "choose it where the model is loaded");
  if (chunk_ < frame_)
    throw UserError(kBufferedStreams,
                    fmt::format("a chunk of {} s is no encoder frame", options.buffer->chunk),
                    fmt::format("give {} s or more", model_->config.frame_seconds()));
}

int64_t BufferedStreams::frames_of_seconds(double seconds) const {
  if (!(seconds >= 0 && seconds <= kMostSeconds))
    throw UserError(kBufferedStreams, fmt::format("a context of {} s", seconds),
                    fmt::format("0 to {} s are possible", kMostSeconds));
  // In NeMo's order of operations, which decides where whole frames are rounded.
  const FeatureConfig& f = model_->config.features;
  const double per_second = 1.0 / (static_cast<double>(f.hop) / f.sample_rate);
  return static_cast<int64_t>(seconds * per_second / model_->config.encoder.factor());
}

bool BufferedStreams::is_last(const Stream& stream) const {
  return stream.audio.received() - stream.done <= chunk_ + right_;
}

bool BufferedStreams::ready(const Stream& stream) const {
  return stream.audio.finished() || !is_last(stream);
}

BufferedStreams::Cut BufferedStreams::cut(const Stream& stream, bool last) const {
  if (!last) {
    const int64_t left = std::min(stream.done, left_);
    return {stream.done - left, left + chunk_ + right_, left / frame_, chunk_ / frame_};
  }
  const int64_t rest = stream.audio.received() - stream.done;
  // The buffer begins where a frame of the whole utterance does.
  const int64_t skip = std::min(stream.done, left_ + chunk_ + right_ - rest) / frame_;
  const int64_t left = skip * frame_;
  const int64_t frames = model_->config.encoded_frames(left + rest) - skip;
  return {stream.done - left, left + rest, skip, std::max<int64_t>(0, frames)};
}

EncodedPieces BufferedStreams::encode(Rows rows) {
  const int64_t longest = left_ + chunk_ + right_;
  const auto count = static_cast<int64_t>(rows.size());
  const bool pinned = model_->device.is_cuda();
  at::Tensor audio =
      at::zeros({this->rows(), longest}, at::TensorOptions(at::kFloat).pinned_memory(pinned));
  // Samples of each row, and encoder frames that it skips.
  at::Tensor control =
      at::zeros({2, this->rows()}, at::TensorOptions(at::kLong).pinned_memory(pinned));
  auto of = control.accessor<int64_t, 2>();
  EncodedPieces pieces;
  for (const auto& [number, stream] : rows) {
    const auto row = static_cast<int64_t>(pieces.streams.size());
    const bool last = is_last(*stream);
    const Cut part = cut(*stream, last);
    stream->audio.copy(
        part.first, {audio.data_ptr<float>() + row * longest, static_cast<size_t>(part.samples)});
    of[0][row] = part.samples;
    of[1][row] = part.skip;
    stream->done += chunk_;
    ++stream->steps;
    stream->over = last;
    // The last buffer reaches back so far where it is only just more than its right context.
    stream->audio.forget(stream->done - left_ - chunk_);
    pieces.streams.push_back(number);
    pieces.lengths.push_back(part.frames);
    pieces.last.push_back(last);
  }
  audio = audio.to(model_->device, /*non_blocking=*/true);
  control = control.to(model_->device, /*non_blocking=*/true);
  const at::Tensor frames = (*model_->encoder)((*model_->features)(audio, control[0])).frames;
  const at::Tensor index =
      (control[1].narrow(0, 0, count).unsqueeze(1) + at::arange(most_frames(), control.options()))
          .clamp_max(frames.size(1) - 1);
  pieces.frames =
      frames.narrow(0, 0, count).gather(1, index.unsqueeze(2).expand({-1, -1, frames.size(2)}));
  return pieces;
}

}  // namespace rtfx
