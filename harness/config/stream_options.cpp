#include "harness/config/stream_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"

namespace rtfx {

const OptionTable<StreamOptions>& stream_keys() {
  constexpr int64_t kMost = 1 << 20;
  constexpr double kLongest = 1e6;
  static const OptionTable<StreamOptions> keys{
      {list_option("streams", &StreamOptions::streams, "numbers of streams at a time, a case each",
                   JsonView::range_text(int64_t{1}, kMost),
                   [](const JsonView& v) { return v.integer(1, kMost); }),
       option("period_ms", &StreamOptions::period_ms,
              "between the requests of a stream: so much new audio in each", 1, kLongest),
       option("chunk_ms", &StreamOptions::chunk_ms,
              "audio in a request; what is more than the period is right context of the encoder", 1,
              kLongest)
           .by_default("the period"),
       option("arrivals", &StreamOptions::arrivals,
              "how requests come; `poisson`: at random, once in a period on the average",
              {"constant", "poisson"}),
       option("max_batch", &StreamOptions::max_batch, "a batch begins with so many requests,", 1,
              kMost),
       option("max_wait_ms", &StreamOptions::max_wait_ms,
              "or when the oldest of them has waited so long", 0, kLongest),
       option("seconds", &StreamOptions::seconds, "how long requests arrive", 0.1, kLongest),
       option("discard", &StreamOptions::discard,
              "share of these seconds, from the start, that is not measured", 0, 0.9),
       option("partial", &StreamOptions::partial, "with the text so far after every request")},
      "key"};
  return keys;
}

StreamOptions read_stream_options(const JsonView& view) {
  StreamOptions o = stream_keys().fill(view);
  std::set<int64_t> seen;
  for (const int64_t count : o.streams) {
    if (!seen.insert(count).second) {
      throw UserError(view.where() + "/streams", fmt::format("{} is there twice", count),
                      "give each number of streams once");
    }
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

std::vector<int64_t> request_ends(const StreamOptions& options, int64_t frames,
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

}  // namespace rtfx
