#include "harness/config/stream_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"

namespace rtfx {

const OptionTable<StreamSettings>& stream_keys() {
  constexpr int64_t kMost = 1 << 20;
  constexpr double kLongest = 1e6;
  static const OptionTable<StreamSettings> keys{
      {list_option("streams", &StreamSettings::streams, "numbers of streams at a time, a case each",
                   JsonView::range_text(int64_t{1}, kMost),
                   [](const JsonView& v) { return v.integer(1, kMost); }),
       option("period_ms", &StreamSettings::period_ms,
              "between the requests of a stream: so much new audio in each", 1, kLongest),
       option("chunk_ms", &StreamSettings::chunk_ms,
              "audio in a request; what is more than the period is right context of the encoder", 1,
              kLongest)
           .by_default("the period"),
       option("arrivals", &StreamSettings::arrivals,
              "how requests come; `poisson`: at random, once in a period on the average",
              {"constant", "poisson"}),
       option("max_batch", &StreamSettings::max_batch, "a batch begins with so many requests,", 1,
              kMost),
       option("max_wait_ms", &StreamSettings::max_wait_ms,
              "or when the oldest of them has waited so long", 0, kLongest),
       option("seconds", &StreamSettings::seconds, "how long requests arrive", 0.1, kLongest),
       option("discard", &StreamSettings::discard,
              "share of these seconds, from the start, that is not measured", 0, 0.9),
       option("partial", &StreamSettings::partial, "with the text so far after every request"),
       option("scope", &StreamSettings::scope,
              "what a request costs: the search of frames that are there, or all from samples on",
              {"search", "speech"}),
       list_option("buffer", &StreamSettings::buffer,
                   "`speech`, by encoders without caches: seconds of a chunk, before and behind it",
                   "a number 0..3600", [](const JsonView& v) { return v.number(0, 3600); }),
       option(
           "slo_ms", &StreamSettings::slo_ms,
           "not 0: the most streams are looked for, from the first of `streams` on, of which the "
           "99th percentile of latencies is within it",
           0, kLongest)},
      "key"};
  return keys;
}

StreamSettings read_stream_settings(const JsonView& view) {
  StreamSettings o = stream_keys().fill(view);
  std::set<int64_t> seen;
  for (const int64_t count : o.streams) {
    if (!seen.insert(count).second) {
      throw UserError(view.where() + "/streams", fmt::format("{} is there twice", count),
                      "give each number of streams once");
    }
  }
  if (o.buffer.size() != 3) {
    throw UserError(view.where() + "/buffer", fmt::format("has {} numbers", o.buffer.size()),
                    "give three: seconds of a chunk, before it and behind it");
  }
  if (const auto chunk = view.find("chunk_ms")) {
    chunk->number(o.period_ms, 1e6);
  } else {
    o.chunk_ms = o.period_ms;
  }
  if (o.seconds * (1 - o.discard) < 2 * o.period_ms / 1000) {
    throw UserError(view.where() + "/seconds",
                    fmt::format("{} s leave less than two periods to measure", o.seconds),
                    "give more seconds, or discard less");
  }
  return o;
}

std::vector<int64_t> request_ends(const StreamSettings& options, int64_t frames,
                                  double frame_seconds, double seconds) {
  constexpr double kRounding = 1e-9;
  const double period = options.period_ms / 1000, chunk = options.chunk_ms / 1000;
  const double more = std::ceil((seconds - chunk) / period - kRounding);
  std::vector<int64_t> ends;
  for (int64_t i = 1; i <= static_cast<int64_t>(more); ++i) {
    const double end = std::floor(static_cast<double>(i) * period / frame_seconds + kRounding);
    ends.push_back(std::min(frames, static_cast<int64_t>(end)));
  }
  ends.push_back(frames);
  return ends;
}

int64_t largest_request(const StreamSettings& options, double frame_seconds) {
  return std::max<int64_t>(
      1, static_cast<int64_t>(std::ceil(options.period_ms / 1000 / frame_seconds)));
}

}  // namespace rtfx
