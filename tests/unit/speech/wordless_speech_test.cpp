// Tests which sounds count as speech, and where speech has no words, on made-up recordings and
// tokens.
#include "speech/pipeline/wordless_speech.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

namespace rtfx {
namespace {

constexpr size_t kBlock = 1280;  // samples at 16 kHz: 80 ms
constexpr WordlessRule kRule{.block_seconds = 0.08};

std::vector<float> noise(double seconds, double level, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, static_cast<float>(std::pow(10, level / 20)));
  std::vector<float> samples(static_cast<size_t>(seconds * 16000));
  for (float& x : samples) x = normal(random);
  return samples;
}

/// Returns a harmonic sound of `level` dB in syllables of 0.24 s with gaps of 0.16 s, over room
/// tone. So each gap has a block without sound, wherever the blocks begin.
std::vector<float> speech(double seconds, double level) {
  std::vector<float> samples = noise(seconds, -70, 2);
  for (size_t i = 0; i < samples.size(); ++i) {
    if (i / kBlock % 5 >= 3) continue;
    const double t = static_cast<double>(i) / 16000;
    samples[i] += static_cast<float>(std::pow(10, level / 20) *
                                     std::sin(2 * std::numbers::pi * 150 * t) * std::sqrt(2));
  }
  return samples;
}

std::vector<float> joined(const std::vector<std::vector<float>>& parts) {
  std::vector<float> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::vector<BlockRange> found_in(const std::vector<float>& samples,
                                 const std::vector<size_t>& tokens, bool whole = true) {
  const std::vector<float> levels = block_levels(samples, kBlock);
  LevelHistogram heard;
  heard.add(levels);
  WordlessRule rule = kRule;
  rule.whole = whole;
  return wordless_speech(levels, heard, tokens, rule);
}

TEST(WordlessSpeech, LevelsAreInDecibels) {
  const std::vector<float> samples = {1, -1, 1, -1, 0.1F, 0.1F, 0.1F, 0.1F, 0, 0, 0, 0, 0.5F};
  const auto levels = block_levels(samples, 4);
  ASSERT_EQ(levels.size(), 4U);
  EXPECT_FLOAT_EQ(levels[0], 0);
  EXPECT_NEAR(levels[1], -20, 1e-4);
  EXPECT_FLOAT_EQ(levels[2], -100);
  EXPECT_NEAR(levels[3], -6.0206, 1e-3);  // a shorter block
}

TEST(WordlessSpeech, QuantilesOfLevels) {
  LevelHistogram heard;
  EXPECT_FLOAT_EQ(heard.quantile(0.5), -100);
  std::vector<float> levels;
  for (int i = 0; i < 100; ++i) levels.push_back(static_cast<float>(-100 + i));
  heard.add(std::span(levels).first(60));
  heard.add(std::span(levels).subspan(60));
  EXPECT_FLOAT_EQ(heard.quantile(0.1), -90);
  EXPECT_FLOAT_EQ(heard.quantile(0.95), -5);
  const std::vector<float> beyond = {40, -1000};
  heard.add(beyond);
  EXPECT_FLOAT_EQ(heard.quantile(0), -100);
}

TEST(WordlessSpeech, OnlySpeechWithoutATokenIsFound) {
  const std::vector<float> pause = noise(2, -70, 3);
  const auto samples = joined({speech(4, -25), pause, speech(10, -25), pause, speech(4, -25)});
  std::vector<size_t> words;
  for (size_t block = 0; block < 50; block += 5) words.push_back(block);
  for (size_t block = 225; block < 275; block += 5) words.push_back(block);
  const auto found = found_in(samples, words);
  ASSERT_EQ(found.size(), 1U);
  // The run without tokens is from 3.7 s to 18 s, and speech goes on at its begin.
  EXPECT_EQ(found[0].begin, 46U);
  EXPECT_NEAR(static_cast<double>(found[0].end), 206, 2);
  std::vector<size_t> all = words;
  for (size_t block = 75; block < 200; block += 20) all.push_back(block);
  std::ranges::sort(all);
  EXPECT_TRUE(found_in(samples, all).empty());
}

/// Nine phrases of 1.2 s come in 54 s, 21 dB above the noise floor.
TEST(WordlessSpeech, SparseSoftPhrasesAreFound) {
  std::vector<std::vector<float>> parts = {noise(3, -55)};
  for (uint32_t i = 0; i < 9; ++i) {
    parts.push_back(speech(1.2, -34));
    parts.push_back(noise(4.8, -55, i));
  }
  EXPECT_EQ(found_in(joined(parts), {0}).size(), 1U);
}

TEST(WordlessSpeech, QuietIsNoSpeechAtAnyLevel) {
  EXPECT_TRUE(found_in(std::vector<float>(480000), {}).empty()) << "digital silence";
  for (const double level : {-80., -60., -40., -20., -3.})
    EXPECT_TRUE(found_in(noise(30, level), {}).empty()) << "steady noise, dB: " << level;
  EXPECT_TRUE(found_in(joined({noise(15, -75), noise(15, -45)}), {}).empty()) << "a fan starts";
  EXPECT_TRUE(found_in(joined({std::vector<float>(160000), noise(20, -60)}), {}).empty())
      << "room tone behind digital silence";
  std::vector<float> hum = noise(30, -75);
  for (size_t i = 0; i < hum.size(); ++i)
    hum[i] += 0.02F * std::sin(static_cast<float>(i) * 2 * std::numbers::pi_v<float> * 50 / 16000);
  EXPECT_TRUE(found_in(hum, {}).empty()) << "mains hum";
  // After four seconds with words, a room has only two coughs.
  std::vector<size_t> words;
  for (size_t block = 0; block < 50; block += 5) words.push_back(block);
  const auto room = joined({speech(4, -25), noise(10, -65), speech(0.4, -20), noise(10, -65),
                            speech(0.4, -20), noise(5, -65)});
  EXPECT_TRUE(found_in(room, words).empty());
}

TEST(WordlessSpeech, AWholeRecordingWithoutATokenMayBeShort) {
  const auto clip = joined({noise(0.5, -70), speech(2.5, -25), noise(0.5, -70)});
  ASSERT_EQ(found_in(clip, {}).size(), 1U);
  EXPECT_TRUE(found_in(clip, {}, /*whole=*/false).empty());
  EXPECT_TRUE(found_in(clip, {20}).empty());
  EXPECT_TRUE(found_in(noise(3, -30), {}).empty());
  EXPECT_TRUE(found_in({}, {}).empty());
}

TEST(WordlessSpeech, TokensAloneTellWhetherThereIsARun) {
  WordlessRule rule = kRule;
  const std::vector<size_t> tokens = {2, 3, 110, 111};
  EXPECT_TRUE(has_wordless_run(120, tokens, rule));  // 106 blocks between 3 and 110
  rule.shortest = 8.6;
  EXPECT_FALSE(has_wordless_run(120, tokens, rule));
  EXPECT_FALSE(has_wordless_run(30, {}, rule));
  rule.whole = true;
  EXPECT_TRUE(has_wordless_run(30, {}, rule));
  rule.shortest = 0;
  EXPECT_FALSE(has_wordless_run(30, {}, rule)) << "switched off";
}

}  // namespace
}  // namespace rtfx
