#include "models/streaming/encoder_streams.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/samples.h"
#include "models/acoustic_model.h"
#include "models/checkpoint/config.h"
#include "models/parallel.h"
#include "models/streaming/cached_encoder.h"
#include "models/streaming/stream_features.h"

namespace rtfx {

namespace {

constexpr int64_t kMostStreams = 65536;

std::string name_of(int64_t stream) { return fmt::format("stream {}", stream); }

}  // namespace

at::Tensor EncodedPieces::row(size_t row) const {
  return frames[static_cast<int64_t>(row)].narrow(0, 0, lengths[row]);
}

EncoderStreams::EncoderStreams(const StreamOptions& options, const PromptConfig& prompt,
                               std::string where)
    : where_(std::move(where)), prompt_(prompt), row_counts_(options.fewer_rows) {
  if (options.streams < 1 || options.streams > kMostStreams)
    throw UserError(where_, fmt::format("{} streams", options.streams),
                    fmt::format("1 to {} are possible", kMostStreams));
  if (options.rows < 0 || options.rows > options.streams)
    throw UserError(where_, fmt::format("{} rows for {} streams", options.rows, options.streams),
                    "give no more rows than streams, or 0 for as many");
  const int64_t most = options.rows > 0 ? options.rows : options.streams;
  for (const int64_t fewer : options.fewer_rows) {
    if (fewer < 1 || fewer >= most)
      throw UserError(
          where_, fmt::format("fewer rows: {}, of {}", fewer, most),
          most > 1 ? fmt::format("give numbers from 1 to {}", most - 1) : "leave them out");
  }
  row_counts_.push_back(most);
  std::ranges::sort(row_counts_);
  for (int64_t slot = options.streams; slot-- > 0;) free_slots_.push_back(slot);
}

int64_t EncoderStreams::open(std::optional<int64_t> prompt) {
  if (free_slots_.empty())
    throw UserError(where_, fmt::format("all {} streams are open", streams_.size()),
                    "close one, or ask for more streams");
  Stream stream;
  stream.slot = free_slots_.back();
  if (prompt_.count > 0) stream.prompt = prompt_.or_standard(prompt);
  const c10::InferenceMode inference;
  opened(stream.slot);
  free_slots_.pop_back();
  streams_.emplace(next_, std::move(stream));
  return next_++;
}

EncoderStreams::Stream& EncoderStreams::find(int64_t stream) {
  return const_cast<Stream&>(std::as_const(*this).find(stream));
}

const EncoderStreams::Stream& EncoderStreams::find(int64_t stream) const {
  const auto found = streams_.find(stream);
  if (found == streams_.end())
    throw UserError(name_of(stream), "is not open", "open() gives the numbers of streams");
  return found->second;
}

void EncoderStreams::push(std::span<const NewSamples> all) {
  std::vector<StreamAudio*> into;
  int64_t most = 1;
  for (const NewSamples& one : all) {
    into.push_back(&find(one.stream).audio);
    if (into.back()->finished())
      throw UserError(name_of(one.stream), "samples behind its end", "open a new stream for them");
    most = std::max(most, std::ssize(one.samples));
  }
  const auto each = [&](const std::function<void(size_t)>& work) {
    const auto some = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) work(static_cast<size_t>(i));
    };
    parallel_ranges(std::ssize(all), some, 1 + StreamAudio::kSamplesOfAThread / most);
  };
  std::vector<char> sound(all.size());
  each([&](size_t i) { sound[i] = are_valid_samples(all[i].samples); });
  const auto bad = std::ranges::find(sound, 0);
  if (bad != sound.end()) {
    const NewSamples& one = all[static_cast<size_t>(bad - sound.begin())];
    require_valid_samples(one.samples, name_of(one.stream),
                          "give samples between -1 and 1; none of these were taken");
  }
  std::vector<StreamAudio*> sorted = into;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) == sorted.end()) {
    each([&](size_t i) { into[i]->push(all[i].samples); });
  } else {  // several pieces may belong to one stream, in order
    for (size_t i = 0; i < all.size(); ++i) into[i]->push(all[i].samples);
  }
}

void EncoderStreams::finish(int64_t stream) { find(stream).audio.finish(); }

void EncoderStreams::close(int64_t stream) {
  free_slots_.push_back(find(stream).slot);
  streams_.erase(stream);
}

bool EncoderStreams::waiting(int64_t stream) const {
  const Stream& s = find(stream);
  return !s.over && ready(s);
}

int64_t EncoderStreams::rows_for(size_t streams) const {
  return *std::ranges::lower_bound(row_counts_, static_cast<int64_t>(streams));
}

EncodedPieces EncoderStreams::step() {
  std::vector<std::pair<int64_t, Stream*>> rows;
  const auto take = [&](auto begin, auto end) {
    for (; begin != end && static_cast<int64_t>(rows.size()) < row_counts_.back(); ++begin) {
      if (!begin->second.over && ready(begin->second))
        rows.emplace_back(begin->first, &begin->second);
    }
  };
  const auto next = streams_.upper_bound(last_served_);
  take(next, streams_.end());
  take(streams_.begin(), next);
  if (rows.empty()) return {};
  last_served_ = rows.back().first;
  const c10::InferenceMode inference;
  const int64_t computed = rows_for(rows.size());
  EncodedPieces pieces = encode(rows, computed);
  pieces.computed_rows = computed;
  return pieces;
}

namespace {

/// Makes streams for models that are not made for streaming. The ordinary encoder runs on a buffer
/// of audio, and only the frames in the middle are used. NeMo's
/// speech_to_text_streaming_infer_rnnt.py does the same.
///
/// Features and encoder run on [left | chunk | right]. At the begin, the left context is as long as
/// the audio allows. Features that are normalised over the utterance are normalised over the
/// buffer. At the end, the rest of up to chunk + right is one chunk, and the left context fills the
/// buffer. A chunk waits for the sample after its right context, so the end does not depend on when
/// finish() is called.
///
/// Frames equal those of the whole utterance only as far as the model needs no more context.
class BufferedStreams : public EncoderStreams {
 public:
  BufferedStreams(std::shared_ptr<const AcousticModel> model, const StreamOptions& options);

  int64_t most_frames() const override { return (chunk_ + right_) / frame_ + 1; }
  int64_t chunk_samples() const override { return chunk_; }
  int64_t look_ahead_samples() const override { return right_ + 1; }

 private:
  /// The cut of a row, in samples and encoder frames.
  struct Cut {
    int64_t first, samples;  // of the buffer: its first sample and its length
    int64_t skip, frames;    // encoder frames of the buffer: how many to skip, and how many to use
  };

  int64_t frames_of_seconds(double seconds) const;
  Cut cut(const Stream& stream, bool last) const;
  bool is_last(const Stream& stream) const;

  bool ready(const Stream& stream) const override;
  EncodedPieces encode(Rows rows, int64_t computed) override;
  void opened(int64_t /*slot*/) override {}

  std::shared_ptr<const AcousticModel> model_;
  int64_t frame_;                 // samples of an encoder frame
  int64_t left_, chunk_, right_;  // samples
};

constexpr const char* kBufferedStreams = "buffered streams";
constexpr double kMostSeconds = 3600;

BufferedStreams::BufferedStreams(std::shared_ptr<const AcousticModel> model,
                                 const StreamOptions& options)
    : EncoderStreams(options, model->config.prompt, kBufferedStreams),
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
  // This is NeMo's order of operations, which decides where whole frames are rounded.
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
  // The buffer begins at the begin of a frame of the whole utterance.
  const int64_t skip = std::min(stream.done, left_ + chunk_ + right_ - rest) / frame_;
  const int64_t left = skip * frame_;
  const int64_t frames = model_->config.encoded_frames(left + rest) - skip;
  return {stream.done - left, left + rest, skip, std::max<int64_t>(0, frames)};
}

EncodedPieces BufferedStreams::encode(Rows rows, int64_t computed) {
  const int64_t longest = left_ + chunk_ + right_;
  const auto count = static_cast<int64_t>(rows.size());
  const bool pinned = model_->device.is_cuda();
  at::Tensor audio =
      at::zeros({computed, longest}, at::TensorOptions(at::kFloat).pinned_memory(pinned));
  enum ControlRow : int64_t {
    kSamples,
    kSkip,  // encoder frames
    kPrompt,
    kControlRows
  };
  at::Tensor control =
      at::zeros({kControlRows, computed}, at::TensorOptions(at::kLong).pinned_memory(pinned));
  auto of = control.accessor<int64_t, 2>();
  EncodedPieces pieces;
  for (const auto& [number, stream] : rows) {
    const auto row = static_cast<int64_t>(pieces.streams.size());
    const bool last = is_last(*stream);
    const Cut part = cut(*stream, last);
    stream->audio.copy(
        part.first, {audio.data_ptr<float>() + row * longest, static_cast<size_t>(part.samples)});
    of[kSamples][row] = part.samples;
    of[kSkip][row] = part.skip;
    of[kPrompt][row] = stream->prompt;
    stream->done += chunk_;
    ++stream->steps;
    stream->over = last;
    // The last buffer reaches back this far if it is only slightly longer than its right context.
    stream->audio.forget(stream->done - left_ - chunk_);
    pieces.streams.push_back(number);
    pieces.lengths.push_back(part.frames);
    pieces.last.push_back(last);
  }
  audio = audio.to(model_->device, /*non_blocking=*/true);
  control = control.to(model_->device, /*non_blocking=*/true);
  Features features = (*model_->features)(audio, control[kSamples]);
  features.prompts = control[kPrompt];
  const at::Tensor frames = (*model_->encoder)(features).frames;
  const at::Tensor index = (control[kSkip].narrow(0, 0, count).unsqueeze(1) +
                            at::arange(most_frames(), control.options()))
                               .clamp_max(frames.size(1) - 1);
  pieces.frames =
      frames.narrow(0, 0, count).gather(1, index.unsqueeze(2).expand({-1, -1, frames.size(2)}));
  return pieces;
}

/// Encodes streams with caches, for cache-aware models. Each frame is computed once. Frames equal
/// those of the encoder for the whole utterance, up to the rounding of differently shaped products.
/// This holds because its masks hide everything after a chunk.
class CachedStreams : public EncoderStreams {
 public:
  CachedStreams(std::shared_ptr<const AcousticModel> model, const StreamOptions& options);

  int64_t most_frames() const override { return encoder_->sizes().valid_out_len; }
  int64_t chunk_samples() const override;
  int64_t look_ahead_samples() const override;

 private:
  /// Returns the mel frame after the stream's next chunk, if that is a full one.
  int64_t chunk_end(const Stream& stream) const;

  bool ready(const Stream& stream) const override;
  EncodedPieces encode(Rows rows, int64_t computed) override;
  void opened(int64_t slot) override { encoder_->clear(slot); }

  /// A step with a fixed number of rows.
  struct Step {
    CachedStep input;
    at::Tensor output;
    std::function<void()> recorded;  // computes the output of the input
  };
  /// Computes the encoder frames of the step's input. The next step with the same number of rows
  /// overwrites them.
  const at::Tensor& encoded(Step& step);

  std::shared_ptr<const AcousticModel> model_;
  StepRecorder recorder_;
  std::unique_ptr<CachedEncoder> encoder_;
  StreamFeatures features_;
  std::map<int64_t, Step> steps_;  // by their number of rows
};

constexpr const char* kCachedStreams = "cache-aware streams";

EncoderConfig with_context(const ModelConfig& model, const std::vector<int64_t>& context) {
  ModelConfig config = model;
  if (!context.empty()) select_context(config, context, kCachedStreams);
  return config.encoder;
}

CachedStreams::CachedStreams(std::shared_ptr<const AcousticModel> model,
                             const StreamOptions& options)
    : EncoderStreams(options, model->config.prompt, kCachedStreams),
      model_(model),
      recorder_(model->device.is_cuda() ? options.recorder : nullptr),
      encoder_(make_cached_encoder(model, with_context(model->config, options.att_context_size),
                                   options.streams)),
      features_(model, encoder_->sizes().chunk_size[1]) {
  // Steps are recorded now, because a live stream has no time for it.
  if (recorder_ && !options.fewer_rows.empty()) {
    for (const int64_t rows : row_counts()) encode({}, rows);
  }
}

int64_t CachedStreams::chunk_samples() const {
  return encoder_->sizes().chunk_size[1] * model_->config.features.hop;
}

int64_t CachedStreams::look_ahead_samples() const {
  return features_.samples_for(1) - model_->config.features.hop;
}

int64_t CachedStreams::chunk_end(const Stream& stream) const {
  return stream.done + encoder_->sizes().chunk_size[stream.steps == 0 ? 0 : 1];
}

bool CachedStreams::ready(const Stream& stream) const {
  return stream.audio.finished() ||
         stream.audio.received() >= features_.samples_for(chunk_end(stream));
}

const at::Tensor& CachedStreams::encoded(Step& step) {
  if (step.recorded) {
    step.recorded();
    return step.output;
  }
  // The first step is always launched. Libraries then allocate and choose algorithms, which a
  // recording does not allow.
  step.output = (*encoder_)(step.input);
  if (recorder_) {
    const at::Tensor first = step.output;
    step.recorded = recorder_([this, &step] { step.output = (*encoder_)(step.input); });
    step.output.copy_(first);
  }
  return step.output;
}

EncodedPieces CachedStreams::encode(Rows rows, int64_t computed) {
  const StepSizes& sizes = encoder_->sizes();
  const int64_t chunk = sizes.chunk_size[1], before = sizes.pre_encode_cache_size[1];
  const bool pinned = model_->device.is_cuda();
  at::Tensor control = at::zeros({CachedStep::kControlRows, computed},
                                 at::TensorOptions(at::kLong).pinned_memory(pinned));
  control[CachedStep::kSlot].fill_(encoder_->spare_slot());
  auto of = control.accessor<int64_t, 2>();
  EncodedPieces pieces;
  std::vector<StreamFeatures::Block> blocks;
  for (const auto& [number, stream] : rows) {
    const auto row = static_cast<int64_t>(blocks.size());
    const int64_t full = chunk_end(*stream), first = full - chunk;
    const bool finished = stream->audio.finished();
    const int64_t received = model_->config.features.frames(stream->audio.received());
    const int64_t frames = finished ? std::min(received, full) : full;
    blocks.push_back({&stream->audio, first, std::min(received, full)});
    of[CachedStep::kBegin][row] = std::max<int64_t>(0, before - first);
    const int64_t end = frames > stream->done ? frames - first + before : 0;
    of[CachedStep::kEnd][row] = end;
    of[CachedStep::kEncoded][row] = stream->steps * sizes.valid_out_len;
    of[CachedStep::kSlot][row] = stream->slot;
    of[CachedStep::kPrompt][row] = stream->prompt;

    stream->done = full;
    ++stream->steps;
    stream->over = finished && received <= full;
    pieces.streams.push_back(number);
    pieces.lengths.push_back(encoder_->valid_frames(end));
    pieces.last.push_back(stream->over);
  }
  const at::Tensor features = features_(blocks, computed);
  Step& step = steps_[computed];
  if (!step.input.features.defined())
    step.input = {at::empty_like(features),
                  at::empty_like(control, at::TensorOptions(model_->device))};
  step.input.features.copy_(features);
  step.input.control.copy_(control, /*non_blocking=*/true);
  pieces.frames = encoded(step).narrow(0, 0, static_cast<int64_t>(blocks.size())).clone();
  for (const auto& [number, stream] : rows)
    stream->audio.forget(features_.first_sample(stream->done));
  return pieces;
}

}  // namespace

std::unique_ptr<EncoderStreams> make_encoder_streams(std::shared_ptr<const AcousticModel> model,
                                                     const StreamOptions& options) {
  const c10::InferenceMode inference;
  if (options.buffer) return std::make_unique<BufferedStreams>(std::move(model), options);
  return std::make_unique<CachedStreams>(std::move(model), options);
}

}  // namespace rtfx
