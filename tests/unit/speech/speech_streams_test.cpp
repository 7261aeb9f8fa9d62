// Streams that stay on blank over speech start over and find the words, whatever the pieces are.
#include "speech/streams/speech_streams.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "algorithms/decoder.h"
#include "datasets/audio.h"
#include "models/load_checkpoint.h"
#include "tests/support/long_audio_cases.h"

namespace rtfx {
namespace {

class SpeechStreamsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    model_ = AcousticModel::build(load_checkpoint("models/quickstart/quickstart-rnnt.nemo"),
                                  at::kCPU, at::kFloat);
    cached_ = AcousticModel::build(load_checkpoint("tests/data/checkpoints/tiny_streaming.nemo"),
                                   at::kCPU, at::kFloat);
    for (const Utterance& u : test::quickstart_utterances()) {
      if (samples_.size() > 14 * 16000) break;
      const std::vector<float> one = read_audio(u.audio).samples;
      samples_.insert(samples_.end(), one.begin(), one.end());
      samples_.resize(samples_.size() + 8000);
    }
  }
  static void TearDownTestSuite() {
    model_.reset();
    cached_.reset();
  }

  struct Said {
    std::string text;
    std::vector<int64_t> frames;  // of the tokens, in the stream
    std::vector<WordlessPart> again;
  };

  /// `stuck`: by a search that says nothing from its third second on.
  static Said say(bool stuck, double wordless_seconds, size_t piece, int64_t silence = 0,
                  size_t others = 0, bool cached = false, const char* search = "label_looping") {
    const auto& model = cached ? cached_ : model_;
    std::unique_ptr<Decoder> decoder = make_decoder(search, {}, "");
    if (stuck) decoder = std::make_unique<test::Stuck>(std::move(decoder));
    decoder->prepare(model, {});
    StreamOptions options;
    options.streams = 2;
    if (!cached) options.buffer = BufferSeconds{2, 6, 1};
    SpeechStreams speech(model, *decoder, options, silence, wordless_seconds);
    const int64_t stream = speech.open();
    std::vector<int64_t> beside;
    for (size_t i = 0; i < others; ++i) beside.push_back(speech.open());
    Said said;
    const auto work = [&] {
      for (auto updates = speech.step(); !updates.empty(); updates = speech.step()) {
        for (const SpeechUpdate& update : updates) {
          if (update.stream != stream) continue;
          said.again.insert(said.again.end(), update.again.begin(), update.again.end());
          EXPECT_GE(update.result.stable, 0);
          if (!update.ended) continue;
          const Hypothesis& best = update.result.best;
          said.text += (said.text.empty() ? "" : " ") + model->tokenizer->text(best.tokens);
          for (const int32_t frame : best.frames) said.frames.push_back(update.first + frame);
        }
      }
    };
    for (size_t at = 0; at < samples_.size(); at += piece) {
      const auto part = std::span(samples_).subspan(at, std::min(piece, samples_.size() - at));
      speech.push(stream, part);
      for (const int64_t other : beside) speech.push(other, part);
      work();
    }
    speech.finish(stream);
    for (const int64_t other : beside) speech.finish(other);
    work();
    EXPECT_THROW(speech.push(stream, {}), UserError) << "closed";
    return said;
  }

  static size_t words(const std::string& text) {
    return static_cast<size_t>(std::ranges::count(text, ' '));
  }

  static std::shared_ptr<const AcousticModel> model_, cached_;  // on buffers, with caches
  static std::vector<float> samples_;
};

std::shared_ptr<const AcousticModel> SpeechStreamsTest::model_, SpeechStreamsTest::cached_;
std::vector<float> SpeechStreamsTest::samples_;

TEST_F(SpeechStreamsTest, AStreamThatSticksStartsOver) {
  const Said plain = say(false, 4, 8000);
  EXPECT_TRUE(plain.again.empty());
  EXPECT_EQ(plain.text, say(false, 0, 8000).text) << "watching changes nothing";
  const Said lost = say(true, 0, 8000), found = say(true, 4, 8000);
  EXPECT_LT(words(lost.text), words(plain.text) / 2);
  EXPECT_TRUE(lost.again.empty());
  EXPECT_GT(words(found.text), words(plain.text) * 2 / 3);
  EXPECT_GT(found.again.size(), 1U);
  EXPECT_TRUE(std::ranges::is_sorted(found.frames));
  int64_t again = 0;
  for (const WordlessPart& part : found.again) {
    EXPECT_LT(part.blocks.begin, part.blocks.end);
    EXPECT_GE(part.decodes, 1);
    EXPECT_LE(part.decodes, 2);
    again += part.words;
  }
  EXPECT_GT(again, 5);
}

/// A beam search may rank its texts anew at the end of an utterance. Starting over is no end.
TEST_F(SpeechStreamsTest, ABeamKeepsWhatTheDecisionWasMadeOn) {
  const Said found = say(true, 4, 8000, 0, 0, false, "modified_beam_search");
  EXPECT_GE(found.again.size(), 1U);
  EXPECT_TRUE(std::ranges::is_sorted(found.frames));
}

/// Neither the pieces of the samples nor other streams change anything, with and without pauses. A
/// pause begins the search anew, so that with pauses there may be nothing to decode again.
TEST_F(SpeechStreamsTest, PiecesAndOtherStreamsChangeNothing) {
  for (const int64_t silence : {int64_t{0}, int64_t{12}}) {
    const Said first = say(true, 4, 8000, silence);
    EXPECT_TRUE(silence > 0 || first.again.size() > 1);
    for (const size_t piece : {size_t{1234}, samples_.size()}) {
      const Said said = say(true, 4, piece, silence, piece == 1234 ? 1 : 0);
      EXPECT_EQ(said.text, first.text) << silence << " " << piece;
      EXPECT_EQ(said.frames, first.frames) << silence << " " << piece;
      EXPECT_EQ(said.again.size(), first.again.size());
    }
  }
}

/// A model with random weights, which says something at all times.
TEST_F(SpeechStreamsTest, StreamsWithCachesStartOver) {
  const Said plain = say(false, 0, 8000, 0, 0, /*cached=*/true);
  const Said lost = say(true, 0, 8000, 0, 0, true), found = say(true, 4, 8000, 0, 0, true);
  EXPECT_LT(lost.frames.size(), plain.frames.size() / 2);
  EXPECT_GT(found.frames.size(), lost.frames.size() + plain.frames.size() / 5);
  EXPECT_TRUE(std::ranges::is_sorted(found.frames));
  EXPECT_GE(found.again.size(), 1U);
  const Said pieces = say(true, 4, 777, 0, 1, true);
  EXPECT_EQ(pieces.text, found.text);
  EXPECT_EQ(pieces.frames, found.frames);
}

/// Text that stays, stays: a prefix of what comes later.
TEST_F(SpeechStreamsTest, StableTokensAreNeverTakenBack) {
  test::Stuck decoder(make_decoder("label_looping", {}, ""));
  decoder.prepare(model_, {});
  StreamOptions options;
  options.buffer = BufferSeconds{1, 4, 1};
  SpeechStreams speech(model_, decoder, options, 0, 4);
  const int64_t stream = speech.open();
  std::vector<int32_t> stable;
  bool closed = false;
  const auto work = [&] {
    for (auto updates = speech.step(); !updates.empty(); updates = speech.step()) {
      for (const SpeechUpdate& update : updates) {
        const std::vector<int32_t>& tokens = update.result.best.tokens;
        ASSERT_GE(tokens.size(), stable.size());
        EXPECT_TRUE(std::equal(stable.begin(), stable.end(), tokens.begin()));
        stable.assign(tokens.begin(), tokens.begin() + update.result.stable);
        closed = closed || update.closed;
        if (!update.closed) {
          EXPECT_EQ(speech.partial(stream).best.tokens, tokens);
        }
      }
    }
  };
  for (size_t at = 0; at < samples_.size(); at += 4000) {
    speech.push(stream,
                std::span(samples_).subspan(at, std::min<size_t>(4000, samples_.size() - at)));
    work();
  }
  speech.finish(stream);
  work();
  EXPECT_TRUE(closed);
  EXPECT_GT(stable.size(), 15U);
}

}  // namespace
}  // namespace rtfx
