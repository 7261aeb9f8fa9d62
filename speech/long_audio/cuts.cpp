#include "speech/long_audio/cuts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace rtfx {
namespace {

constexpr float kSilence = -100;

float loud_level(std::span<const float> levels) {
  std::vector<float> sorted(levels.begin(), levels.end());
  const auto at = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() * 95 / 100);
  std::ranges::nth_element(sorted, at);
  return *at;
}

}  // namespace

std::vector<float> block_levels(std::span<const float> samples, size_t block) {
  std::vector<float> levels;
  for (size_t begin = 0; begin < samples.size(); begin += block) {
    const auto part = samples.subspan(begin, std::min(block, samples.size() - begin));
    // Not a loop over one sum, whose every addition waits for the one before.
    const double energy = std::transform_reduce(part.begin(), part.end(), 0.0, std::plus<>(),
                                                [](float x) { return static_cast<double>(x) * x; });
    const double mean = energy / static_cast<double>(part.size());
    levels.push_back(mean > 0 ? std::max(kSilence, static_cast<float>(10 * std::log10(mean)))
                              : kSilence);
  }
  return levels;
}

Cut best_cut(std::span<const float> levels, size_t earliest, size_t latest, float depth) {
  const auto level = [&](size_t i) { return levels[std::min(i, levels.size() - 1)]; };
  const auto sum = [&](size_t i) { return level(i - 1) + level(i) + level(i + 1); };
  Cut cut{latest, false};
  for (size_t i = latest; i-- > earliest;)
    if (sum(i) < sum(cut.block)) cut.block = i;
  const float bound = loud_level(levels) - depth;
  cut.pause =
      level(cut.block - 1) < bound && level(cut.block) < bound && level(cut.block + 1) < bound;
  return cut;
}

std::vector<BlockRange> silent_runs(std::span<const float> levels,
                                    std::span<const size_t> token_blocks, size_t shortest,
                                    float depth) {
  std::vector<BlockRange> runs;
  if (levels.empty()) return runs;
  const float bound = loud_level(levels) - depth;
  const auto look_at = [&](size_t begin, size_t end) {
    if (end < begin + shortest) return;
    const auto loud = std::ranges::count_if(levels.subspan(begin, end - begin),
                                            [&](float level) { return level >= bound; });
    if (2 * static_cast<size_t>(loud) >= end - begin) runs.push_back({begin, end});
  };
  size_t begin = 0;
  for (const size_t token : token_blocks) {
    look_at(begin, std::min(token, levels.size()));
    begin = token + 1;
  }
  look_at(begin, levels.size());
  return runs;
}

}  // namespace rtfx
