#include "models/streaming/encoder_streams.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace rtfx {
namespace {

constexpr int64_t kMostStreams = 65536;

std::string name_of(int64_t stream) { return fmt::format("stream {}", stream); }

}  // namespace

at::Tensor EncodedPieces::row(size_t row) const {
  return frames[static_cast<int64_t>(row)].narrow(0, 0, lengths[row]);
}

EncoderStreams::EncoderStreams(const StreamOptions& options, std::string where)
    : where_(std::move(where)), rows_(options.rows > 0 ? options.rows : options.streams) {
  if (options.streams < 1 || options.streams > kMostStreams)
    throw UserError(where_, fmt::format("{} streams", options.streams),
                    fmt::format("1 to {} are possible", kMostStreams));
  if (options.rows < 0 || options.rows > options.streams)
    throw UserError(where_, fmt::format("{} rows for {} streams", options.rows, options.streams),
                    "give no more rows than streams, or 0 for as many");
  for (int64_t slot = options.streams; slot-- > 0;) free_slots_.push_back(slot);
}

int64_t EncoderStreams::open() {
  if (free_slots_.empty())
    throw UserError(where_, fmt::format("all {} streams are open", streams_.size()),
                    "close one, or ask for more streams");
  Stream stream;
  stream.slot = free_slots_.back();
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

void EncoderStreams::check(int64_t stream, std::span<const float> samples) {
  if (find(stream).audio.finished())
    throw UserError(name_of(stream), "samples behind its end", "open a new stream for them");
  if (!std::all_of(samples.begin(), samples.end(), [](float x) { return std::isfinite(x); }))
    throw UserError(name_of(stream), "a sample is NaN or infinite",
                    "give samples between -1 and 1; none of these were taken");
}

void EncoderStreams::push(int64_t stream, std::span<const float> samples) {
  check(stream, samples);
  find(stream).audio.push(samples);
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

EncodedPieces EncoderStreams::step() {
  std::vector<std::pair<int64_t, Stream*>> rows;
  const auto take = [&](auto begin, auto end) {
    for (; begin != end && static_cast<int64_t>(rows.size()) < rows_; ++begin) {
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
  return encode(rows);
}

}  // namespace rtfx
