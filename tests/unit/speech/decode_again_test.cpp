// Tests the pieces of a part that is decoded again, and which of its results is kept.
#include "speech/long_audio/decode_again.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "models/load_checkpoint.h"

namespace rtfx {
namespace {

constexpr size_t kBlock = 1280;
constexpr WordlessRule kRule{.block_seconds = 0.08, .shortest = 4, .whole = true};

class DecodeAgainCutsTest : public testing::Test {
 protected:
  static const Tokenizer& tokenizer() {
    static const Checkpoint kCheckpoint = load_checkpoint("models/quickstart/quickstart-rnnt.nemo");
    return *kCheckpoint.tokenizer;
  }

  /// Returns syllables of three blocks, each followed by a quiet block.
  static std::vector<float> speech(size_t blocks) {
    std::vector<float> samples(blocks * kBlock);
    for (size_t i = 0; i < samples.size(); ++i) {
      samples[i] = std::sin(static_cast<float>(i) * 0.06F) * 0.1F;
      if (i / kBlock % 4 == 3) samples[i] *= 1e-3F;
    }
    return samples;
  }

  static DecodeAgain plan(const std::vector<float>& samples, size_t before,
                          const std::vector<size_t>& tokens) {
    std::vector<float> levels = block_levels(std::span(samples).subspan(before * kBlock), kBlock);
    LevelHistogram heard;
    heard.add(levels);
    return {{samples, kBlock, before}, std::move(levels), heard, tokens, kRule, tokenizer()};
  }

  /// Returns `words` words, ten frames apart from frame `from` on, each with this confidence.
  static FoundTokens words(int words, int from, double confidence = 0.9) {
    FoundTokens found;
    for (int i = 0; i < words; ++i) {
      found.hypothesis.tokens.push_back(7);  // "the", with a space before it
      found.hypothesis.frames.push_back(from + 10 * i);
      found.judged.push_back(confidence);
    }
    found.hypothesis.score = -1;
    return found;
  }
};

TEST_F(DecodeAgainCutsTest, PiecesCoverThePartWithContextsAndSilence) {
  for (const size_t before : {0U, 5U}) {
    const std::vector<float> samples = speech(300 + before);
    DecodeAgain again = plan(samples, before, {});
    ASSERT_EQ(again.parts().size(), 1U);
    const BlockRange part = again.parts()[0].blocks;
    EXPECT_EQ(part, (BlockRange{0, 300}));
    for (const size_t most : {125U, 63U}) {
      const std::vector<AgainPiece> pieces = again.next();
      EXPECT_TRUE(again.next().empty()) << "until they are decoded";
      EXPECT_FALSE(again.done());
      const int64_t context = most == 125 ? 13 : 6;
      size_t next = 0;
      for (const AgainPiece& piece : pieces) {
        EXPECT_EQ(piece.own.begin, next);
        next = piece.own.end;
        EXPECT_LE(piece.own.size(), most);
        EXPECT_EQ(piece.context, context);
        ASSERT_EQ(piece.samples.size(),
                  (piece.own.size() + 2 * static_cast<size_t>(context)) * kBlock);
        for (size_t i = 0; i < piece.samples.size(); i += 777) {
          const auto at =
              static_cast<int64_t>((before + piece.own.begin) * kBlock + i) - context * 1280;
          const bool there = at >= 0 && at < std::ssize(samples);
          EXPECT_EQ(piece.samples[i], there ? samples[static_cast<size_t>(at)] : 0) << i;
        }
      }
      EXPECT_EQ(next, part.end);
      for (const AgainPiece& piece : pieces) again.take(piece, {});
    }
    EXPECT_TRUE(again.done());
    EXPECT_TRUE(again.next().empty()) << "not a third time";
    EXPECT_EQ(again.parts()[0].decodes, 2);
    EXPECT_EQ(again.parts()[0].words, 0);
  }
}

TEST_F(DecodeAgainCutsTest, MoreWordsWithConfidenceAreKept) {
  struct Case {
    const char* name;
    FoundTokens first, second;
    int64_t words;
    int decodes;
    int32_t at;  // frame of the first word
  };
  const std::vector<Case> cases = {
      {"enough at once", words(9, 3), {}, 9, 1, 3},
      {"more by the second cut", words(2, 3), words(3, 5), 3, 2, 5},
      {"the first of equals", words(2, 3), words(2, 5), 2, 2, 3},
      {"not confident", words(9, 3, 0.05), words(2, 5), 2, 2, 5},
      {"neither is", words(9, 3, 0.05), words(9, 5, 0.01), 0, 2, -1},
      {"words of the context alone", words(1, -8), words(1, 99), 0, 2, -1},
  };
  for (const Case& c : cases) {
    const std::vector<float> samples = speech(90);  // 7.2 s
    DecodeAgain again = plan(samples, 0, {});
    for (const FoundTokens* found : {&c.first, &c.second}) {
      const std::vector<AgainPiece> pieces = again.next();
      for (const AgainPiece& piece : pieces)
        again.take(piece, piece.number == 0 ? *found : FoundTokens());
    }
    EXPECT_TRUE(again.done()) << c.name;
    const AgainPart& part = again.parts()[0];
    EXPECT_EQ(part.words, c.words) << c.name;
    EXPECT_EQ(part.decodes, c.decodes) << c.name;
    EXPECT_EQ(part.found.hypothesis.frames.empty() ? -1 : part.found.hypothesis.frames[0], c.at)
        << c.name;
  }
}

TEST_F(DecodeAgainCutsTest, PiecesMayComeInAnyOrder) {
  const std::vector<float> samples = speech(300);
  DecodeAgain again = plan(samples, 0, {});
  std::vector<AgainPiece> pieces = again.next();
  ASSERT_GE(pieces.size(), 3U);
  std::ranges::reverse(pieces);
  for (const AgainPiece& piece : pieces) again.take(piece, words(4, 1));
  const std::vector<int32_t>& frames = again.parts()[0].found.hypothesis.frames;
  EXPECT_EQ(frames.size(), 4 * pieces.size());
  EXPECT_TRUE(std::ranges::is_sorted(frames));
  EXPECT_EQ(again.parts()[0].words, std::ssize(frames));
}

TEST_F(DecodeAgainCutsTest, TokensArePutWhereThePartIs) {
  AgainPart part{{{50, 100}, 2, 1}, {}};
  part.found.hypothesis = {.tokens = {3, 4}, .frames = {60, 70}, .durations = {1, 2}, .score = -2};
  part.found.evidence = {{5, 6}, {0.5, 0.6}};
  part.found.hypothesis.words = {{"b", 60}, {"c", 70}};
  Hypothesis to{.tokens = {1, 2}, .frames = {40, 100}, .durations = {1, 1}, .score = -1};
  to.words = {{"a", 40}, {"d", 100}};
  const Hypothesis before = to;
  TokenEvidence evidence{{7, 8}, {0.7, 0.8}};
  insert_part(part, to, evidence);
  EXPECT_EQ(to.tokens, (std::vector<int32_t>{1, 3, 4, 2}));
  EXPECT_EQ(to.frames, (std::vector<int32_t>{40, 60, 70, 100}));
  EXPECT_EQ(to.durations, (std::vector<int32_t>{1, 1, 2, 1}));
  EXPECT_EQ(evidence.runs, (std::vector<int32_t>{7, 5, 6, 8}));
  EXPECT_EQ(evidence.confidence, (std::vector<double>{0.7, 0.5, 0.6, 0.8}));
  EXPECT_FLOAT_EQ(to.score, -3);
  EXPECT_EQ(to.words->at(1).text + to.words->at(2).text + to.words->at(3).text, "bcd");
  // A hypothesis with a token in the part stays as it is.
  const Hypothesis with = to;
  insert_part(part, to, evidence);
  EXPECT_EQ(to, with);
  // A hypothesis without a token takes the part's evidence. One without confidences gets none.
  Hypothesis none;
  TokenEvidence no_evidence;
  insert_part(part, none, no_evidence);
  EXPECT_EQ(none.tokens, part.found.hypothesis.tokens);
  EXPECT_EQ(no_evidence.confidence, part.found.evidence.confidence);
  Hypothesis other = before;
  TokenEvidence runs_alone{{7, 8}, {}};
  insert_part(part, other, runs_alone);
  EXPECT_EQ(runs_alone.runs.size(), 4U);
  EXPECT_TRUE(runs_alone.confidence.empty());
}

}  // namespace
}  // namespace rtfx
