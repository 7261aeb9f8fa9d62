// Streams that stay on blank over speech start over and find the words, whatever the pieces are.
#include "speech/streams/speech_streams.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "algorithms/decoder.h"
#include "datasets/audio.h"
#include "models/load_checkpoint.h"
#include "tests/support/energy_detector.h"
#include "tests/support/long_audio_cases.h"
#include "tests/support/user_error.h"

namespace rtfx {
namespace {

using test::user_error;

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
    std::vector<int32_t> tokens;
    std::map<EndpointRule, int> ends;  // utterances with tokens, by rule
    std::vector<int64_t> frames;       // frames of the tokens in the stream
    std::vector<WordlessPart> again;
  };

  /// Runs the samples through a stream. With `stuck`, the search emits nothing from about 3 s on.
  static Said say(bool stuck, double wordless_seconds, size_t piece, const EndpointRules& ends = {},
                  size_t others = 0, bool cached = false, const char* search = "label_looping") {
    const auto& model = cached ? cached_ : model_;
    std::unique_ptr<Decoder> decoder = make_decoder(search, {}, "");
    if (stuck) decoder = std::make_unique<test::Stuck>(std::move(decoder));
    decoder->prepare(model, {});
    StreamOptions options;
    options.streams = 2;
    if (!cached) options.buffer = BufferSeconds{2, 6, 1};
    SpeechStreams speech(model, *decoder, options, ends, wordless_seconds);
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
          if (!update.ended()) continue;
          const Hypothesis& best = update.result.best;
          said.text += (said.text.empty() ? "" : " ") + model->tokenizer->text(best.tokens);
          said.tokens.insert(said.tokens.end(), best.tokens.begin(), best.tokens.end());
          if (!best.tokens.empty()) ++said.ends[update.rule];
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

  /// Returns the token that comes most often. It ends utterances in these tests.
  static int32_t frequent() {
    static const int32_t token = [] {
      std::map<int32_t, int> counts;
      for (const int32_t one : say(false, 0, 8000).tokens) ++counts[one];
      return std::ranges::max_element(counts, {}, [](const auto& n) { return n.second; })->first;
    }();
    return token;
  }

  static size_t words(const std::string& text) {
    return static_cast<size_t>(std::ranges::count(text, ' '));
  }

  static std::shared_ptr<const AcousticModel> model_, cached_;  // streams on buffers, with caches
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

/// A beam search may rank its texts anew at the end of an utterance, but starting over is no end.
TEST_F(SpeechStreamsTest, ABeamKeepsWhatTheDecisionWasMadeOn) {
  const Said found = say(true, 4, 8000, {}, 0, false, "modified_beam_search");
  EXPECT_GE(found.again.size(), 1U);
  EXPECT_TRUE(std::ranges::is_sorted(found.frames));
}

/// Neither the pieces of the samples nor other streams change anything, by whatever rule utterances
/// end. An end begins the search anew, so that there may be nothing to decode again.
TEST_F(SpeechStreamsTest, PiecesAndOtherStreamsChangeNothing) {
  const EndpointRules none, pause{.pause = 12}, token{.tokens = {frequent()}},
      voice{.detector = test::energy_detector(), .silence = 0.3};
  for (const EndpointRules* ends : {&none, &pause, &token, &voice}) {
    const Said first = say(true, 4, 8000, *ends);
    EXPECT_TRUE(ends->any() || first.again.size() > 1);
    for (const size_t piece : {size_t{1234}, samples_.size()}) {
      const Said said = say(true, 4, piece, *ends, piece == 1234 ? 1 : 0);
      EXPECT_EQ(said.text, first.text) << piece;
      EXPECT_EQ(said.frames, first.frames) << piece;
      EXPECT_EQ(said.again.size(), first.again.size());
    }
  }
}

/// A search without a state finds the same tokens, whichever rule ends utterances: none is lost,
/// and none comes twice. Only an end token is no part of the text.
TEST_F(SpeechStreamsTest, NoTokenIsLostAtAnEnd) {
  const auto greedy = [](const EndpointRules& ends) {
    return say(false, 0, 8000, ends, 0, false, "ctc_greedy");
  };
  const Said whole = greedy({});
  const Said voice = greedy({.detector = test::energy_detector(), .silence = 0.3});
  EXPECT_GT(voice.ends.at(EndpointRule::vad), 1);
  EXPECT_EQ(voice.tokens, whole.tokens);
  EXPECT_EQ(voice.frames, whole.frames);
  const Said token = greedy({.tokens = {frequent()}});
  EXPECT_GT(token.ends.at(EndpointRule::token), 1);
  std::vector<int32_t> others = whole.tokens;
  std::erase(others, frequent());
  EXPECT_LT(others.size(), whole.tokens.size());
  EXPECT_EQ(token.tokens, others);
}

/// Beams rank their texts anew, and durations may pass over frames. The end token still ends
/// utterances.
TEST_F(SpeechStreamsTest, ATokenEndsUtterancesOfOtherSearches) {
  for (const char* search : {"label_looping", "alsd_pp", "modified_beam_search"}) {
    const Said token = say(false, 0, 8000, {.tokens = {frequent()}}, 0, false, search);
    EXPECT_GT(token.ends.at(EndpointRule::token), 1) << search;
    EXPECT_TRUE(std::ranges::is_sorted(token.frames)) << search;
    EXPECT_EQ(std::ranges::count(token.tokens, frequent()), 0) << search;
    EXPECT_GT(words(token.text), words(say(false, 0, 8000).text) * 2 / 3) << search;
  }
}

/// The model has random weights, and emits tokens at all times.
TEST_F(SpeechStreamsTest, StreamsWithCachesStartOver) {
  const Said plain = say(false, 0, 8000, {}, 0, /*cached=*/true);
  const Said lost = say(true, 0, 8000, {}, 0, true), found = say(true, 4, 8000, {}, 0, true);
  EXPECT_LT(lost.frames.size(), plain.frames.size() / 2);
  EXPECT_GT(found.frames.size(), lost.frames.size() + plain.frames.size() / 5);
  EXPECT_TRUE(std::ranges::is_sorted(found.frames));
  EXPECT_GE(found.again.size(), 1U);
  const Said pieces = say(true, 4, 777, {}, 1, true);
  EXPECT_EQ(pieces.text, found.text);
  EXPECT_EQ(pieces.frames, found.frames);
}

/// Stable tokens stay: they are a prefix of all later tokens.
TEST_F(SpeechStreamsTest, StableTokensAreNeverTakenBack) {
  test::Stuck decoder(make_decoder("label_looping", {}, ""));
  decoder.prepare(model_, {});
  StreamOptions options;
  options.buffer = BufferSeconds{1, 4, 1};
  SpeechStreams speech(model_, decoder, options, {}, 4);
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

/// Characters of a stream hold for all of its utterances, just like those of the decoder.
TEST_F(SpeechStreamsTest, ABiasHoldsForAllUtterances) {
  const std::vector<std::string> without_e = {"U+0061-U+0064", "U+0066-U+007A"};
  const auto utterances = [&](const nlohmann::json& of_decoder, bool of_stream) {
    const std::unique_ptr<Decoder> decoder = make_decoder("label_looping", of_decoder, "");
    decoder->prepare(model_, {});
    StreamOptions options;
    options.buffer = BufferSeconds{2, 6, 1};
    SpeechStreams speech(model_, *decoder, options, {.pause = 5});
    const int64_t stream = speech.open();
    if (of_stream) speech.set_bias(stream, decoder->compile_bias({{}, without_e, "allowed"}));
    speech.push(stream, samples_);
    speech.finish(stream);
    std::vector<std::string> texts;
    for (auto updates = speech.step(); !updates.empty(); updates = speech.step()) {
      for (const SpeechUpdate& update : updates) {
        if (update.ended() && !update.result.best.tokens.empty())
          texts.push_back(model_->tokenizer->text(update.result.best.tokens));
      }
    }
    return texts;
  };
  const auto plain = utterances(nlohmann::json::object(), false);
  const auto biased = utterances(nlohmann::json::object(), true);
  ASSERT_GT(plain.size(), 1U);
  ASSERT_GT(biased.size(), 1U);
  EXPECT_NE(plain.back().find('e'), std::string::npos);
  for (const std::string& text : biased) EXPECT_EQ(text.find('e'), std::string::npos) << text;
  EXPECT_EQ(biased, utterances({{"allowed", without_e}}, false));
}

/// The detector hears the loud stream first, and gives no probability for it.
TEST_F(SpeechStreamsTest, AFailureOfTheDetectorLeavesTheOtherStreamsTheirSamples) {
  const std::string fails_if_loud =
      "def forward(self, x, sr: int):\n"
      "  speech = (x.pow(2).mean(1, True) > 1e-4).float()\n"
      "  return speech * (1 + (x.abs().max() > 4).float())\n";
  const EndpointRules ends{.detector = std::make_shared<const VoiceDetector>(
                               test::save_detector("fails", fails_if_loud), 16000, "--vad"),
                           .silence = 0.3};
  const std::unique_ptr<Decoder> decoder = make_decoder("ctc_greedy", {}, "");
  decoder->prepare(model_, {});
  StreamOptions options;
  options.streams = 2;
  options.buffer = BufferSeconds{2, 6, 1};
  const std::vector<float> loud(samples_.size(), 5.0F);
  const auto first_frames = [&](bool beside_a_failure) {
    SpeechStreams speech(model_, *decoder, options, ends);
    const int64_t failing = speech.open(), stream = speech.open();
    if (beside_a_failure) {
      const std::vector<NewSamples> both = {{failing, loud}, {stream, samples_}};
      EXPECT_HAS(user_error([&] { speech.push(both); }), "returns 2 as a probability");
      EXPECT_HAS(user_error([&] { speech.push(failing, loud); }), "has failed");
    } else {
      speech.push(stream, samples_);
    }
    speech.close(failing);
    speech.finish(stream);
    std::vector<int64_t> frames;  // of the utterances that the detector ended
    for (auto updates = speech.step(); !updates.empty(); updates = speech.step()) {
      for (const SpeechUpdate& update : updates)
        if (update.ended() && update.rule == EndpointRule::vad) frames.push_back(update.first);
    }
    return frames;
  };
  const std::vector<int64_t> alone = first_frames(false);
  EXPECT_GT(alone.size(), 1U);
  EXPECT_EQ(first_frames(true), alone);
}

TEST_F(SpeechStreamsTest, AStreamThatIsNotOpenIsAUserError) {
  const std::unique_ptr<Decoder> decoder = make_decoder("label_looping", {}, "");
  decoder->prepare(model_, {});
  StreamOptions options;
  options.buffer = BufferSeconds{1, 4, 1};
  SpeechStreams speech(model_, *decoder, options);
  const int64_t stream = speech.open();
  speech.close(stream);
  EXPECT_THROW(speech.set_bias(stream, nullptr), UserError);
  EXPECT_THROW(speech.push(stream, samples_), UserError);
  EXPECT_THROW(speech.finish(stream), UserError);
  EXPECT_THROW(speech.ready(stream), UserError);
  EXPECT_THROW(speech.partial(stream), UserError);
  EXPECT_THROW(speech.close(stream), UserError);
}

}  // namespace
}  // namespace rtfx
