// Tests the rules that end utterances, on a search whose tokens are known.
#include "speech/streams/endpointing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/shared/biasing/compiled_bias.h"
#include "base/error.h"
#include "models/load_checkpoint.h"
#include "speech/streams/speech_streams.h"
#include "tests/support/energy_detector.h"

namespace rtfx {
namespace {

constexpr int32_t kEnd = 7;

/// Tokens at frames of the stream.
using Script = std::vector<std::pair<int32_t, int32_t>>;  // frame, token

/// A search of one stream that emits the tokens of a script. Its results so far lack the last `lag`
/// frames.
class Scripted : public Decoder {
 public:
  Scripted(Script script, int32_t lag) : script_(std::move(script)), lag_(lag) {}
  Description describe() const override { return {}; }
  nlohmann::json options() const override { return {}; }
  void prepare(std::shared_ptr<const AcousticModel>, const Limits&) override {}
  Hypotheses decode(const EncodedBatch&) override { return {}; }
  std::unique_ptr<Streams> streams(const StreamLimits&) override {
    return std::make_unique<Search>(*this);
  }

  using Biased = std::pair<int32_t, std::shared_ptr<const CompiledBias>>;

  mutable int failing_opens = 0;       // the next calls of open() throw
  mutable std::vector<Biased> biases;  // calls of set_bias(), with the frame of the stream

 private:
  class Search : public Streams {
   public:
    explicit Search(const Scripted& owner) : owner_(owner) {}
    at::Tensor project(const at::Tensor& frames) override { return frames; }
    int64_t open() override {
      if (owner_.failing_opens > 0 && owner_.failing_opens-- > 0) throw std::bad_alloc();
      begins_[next_] = now_;
      return next_++;
    }
    void set_bias(int64_t stream, std::shared_ptr<const CompiledBias> bias) override {
      if (!begins_.contains(stream)) throw UserError("search", "is not open", "");
      owner_.biases.emplace_back(now_, std::move(bias));
    }
    void push(std::span<const int64_t> streams, const EncodedBatch& pieces) override {
      for (const int64_t stream : streams)
        if (!begins_.contains(stream)) throw UserError("search", "is not open", "");
      now_ += static_cast<int32_t>(pieces.lengths_host.at(0));
    }
    PartialResult partial(int64_t stream) override {
      return {result(stream, now_ - owner_.lag_), 0};
    }
    Hypothesis finish(int64_t stream) override {
      Hypothesis found = result(stream, now_);
      close(stream);
      return found;
    }
    void close(int64_t stream) override {
      if (begins_.erase(stream) == 0) throw UserError("search", "is not open", "");
    }

   private:
    Hypothesis result(int64_t stream, int32_t end) const {
      Hypothesis found;
      const int32_t begin = begins_.at(stream);
      for (const auto& [frame, token] : owner_.script_) {
        if (frame < begin || frame >= end) continue;
        found.tokens.push_back(token);
        found.frames.push_back(frame - begin);
      }
      return found;
    }
    const Scripted& owner_;
    std::map<int64_t, int32_t> begins_;
    int32_t now_ = 0;
    int64_t next_ = 0;
  };

  Script script_;
  int32_t lag_;
};

struct Ended {
  EndpointRule rule;
  Script said;  // frames of the stream
  int64_t at;   // frame at which it ended
  bool operator==(const Ended&) const = default;
  friend void PrintTo(const Ended& ended, std::ostream* out) {
    *out << name_of(ended.rule) << " at " << ended.at << testing::PrintToString(ended.said);
  }
};

const std::shared_ptr<const AcousticModel>& model() {
  static const auto built = AcousticModel::build(
      load_checkpoint("tests/data/checkpoints/tiny_streaming.nemo"), at::kCPU, at::kFloat);
  return built;
}

/// Returns the utterances with tokens of a stream of 6 s, in which somebody speaks during `speech`
/// (in seconds).
std::vector<Ended> utterances(const Script& script, const EndpointRules& ends, int32_t lag = 0,
                              const std::vector<std::pair<double, double>>& speech = {},
                              size_t piece = 700) {
  Scripted decoder(script, lag);
  SpeechStreams streams(model(), decoder, {}, ends);
  std::vector<float> samples(6 * 16000);
  for (size_t i = 0; i < samples.size(); ++i) {
    const double time = static_cast<double>(i) / 16000;
    for (const auto& [begin, end] : speech)
      if (time >= begin && time < end) samples[i] = i % 2 == 0 ? 0.5F : -0.5F;
  }
  const int64_t stream = streams.open();
  std::vector<Ended> found;
  const auto work = [&] {
    for (auto updates = streams.step(); !updates.empty(); updates = streams.step()) {
      for (const SpeechUpdate& update : updates) {
        const Hypothesis& best = update.result.best;
        EXPECT_EQ(std::ranges::count(best.tokens, kEnd), 0);
        if (!update.ended() || best.tokens.empty()) continue;
        EXPECT_EQ(update.result.stable, std::ssize(best.tokens));
        EXPECT_EQ(update.end_token, update.rule == EndpointRule::token ? kEnd : -1);
        Ended one{update.rule, {}, update.first + update.frames};
        for (size_t i = 0; i < best.tokens.size(); ++i)
          one.said.emplace_back(update.first + best.frames[i], best.tokens[i]);
        found.push_back(one);
      }
    }
  };
  for (size_t at = 0; at < samples.size(); at += piece) {
    streams.push(stream, std::span(samples).subspan(at, std::min(piece, samples.size() - at)));
    work();
  }
  streams.finish(stream);
  work();
  return found;
}

/// Returns the utterances, and expects that they do not depend on how the samples are cut.
std::vector<Ended> in_any_pieces(const Script& script, const EndpointRules& ends, int32_t lag = 0,
                                 const std::vector<std::pair<double, double>>& speech = {}) {
  const auto found = utterances(script, ends, lag, speech);
  for (const size_t piece : {size_t{160}, size_t{5000}, size_t{1} << 20})
    EXPECT_EQ(utterances(script, ends, lag, speech, piece), found) << piece;
  return found;
}

constexpr int64_t kWhole = 76;  // frames of 6 s

TEST(Endpointing, ATokenEndsTheUtteranceInWhichItIs) {
  // Two end tokens in a row, and a word in the frame of an end token.
  const Script script = {{0, 3},  {2, 4},     {3, kEnd}, {5, 5},  {5, 6},     {9, kEnd}, {9, kEnd},
                         {12, 8}, {12, kEnd}, {12, 9},   {14, 3}, {20, kEnd}, {40, kEnd}};
  const EndpointRules ends{.tokens = {1, kEnd}};
  const std::vector<Ended> expected = {{EndpointRule::token, {{0, 3}, {2, 4}}, 4},
                                       {EndpointRule::token, {{5, 5}, {5, 6}}, 10},
                                       {EndpointRule::token, {{12, 8}}, 13},
                                       {EndpointRule::token, {{12, 9}, {14, 3}}, 21}};
  EXPECT_EQ(in_any_pieces(script, ends), expected);
}

/// A search may tell a token some frames late. Tokens that it has found behind it are not lost.
TEST(Endpointing, ATokenThatIsToldLateDividesTheResult) {
  const Script script = {{0, 3}, {2, 4}, {3, kEnd}, {5, 5}, {7, 6}, {30, kEnd}, {50, 8}};
  const std::vector<Ended> expected = {{EndpointRule::token, {{0, 3}, {2, 4}}, 10},
                                       {EndpointRule::token, {{5, 5}, {7, 6}}, 37},
                                       {EndpointRule::stream, {{50, 8}}, kWhole}};
  EXPECT_EQ(in_any_pieces(script, {.tokens = {kEnd}}, /*lag=*/6), expected);
}

TEST(Endpointing, ATokenInTheLastFrameEndsTheLastUtterance) {
  const Script script = {{70, 3}, {75, kEnd}};
  const std::vector<Ended> expected = {{EndpointRule::token, {{70, 3}}, kWhole}};
  EXPECT_EQ(in_any_pieces(script, {.tokens = {kEnd}}), expected);
  const Script more = {{70, 3}, {75, kEnd}, {75, 4}};
  const auto found = in_any_pieces(more, {.tokens = {kEnd}});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].said, Script({{70, 3}, {75, 4}})) << "nothing is lost";
}

TEST(Endpointing, TheFirstRuleEnds) {
  const Script script = {{0, 3}, {3, kEnd}, {5, 4}, {40, 5}};
  const std::vector<Ended> expected = {{EndpointRule::token, {{0, 3}}, 4},
                                       {EndpointRule::pause, {{5, 4}}, 16},
                                       {EndpointRule::pause, {{40, 5}}, 51}};
  EXPECT_EQ(in_any_pieces(script, {.pause = 10, .tokens = {kEnd}}), expected);
}

/// Somebody speaks from 1 s to 2 s and from 3 s to 4 s. The detector hears speech up to the end of
/// its 63rd window, which is sample 32256, and up to sample 64000.
TEST(Endpointing, SilenceEndsAnUtterance) {
  const EndpointRules ends{.detector = test::energy_detector(), .silence = 0.5};
  const std::vector<std::pair<double, double>> speech = {{1, 2}, {3, 4}};
  const Script script = {{14, 3}, {24, 4}, {40, 5}, {49, 6}};
  const std::vector<Ended> expected = {{EndpointRule::vad, {{14, 3}, {24, 4}}, 32},
                                       {EndpointRule::vad, {{40, 5}, {49, 6}}, 57}};
  EXPECT_EQ(in_any_pieces(script, ends, 0, speech), expected);
}

/// The end waits for two frames without a token, so that a late token stays with its word.
TEST(Endpointing, SilenceWaitsForALateToken) {
  const EndpointRules ends{.detector = test::energy_detector(), .silence = 0.5};
  const std::vector<std::pair<double, double>> speech = {{1, 2}, {3, 4}};
  const Script script = {{14, 3}, {30, 4}, {31, 8}, {40, 5}};
  const std::vector<Ended> expected = {{EndpointRule::vad, {{14, 3}, {30, 4}, {31, 8}}, 34},
                                       {EndpointRule::vad, {{40, 5}}, 57}};
  EXPECT_EQ(in_any_pieces(script, ends, 0, speech), expected);
}

/// No end comes from a short silence, or from noise without words that the detector takes for
/// speech. Words that the detector does not hear cause none either.
TEST(Endpointing, SilenceEndsNothingElse) {
  const EndpointRules ends{.detector = test::energy_detector(), .silence = 0.5};
  const std::vector<Ended> expected = {{EndpointRule::vad, {{14, 3}, {28, 4}}, 44},
                                       {EndpointRule::stream, {{60, 5}}, kWhole}};
  EXPECT_EQ(in_any_pieces({{14, 3}, {28, 4}, {60, 5}}, ends, 0, {{0.1, 0.3}, {1, 2}, {2.4, 3}}),
            expected);
}

const Tokenizer& quickstart() {
  static const auto checkpoint = load_checkpoint("models/quickstart/quickstart-rnnt.nemo");
  return *checkpoint.tokenizer;
}

TEST(EndTokens, AreFoundInTheVocabulary) {
  const Tokenizer& tokenizer = quickstart();
  EXPECT_TRUE(find_end_tokens(tokenizer, {}, "--end-token").empty());
  const std::string the = "▁the";
  const std::vector<int32_t> ids = find_end_tokens(tokenizer, {the}, "--end-token");
  ASSERT_EQ(ids.size(), 1U);
  EXPECT_EQ(tokenizer.piece(ids[0]), the);
  EXPECT_EQ(find_end_tokens(tokenizer, {the, "▁and"}, "--end-token").size(), 2U);
  EXPECT_TRUE(find_end_tokens(tokenizer, {"none"}, "--end-token").empty());
  EXPECT_THROW(find_end_tokens(tokenizer, {the, "<EOU>"}, "--end-token"), UserError);
}

TEST(EndTokens, DivideListsAndWordsToo) {
  const Tokenizer& tokenizer = quickstart();
  const EndpointRules ends{.tokens = {kEnd}};
  Hypothesis whole{
      .tokens = {3, kEnd, 4}, .frames = {1, 4, 6}, .durations = {1, 2, 1}, .score = -3};
  whole.words = std::vector<FoundWord>{{"a", 1}, {tokenizer.piece(kEnd), 4}, {"b", 6}};
  Hypothesis entry = whole;
  entry.tokens = {3, 5, 4};
  whole.nbest = {whole, entry};
  const DividedHypothesis divided = divide_at_end_token(whole, ends, tokenizer);
  EXPECT_EQ(divided.token, kEnd);
  EXPECT_EQ(divided.frame, 4);
  EXPECT_EQ(divided.before.tokens, std::vector<int32_t>{3});
  EXPECT_EQ(divided.before.durations, std::vector<int32_t>{1});
  EXPECT_EQ(divided.before.words, (std::vector<FoundWord>{{"a", 1}}));
  EXPECT_EQ(divided.before.score, -3);
  ASSERT_EQ(divided.before.nbest.size(), 2U);
  EXPECT_EQ(divided.before.nbest[0].tokens, std::vector<int32_t>{3});
  EXPECT_EQ(divided.before.nbest[1].tokens, entry.tokens) << "has no end token";
  EXPECT_EQ(divided.behind.tokens, std::vector<int32_t>{4});
  EXPECT_EQ(divided.behind.frames, std::vector<int32_t>{6});
  EXPECT_EQ(divided.behind.words, (std::vector<FoundWord>{{"b", 6}}));
  EXPECT_EQ(divide_at_end_token(entry, ends, tokenizer).token, -1);
}

TEST(Endpointing, AStreamThatCannotBeOpenedLeavesNothingBehind) {
  Scripted decoder({}, 0);
  StreamOptions one;
  one.streams = 1;
  SpeechStreams streams(model(), decoder, one, {});
  decoder.failing_opens = 1;
  EXPECT_THROW(streams.open(), std::bad_alloc);
  streams.close(streams.open());
  EXPECT_NO_THROW(streams.open()) << "the encoder has one place, which is free";
}

TEST(Endpointing, AStreamWithoutANextUtteranceLeavesTheOthersAlone) {
  Scripted decoder({{5, 1}, {60, 2}}, 0);
  StreamOptions two;
  two.streams = 2;
  SpeechStreams streams(model(), decoder, two, {.pause = 3});
  const int64_t first = streams.open(), second = streams.open();
  const std::vector<float> samples(6 * 16000);
  streams.push(first, samples);
  streams.push(second, samples);
  decoder.failing_opens = 1;  // where the pause after the first token ends the utterance
  std::map<int64_t, std::vector<int32_t>> said;
  int failures = 0;
  const auto work = [&] {
    for (bool more = true; more;) {
      try {
        const auto updates = streams.step();
        more = !updates.empty();
        for (const SpeechUpdate& update : updates) {
          if (!update.ended()) continue;
          auto& tokens = said[update.stream];
          tokens.insert(tokens.end(), update.result.best.tokens.begin(),
                        update.result.best.tokens.end());
        }
      } catch (const std::bad_alloc&) {
        ++failures;
      }
    }
  };
  work();
  EXPECT_EQ(failures, 1);
  const int64_t failed = said.contains(first) ? second : first;
  const int64_t whole = failed == first ? second : first;
  EXPECT_THROW(streams.push(failed, samples), UserError) << "it can only be closed";
  streams.finish(whole);
  work();
  EXPECT_EQ(said[whole], (std::vector<int32_t>{1, 2}));
  EXPECT_NO_THROW(streams.close(failed));
  EXPECT_THROW(streams.close(failed), UserError);
  EXPECT_NO_THROW(streams.open());
  EXPECT_NO_THROW(streams.open());
}

/// Each utterance begins a search, which gets the stream's bias before its first frame.
TEST(Endpointing, ABiasHoldsUntilItIsSetAnew) {
  Scripted decoder({{0, 3}, {15, 4}, {50, 5}}, 0);
  SpeechStreams streams(model(), decoder, {}, {.pause = 4});
  const int64_t stream = streams.open();
  const auto bias = std::make_shared<const CompiledBias>();
  const std::vector<float> samples(3 * 16000);
  const auto push = [&] {
    streams.push(stream, samples);
    while (!streams.step().empty()) continue;
  };
  streams.set_bias(stream, bias);
  push();
  std::vector<Scripted::Biased> expected = {{0, bias}, {5, bias}, {20, bias}};
  EXPECT_EQ(decoder.biases, expected);
  streams.set_bias(stream, nullptr);
  ASSERT_EQ(decoder.biases.size(), 4U);
  EXPECT_EQ(decoder.biases.back().second, nullptr);
  push();
  EXPECT_EQ(streams.first(stream), 55) << "a pause after the third token has ended its utterance";
  EXPECT_EQ(decoder.biases.size(), 4U) << "a new search has none";
}

TEST(Endpointing, AShortPauseIsAFrame) {
  EXPECT_EQ(pause_frames(0.1, 0.24), 1);
  EXPECT_EQ(pause_frames(0.8, 0.08), 10);
}

}  // namespace
}  // namespace rtfx
