#include "speech/streams/speech_streams.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.h"
#include "models/streaming/encoder_streams.h"
#include "speech/pipeline/recorded_encoder.h"
#include "speech/runtime/device.h"

namespace rtfx {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

std::unique_ptr<Streams> open_search(Decoder& decoder, const StreamLimits& limits) {
  auto search = decoder.streams(limits);
  if (search == nullptr) {
    throw UserError(decoder.describe().name, "takes no utterances in pieces",
                    "choose another decoder, for example label_looping or ctc_greedy");
  }
  return search;
}

SpeechStreams::SpeechStreams(std::shared_ptr<const AcousticModel> model, Decoder& decoder,
                             const StreamOptions& encoder, int64_t silence)
    : model_(std::move(model)), silence_(silence) {
  StreamOptions options = encoder;
  if (model_->device.is_cuda()) options.recorder = record_step;
  encoder_ = make_encoder_streams(model_, options);
  const int64_t rows = encoder.rows > 0 ? encoder.rows : encoder.streams;
  search_ = open_search(decoder, {rows, std::max<int64_t>(1, encoder_->most_frames())});
}

int64_t SpeechStreams::open(std::optional<int64_t> prompt) {
  const int64_t stream = encoder_->open(prompt);
  streams_.emplace(stream, Stream{search_->open()});
  return stream;
}

void SpeechStreams::close(int64_t stream) {
  encoder_->close(stream);
  search_->close(streams_.at(stream).search);
  streams_.erase(stream);
}

void SpeechStreams::set_bias(int64_t stream, std::shared_ptr<const CompiledBias> bias) {
  search_->set_bias(streams_.at(stream).search, std::move(bias));
}

PartialResult SpeechStreams::partial(int64_t stream) {
  return search_->partial(streams_.at(stream).search);
}

std::vector<SpeechUpdate> SpeechStreams::step(bool partial) {
  const auto begin = Clock::now();
  const EncodedPieces pieces = encoder_->step();
  if (pieces.empty()) return {};
  synchronize(model_->device);
  const auto encoded = Clock::now();
  std::vector<int64_t> numbers;
  for (const int64_t stream : pieces.streams) numbers.push_back(streams_.at(stream).search);
  const at::Tensor projected = search_->project(pieces.frames.to(model_->dtype));
  if (silence_ == 0) search_->push(numbers, {projected, {}, pieces.lengths});
  std::vector<SpeechUpdate> updates;
  for (size_t row = 0; row < pieces.streams.size(); ++row) {
    const int64_t number = pieces.streams[row];
    if (silence_ > 0) {
      search_with_pauses(
          number,
          projected.narrow(0, static_cast<int64_t>(row), 1).narrow(1, 0, pieces.lengths[row]),
          pieces.last[row], updates);
    } else {
      Stream& stream = streams_.at(number);
      stream.frames += pieces.lengths[row];
      updates.push_back(update(number, stream, pieces.last[row], partial));
    }
    if (!pieces.last[row]) continue;
    encoder_->close(number);
    streams_.erase(number);
  }
  encoder_seconds_ += std::chrono::duration<double>(encoded - begin).count();
  search_seconds_ += seconds_since(encoded);
  return updates;
}

void SpeechStreams::search_with_pauses(int64_t number, const at::Tensor& frames, bool last,
                                       std::vector<SpeechUpdate>& updates) {
  Stream& stream = streams_.at(number);
  int64_t done = 0, left = frames.size(1);
  do {
    // No pause is complete before this many frames, since a token may still come in each of them.
    const int64_t from = stream.last_end < 0 ? stream.frames + 1 : stream.last_end;
    const int64_t count = std::min(left, std::max<int64_t>(1, from + silence_ - stream.frames));
    if (count > 0) {  // A stream's end may come without a frame.
      const at::Tensor piece = frames.narrow(1, done, count).contiguous();
      search_->push({&stream.search, 1}, {piece, {}, {count}});
    }
    stream.frames += count;
    done += count;
    left -= count;
    SpeechUpdate found = update(number, stream, last && left == 0, true);
    if (found.ended || left == 0) updates.push_back(std::move(found));
  } while (left > 0);
}

int64_t end_of(const Hypothesis& h) {
  if (h.tokens.empty()) return -1;
  const int64_t last = h.frames.back();
  return last + (h.durations.empty() ? 1 : std::max(1, h.durations.back()));
}

SpeechUpdate SpeechStreams::update(int64_t number, Stream& stream, bool last, bool partial) {
  SpeechUpdate update{number, last, last, stream.first, stream.frames, {}};
  if (!last && (partial || silence_ > 0)) {
    update.result = search_->partial(stream.search);
    stream.last_end = end_of(update.result.best);
    update.ended =
        silence_ > 0 && stream.last_end >= 0 && stream.frames - stream.last_end >= silence_;
  }
  if (!update.ended) return update;
  update.result.best = search_->finish(stream.search);
  update.result.stable = static_cast<int64_t>(update.result.best.tokens.size());
  if (!last) stream = {search_->open(), stream.first + stream.frames};
  return update;
}

}  // namespace rtfx
