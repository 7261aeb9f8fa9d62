#include "speech/long_audio/chunks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <random>
#include <stdexcept>

namespace rtfx {
namespace {

/// Chunks lie one behind the other, each with its own levels and the samples around it. This holds
/// for any number of chunks at a time, and for any number of reading threads.
TEST(ChunkReader, ChunksAreTheAudioCutOnce) {
  constexpr size_t kBlock = 10, kMost = 9, kContext = 3;
  std::mt19937 random(2);
  for (const size_t count : {0, 1, 9, 10, 90, 91, 900, 4321}) {
    std::vector<float> audio(count);
    for (size_t i = 0; i < count; ++i)
      audio[i] = std::sin(static_cast<float>(i / 70)) * static_cast<float>(random() % 100);
    std::vector<AudioChunk> first;
    for (const size_t at_a_time : {1, 2, 7, 100}) {
      ChunkReader reader(
          source_of(audio, at_a_time == 2 ? 3 : 1),
          {kBlock, kMost, kContext, [](int64_t samples) { return (samples + 9) / 10; }});
      std::vector<AudioChunk> all;
      for (auto some = reader.next(at_a_time); !some.empty(); some = reader.next(at_a_time)) {
        EXPECT_LE(some.size(), at_a_time);
        std::ranges::move(some, std::back_inserter(all));
      }
      EXPECT_EQ(reader.samples(), static_cast<int64_t>(count));
      size_t next = 0;
      for (const AudioChunk& chunk : all) {
        const size_t begin = next * kBlock, blocks = static_cast<size_t>(chunk.frames);
        EXPECT_EQ(static_cast<size_t>(chunk.first), next);
        next += blocks;
        EXPECT_LE(blocks, kMost);
        EXPECT_GE(blocks, next * kBlock < count ? kMost / 2 : 1);
        const size_t from = begin - std::min(begin, kContext * kBlock);
        const size_t to = std::min(count, (next + kContext) * kBlock);
        EXPECT_EQ(chunk.left, static_cast<int64_t>((begin - from) / kBlock));
        const auto samples = std::span(audio).subspan(from, to - from);
        EXPECT_TRUE(std::ranges::equal(chunk.samples, samples));
        const auto own = std::span(audio).subspan(begin, std::min(count, next * kBlock) - begin);
        EXPECT_EQ(chunk.levels, block_levels(own, kBlock));
      }
      EXPECT_EQ(next, (count + kBlock - 1) / kBlock);
      if (first.empty()) first = all;
      ASSERT_EQ(all.size(), first.size());
      for (size_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(all[i].first, first[i].first) << at_a_time;
        EXPECT_EQ(all[i].behind_pause, first[i].behind_pause) << at_a_time;
      }
    }
  }
}

/// A thread's error comes in its turn, and the chunks before it are whole.
TEST(ChunkReader, ThrowsWhatReadingThrows) {
  const std::vector<float> audio(1000, 0.5F);
  const ChunkSource whole = source_of(audio, 4);
  ChunkReader reader({[&](size_t first, size_t count) {
                        if (first >= 360) throw std::runtime_error("a bad sector");
                        return whole.read(first, count);
                      },
                      4},
                     {10, 9, 3, [](int64_t samples) { return samples / 10; }});
  EXPECT_EQ(reader.next(2).size(), 2U);
  EXPECT_THROW(reader.next(100), std::runtime_error);
}

}  // namespace
}  // namespace rtfx
