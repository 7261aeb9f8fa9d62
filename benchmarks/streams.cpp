// Pushes pieces of 1, 7 and 14 frames of 1, 16 and 64 streams at once through label_looping. On a
// GPU it also pushes pieces of 1 and 14 frames of 256 and 1024 streams through fused_looping. It
// reports frames/s of all streams, and tokens that a frame has.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "algorithms/decoder.h"
#include "benchmarks/microbench.h"

namespace rtfx::microbench {
namespace {

void push(benchmark::State& state, const Place& place, const char* name, int64_t count,
          int64_t frames) {
  const auto decoder = make_decoder(name, {{"max_symbols", 1}}, "streams");
  decoder->prepare(transducer(place), {});
  const auto streams = decoder->streams({count, frames});
  // Pushes the pieces of utterances of some length, from the first to the last, over and over.
  const int64_t pieces = kUtteranceFrames / frames;
  const at::Tensor projected = streams->project(random_frames(place, count, pieces * frames));
  const std::vector<int64_t> lengths(static_cast<size_t>(count), frames);
  std::vector<int64_t> open;
  for (int64_t i = 0; i < count; ++i) open.push_back(streams->open());
  int64_t piece = 0, pushed = 0;
  const auto next = [&] {
    streams->push(open, {projected.narrow(1, piece * frames, frames).contiguous(), {}, lengths});
    piece = (piece + 1) % pieces;
    ++pushed;
  };
  next();
  for (auto _ : state) next();
  size_t tokens = 0;
  for (const int64_t stream : open) tokens += streams->finish(stream).tokens.size();
  rate(state, "frames/s", static_cast<double>(count * frames));
  state.counters["tokens_per_frame"] =
      static_cast<double>(tokens) / static_cast<double>(pushed * count * frames);
}

}  // namespace

void add_streams() {
  for (const Place& place : places()) {
    for (const int64_t count : {1, 16, 64}) {
      for (const int64_t frames : {1, 7, 14}) {
        add(fmt::format("streams/push/{}/{}streams/{}frames", place.name, count, frames),
            [&place, count, frames](benchmark::State& s) {
              push(s, place, "label_looping", count, frames);
            });
      }
    }
  }
  if (gpu() == nullptr) return;
  for (const int64_t count : {256, 1024}) {
    for (const int64_t frames : {1, 14}) {
      add(fmt::format("streams/push_fused/{}/{}streams/{}frames", gpu()->name, count, frames),
          [count, frames](benchmark::State& s) {
            push(s, *gpu(), "fused_looping", count, frames);
          });
    }
  }
}

}  // namespace rtfx::microbench
