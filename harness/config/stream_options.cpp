#include "harness/config/stream_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"

namespace rtfx {

nlohmann::json StreamOptions::resolved() const {
  return {{"streams", streams},   {"period_ms", period_ms}, {"chunk_ms", chunk_ms},
          {"arrivals", arrivals}, {"max_batch", max_batch}, {"max_wait_ms", max_wait_ms},
          {"seconds", seconds},   {"discard", discard},     {"partial", partial}};
}

StreamOptions read_stream_options(const JsonView& view) {
  StreamOptions o;
  std::vector<std::string> names;
  const nlohmann::json defaults = o.resolved();
  for (const auto& [name, value] : defaults.items()) names.push_back(name);
  view.check_keys(names);
  if (const auto v = view.find("streams")) {
    o.streams.clear();
    std::set<int64_t> seen;
    for (const JsonView& count : v->elements()) {
      o.streams.push_back(count.integer(1, 1 << 20));
      if (!seen.insert(o.streams.back()).second)
        throw UserError(count.where(), "is there twice", "give each number of streams once");
    }
  }
  if (const auto v = view.find("period_ms")) o.period_ms = v->number(1, 1e6);
  o.chunk_ms = o.period_ms;
  if (const auto v = view.find("chunk_ms")) o.chunk_ms = v->number(o.period_ms, 1e6);
  if (const auto v = view.find("arrivals")) o.arrivals = v->choice({"constant", "poisson"});
  if (const auto v = view.find("max_batch")) o.max_batch = v->integer(1, 1 << 20);
  if (const auto v = view.find("max_wait_ms")) o.max_wait_ms = v->number(0, 1e6);
  if (const auto v = view.find("seconds")) o.seconds = v->number(0.1, 1e6);
  if (const auto v = view.find("discard")) o.discard = v->number(0, 0.9);
  if (const auto v = view.find("partial")) o.partial = v->boolean();
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
