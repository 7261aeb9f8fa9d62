#include "speech/pipeline/wordless_speech.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace rtfx {
namespace {

constexpr float kSilence = -100;
constexpr double kFloorShare = 0.1, kLoudShare = 0.95;
constexpr float kAboveFloor = 10, kBelowLoud = 30, kQuietest = -65;
constexpr float kModulation = 10;
constexpr double kAround = 0.5;  // seconds on either side
constexpr double kLeastSpeech = 1.5, kLeastSpeechOfWhole = 0.5;
constexpr size_t kLeastPart = 10;  // at least one block in ten is speech

size_t blocks_of(double seconds, double block_seconds) {
  return static_cast<size_t>(std::lround(seconds / block_seconds));
}

/// Calls `take` with each run of blocks that have no token.
template <class Take>
void each_run(size_t blocks, std::span<const size_t> token_blocks, const Take& take) {
  size_t begin = 0;
  for (const size_t token : token_blocks) {
    const size_t end = std::min(token, blocks);
    if (end > begin) take(BlockRange{begin, end});
    begin = std::max(begin, token + 1);
  }
  if (blocks > begin) take(BlockRange{begin, blocks});
}

/// Returns the blocks of the shortest run that counts. In a whole recording without a token, any
/// run does.
size_t least_run(std::span<const size_t> token_blocks, const WordlessRule& rule) {
  if (rule.whole && token_blocks.empty()) return 1;
  return static_cast<size_t>(std::ceil(rule.shortest / rule.block_seconds));
}

}  // namespace

std::vector<float> block_levels(std::span<const float> samples, size_t block) {
  std::vector<float> levels;
  for (size_t begin = 0; begin < samples.size(); begin += block) {
    const auto part = samples.subspan(begin, std::min(block, samples.size() - begin));
    // A loop over one sum would wait for the previous addition each time.
    const double energy = std::transform_reduce(part.begin(), part.end(), 0.0, std::plus<>(),
                                                [](float x) { return static_cast<double>(x) * x; });
    const double mean = energy / static_cast<double>(part.size());
    levels.push_back(mean > 0 ? std::max(kSilence, static_cast<float>(10 * std::log10(mean)))
                              : kSilence);
  }
  return levels;
}

void LevelHistogram::add(std::span<const float> levels) {
  for (const float level : levels) {
    const auto bin = static_cast<int64_t>(std::floor(level - kSilence));
    ++counts_[static_cast<size_t>(std::clamp<int64_t>(bin, 0, std::ssize(counts_) - 1))];
  }
  total_ += std::ssize(levels);
}

float LevelHistogram::quantile(double share) const {
  const auto wanted = static_cast<int64_t>(share * static_cast<double>(total_));
  int64_t below = 0;
  for (size_t bin = 0; bin < counts_.size(); ++bin) {
    below += counts_[bin];
    if (below > wanted) return kSilence + static_cast<float>(bin);
  }
  return kSilence;
}

std::vector<bool> speech_blocks(std::span<const float> levels, const LevelHistogram& heard,
                                double block_seconds) {
  const float bound = std::max({heard.quantile(kFloorShare) + kAboveFloor,
                                heard.quantile(kLoudShare) - kBelowLoud, kQuietest});
  const size_t around = blocks_of(kAround, block_seconds);
  std::vector<bool> speech(levels.size());
  for (size_t i = 0; i < levels.size(); ++i) {
    if (levels[i] < bound) continue;
    const size_t first = i - std::min(i, around);
    const size_t last = std::min(levels.size() - 1, i + around);
    const auto before = levels.subspan(first, i + 1 - first);
    const auto behind = levels.subspan(i, last + 1 - i);
    const float loudest = std::max(std::ranges::max(before), std::ranges::max(behind));
    speech[i] = loudest - std::ranges::min(before) >= kModulation &&
                loudest - std::ranges::min(behind) >= kModulation;
  }
  return speech;
}

bool has_wordless_run(size_t blocks, std::span<const size_t> token_blocks,
                      const WordlessRule& rule) {
  if (rule.shortest <= 0) return false;
  const size_t least = least_run(token_blocks, rule);
  bool found = false;
  each_run(blocks, token_blocks, [&](BlockRange run) { found = found || run.size() >= least; });
  return found;
}

std::vector<BlockRange> wordless_speech(std::span<const float> levels, const LevelHistogram& heard,
                                        std::span<const size_t> token_blocks,
                                        const WordlessRule& rule) {
  std::vector<BlockRange> found;
  if (!has_wordless_run(levels.size(), token_blocks, rule)) return found;
  const std::vector<bool> speech = speech_blocks(levels, heard, rule.block_seconds);
  const bool alone = rule.whole && token_blocks.empty();
  const size_t least = blocks_of(alone ? kLeastSpeechOfWhole : kLeastSpeech, rule.block_seconds);
  const size_t around = blocks_of(kAround, rule.block_seconds);
  each_run(levels.size(), token_blocks, [&](BlockRange run) {
    if (run.size() < least_run(token_blocks, rule)) return;
    const auto at = [&](size_t block) { return speech.begin() + static_cast<ptrdiff_t>(block); };
    const auto spoken = static_cast<size_t>(std::count(at(run.begin), at(run.end), true));
    if (spoken < least) return;
    auto first = static_cast<size_t>(std::find(at(run.begin), at(run.end), true) - speech.begin());
    size_t behind = run.end;
    while (!speech[behind - 1]) --behind;
    const BlockRange part{first - std::min(first - run.begin, around),
                          std::min(run.end, behind + around)};
    if (spoken * kLeastPart >= part.size()) found.push_back(part);
  });
  return found;
}

}  // namespace rtfx
