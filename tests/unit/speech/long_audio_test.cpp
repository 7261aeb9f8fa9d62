// Tests audio of hours: where it is cut, and that nothing is lost or doubled at the seams.
#include "speech/long_audio/long_audio.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "algorithms/decoder.h"
#include "base/error.h"
#include "datasets/audio.h"
#include "datasets/dataset.h"
#include "harness/scoring/wer.h"
#include "models/load_checkpoint.h"
#include "models/tokenizers/tokenizer.h"
#include "speech/long_audio/chunks.h"
#include "speech/pipeline/pipeline.h"
#include "tests/support/long_audio_cases.h"

namespace rtfx {
namespace {

TEST(Cuts, TheMiddleOfTheQuietestThreeBlocks) {
  std::vector<float> levels(40, -10);
  for (const size_t i : {14, 15, 16, 17}) levels[i] = -70;
  levels[5] = levels[30] = -90;  // quieter, but short or not allowed
  const Cut cut = best_cut(levels, 10, 25);
  EXPECT_EQ(cut.block, 16U);  // the later of two equals
  EXPECT_TRUE(cut.pause);
  EXPECT_FALSE(best_cut(levels, 18, 25).pause);
  EXPECT_EQ(best_cut(levels, 20, 28).block, 28U);
  EXPECT_FALSE(best_cut(std::vector<float>(40, -100), 10, 25).pause) << "nothing is louder";
}

class LongAudioTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const Checkpoint checkpoint = load_checkpoint("models/quickstart/quickstart-rnnt.nemo");
    model_ = AcousticModel::build(checkpoint, at::kCPU, at::kFloat);
    for (const Utterance& u : test::quickstart_utterances()) {
      texts_.push_back(*u.text);
      utterances_.push_back(read_audio(u.audio).samples);
    }
  }
  static void TearDownTestSuite() { model_.reset(); }

  /// Returns utterances one after the other, with silence between them.
  static std::vector<float> joined(size_t count, size_t silence) {
    std::vector<float> samples;
    for (size_t i = 0; i < count; ++i) {
      samples.insert(samples.end(), utterances_[i].begin(), utterances_[i].end());
      samples.resize(samples.size() + silence);
    }
    return samples;
  }

  static LongResult transcribe(const std::vector<float>& samples, const LongAudioOptions& options,
                               const char* name = "label_looping",
                               const Confidence* confidence = nullptr,
                               const nlohmann::json& decoder_options = nlohmann::json::object()) {
    const auto decoder = make_decoder(name, decoder_options, "");
    decoder->prepare(model_, {});
    RecordedEncoder encoder(model_, /*graphs=*/false);
    LongAudio audio(options, *model_, encoder, *decoder, confidence);
    return audio.transcribe(source_of(samples));
  }

  static std::vector<Hypothesis> whole(const std::vector<std::vector<float>>& utterances,
                                       const char* name = "label_looping") {
    const auto decoder = make_decoder(name, {}, "");
    decoder->prepare(model_, {});
    RecordedEncoder encoder(model_, /*graphs=*/false);
    std::vector<Hypothesis> results;
    for (const auto& samples : utterances) {
      RegionTimes times;
      const RegionClock clock(at::kCPU);
      const EncodedBatch batch = encode_batch(*model_, encoder, {samples}, clock, times);
      const ResultRules rules(*decoder, model_->config);
      results.push_back(
          decode_batch(*decoder, *model_, batch, rules, clock, times, false).hypotheses[0]);
    }
    return results;
  }

  static std::shared_ptr<const AcousticModel> model_;
  static std::vector<std::string> texts_;
  static std::vector<std::vector<float>> utterances_;
};

std::shared_ptr<const AcousticModel> LongAudioTest::model_;
std::vector<std::string> LongAudioTest::texts_;
std::vector<std::vector<float>> LongAudioTest::utterances_;

/// The context is the whole audio, so the encoder sees as much as without cuts. Only the seams
/// could make a difference.
TEST_F(LongAudioTest, SeamsChangeNothing) {
  const auto samples = joined(2, 4000);
  for (const char* decoder : {"label_looping", "ctc_greedy"}) {
    const Hypothesis expected = whole({samples}, decoder)[0];
    for (const double chunk : {0.9, 3.7}) {
      LongAudioOptions options;
      options.chunk_seconds = chunk;
      options.context_seconds = 1000;
      options.batch = 4;
      options.wordless_seconds = 0;
      options.begin_anew = false;
      const LongResult result = transcribe(samples, options, decoder);
      EXPECT_EQ(result.hypothesis.tokens, expected.tokens) << decoder << " " << chunk;
      EXPECT_EQ(result.hypothesis.frames, expected.frames) << decoder << " " << chunk;
      EXPECT_NEAR(result.hypothesis.score, expected.score, 1e-3 * std::abs(expected.score));
      EXPECT_EQ(result.samples, static_cast<int64_t>(samples.size()));
    }
  }
}

/// The evidence is that of the whole, however the audio was cut. Only a run of CTC ends with its
/// piece.
TEST_F(LongAudioTest, SeamsDoNotChangeTheEvidence) {
  const auto samples = joined(2, 4000);
  for (const char* name : {"label_looping", "alsd_pp", "ctc_greedy"}) {
    const bool ctc = name == std::string("ctc_greedy");
    const Confidence confidence(model_, ctc ? Head::ctc : Head::transducer, ConfidenceOptions{});
    const Hypothesis expected = whole({samples}, name)[0];
    RecordedEncoder encoder(model_, /*graphs=*/false);
    RegionTimes times;
    const EncodedBatch batch =
        encode_batch(*model_, encoder, {samples}, RegionClock(at::kCPU), times);
    const TokenEvidence of_whole = confidence(batch, {0}, {&expected})[0];
    for (const int64_t chunks : {1, 100}) {
      LongAudioOptions options;
      options.chunk_seconds = 1.6;
      options.context_seconds = 1000;
      options.batch = chunks;
      options.wordless_seconds = 0;
      options.begin_anew = false;
      const LongResult result = transcribe(samples, options, name, &confidence);
      ASSERT_EQ(result.hypothesis.tokens, expected.tokens) << name;
      ASSERT_EQ(result.evidence.confidence.size(), expected.tokens.size()) << name;
      ASSERT_EQ(result.evidence.runs.size(), of_whole.runs.size()) << name;
      size_t cut = 0;
      for (size_t i = 0; i < expected.tokens.size(); ++i) {
        const bool same_run = !ctc || result.evidence.runs[i] == of_whole.runs[i];
        cut += !same_run;
        if (!same_run) continue;
        EXPECT_NEAR(result.evidence.confidence[i], of_whole.confidence[i], 1e-3) << name << i;
      }
      EXPECT_LE(cut, chunks == 100 ? 0U : 3U);
      EXPECT_GT(result.confidence_seconds, 0);
    }
  }
}

/// Known utterances, joined with pauses, give nearly the words that each of them gives alone.
TEST_F(LongAudioTest, JoinedUtterancesGiveTheirWords) {
  const auto samples = joined(utterances_.size(), 8000);
  LongAudioOptions options;
  options.chunk_seconds = 12;
  const LongResult result = transcribe(samples, options);
  std::string reference, alone;
  const auto separate = whole(utterances_);
  for (size_t i = 0; i < texts_.size(); ++i) {
    reference += texts_[i] + " ";
    alone += model_->tokenizer->text(separate[i].tokens) + " ";
  }
  const auto words = [](const std::string& text) {
    std::istringstream in(text);
    return std::vector<std::string>(std::istream_iterator<std::string>(in), {});
  };
  const auto errors = [&](const std::string& text) {
    return static_cast<double>(count_edits(words(reference), words(text)).errors());
  };
  const std::string text = model_->tokenizer->text(result.hypothesis.tokens);
  EXPECT_LT(errors(text), 1.1 * errors(alone)) << text;
  EXPECT_TRUE(std::ranges::is_sorted(result.hypothesis.frames));
}

TEST_F(LongAudioTest, SizesOfBatchesChangeNothing) {
  const auto samples = joined(4, 8000);
  LongAudioOptions options;
  options.chunk_seconds = 3;
  std::vector<int32_t> first;
  for (const int64_t batch : {1, 3, 50}) {
    options.batch = batch;
    const LongResult result = transcribe(samples, options);
    if (first.empty()) first = result.hypothesis.tokens;
    EXPECT_EQ(result.hypothesis.tokens, first) << batch;
  }
  EXPECT_FALSE(first.empty());
}

/// The best hypotheses of the sections are the result. Each hypothesis begins where its section
/// does.
TEST_F(LongAudioTest, EverySectionHasItsList) {
  LongAudioOptions options;
  options.chunk_seconds = 3;
  options.batch = 4;
  options.wordless_seconds = 0;
  const LongResult result =
      transcribe(joined(3, 16000), options, "alsd_pp", nullptr, {{"beam_size", 3}, {"nbest", 3}});
  ASSERT_GT(result.sections.size(), 2U);
  std::vector<int32_t> tokens, frames;
  size_t others = 0;
  for (const LongSection& section : result.sections) {
    ASSERT_FALSE(section.nbest.empty());
    others += section.nbest.size() - 1;
    const Hypothesis& best = section.nbest.front();
    tokens.insert(tokens.end(), best.tokens.begin(), best.tokens.end());
    frames.insert(frames.end(), best.frames.begin(), best.frames.end());
    for (const Hypothesis& h : section.nbest) {
      EXPECT_TRUE(std::ranges::is_sorted(h.frames));
      EXPECT_TRUE(h.frames.empty() || h.frames.front() >= section.first);
    }
  }
  EXPECT_EQ(tokens, result.hypothesis.tokens);
  EXPECT_EQ(frames, result.hypothesis.frames);
  EXPECT_GT(others, result.sections.size());
  EXPECT_TRUE(transcribe(joined(3, 16000), options).sections.empty());
}

TEST_F(LongAudioTest, NoSamplesAndFew) {
  EXPECT_TRUE(transcribe({}, {}).hypothesis.tokens.empty());
  EXPECT_EQ(transcribe(std::vector<float>(100), {}).samples, 100);
}

TEST_F(LongAudioTest, ADecoderWithoutStreamsIsRefused) {
  EXPECT_THROW(transcribe({}, {}, "null"), UserError);
}

TEST_F(LongAudioTest, WhatASearchThatIsStuckLeavesOutIsDecodedAgain) {
  test::Stuck decoder(make_decoder("label_looping", {}, ""));
  decoder.prepare(model_, {});
  RecordedEncoder encoder(model_, /*graphs=*/false);
  const std::vector<float>& samples = utterances_[0];  // 8.7 s
  LongAudio audio({}, *model_, encoder, decoder);
  const LongResult result = audio.transcribe(source_of(samples));
  ASSERT_EQ(result.again.size(), 1U);
  const WordlessPart& part = result.again.front();
  EXPECT_GT(part.words, 2);
  EXPECT_LE(part.blocks.begin, 37U);
  EXPECT_GT(part.blocks.end, 80U);
  EXPECT_LE(part.blocks.end, static_cast<size_t>(samples.size() / 1280 + 1));
  const auto inside = std::ranges::count_if(result.hypothesis.frames, [&](int32_t f) {
    return std::cmp_greater_equal(f, part.blocks.begin) && std::cmp_less(f, part.blocks.end);
  });
  EXPECT_GE(inside, part.words);
  EXPECT_TRUE(std::ranges::is_sorted(result.hypothesis.frames));

  LongAudioOptions off;
  off.wordless_seconds = 0;
  LongAudio once(off, *model_, encoder, decoder);
  const LongResult lost = once.transcribe(source_of(samples));
  EXPECT_TRUE(lost.again.empty());
  EXPECT_EQ(lost.hypothesis.tokens.size() + static_cast<size_t>(inside),
            result.hypothesis.tokens.size());
}

/// Streams that find all their words at the end, and none before.
class LateStreams : public Streams {
 public:
  LateStreams(std::unique_ptr<Streams> streams, int& opened)
      : streams_(std::move(streams)), opened_(opened) {}
  at::Tensor project(const at::Tensor& frames) override { return streams_->project(frames); }
  int64_t open() override {
    ++opened_;
    return streams_->open();
  }
  void push(std::span<const int64_t> streams, const EncodedBatch& pieces) override {
    streams_->push(streams, pieces);
  }
  PartialResult partial(int64_t) override { return {}; }
  Hypothesis finish(int64_t stream) override { return streams_->finish(stream); }
  void close(int64_t stream) override { streams_->close(stream); }

 private:
  std::unique_ptr<Streams> streams_;
  int& opened_;
};

class Late : public Decoder {
 public:
  explicit Late(const char* name) : decoder_(make_decoder(name, {}, "")) {}
  Description describe() const override { return decoder_->describe(); }
  nlohmann::json options() const override { return decoder_->options(); }
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override {
    decoder_->prepare(std::move(model), limits);
  }
  Hypotheses decode(const EncodedBatch& batch) override { return decoder_->decode(batch); }
  std::unique_ptr<Streams> streams(const StreamLimits& limits) override {
    return std::make_unique<LateStreams>(decoder_->streams(limits), opened);
  }

  int opened = 0;  // number of streams

 private:
  std::unique_ptr<Decoder> decoder_;
};

TEST_F(LongAudioTest, WordsThatTheSearchFindsLaterAreNotDoubled) {
  Late decoder("label_looping");
  decoder.prepare(model_, {});
  RecordedEncoder encoder(model_, /*graphs=*/false);
  LongAudioOptions options;
  options.chunk_seconds = 6;
  options.batch = 1;
  options.begin_anew = false;  // one section, which goes on into each next batch
  options.wordless_seconds = 2;
  LongAudio audio(options, *model_, encoder, decoder);
  const std::vector<float> samples = joined(2, 4000);
  const LongResult result = audio.transcribe(source_of(samples));
  EXPECT_GT(decoder.opened, 1) << "nothing was decoded again";
  options.wordless_seconds = 0;
  const LongResult expected = transcribe(samples, options);
  EXPECT_EQ(result.hypothesis.tokens, expected.hypothesis.tokens);
  EXPECT_EQ(result.hypothesis.frames, expected.hypothesis.frames);
  EXPECT_EQ(result.hypothesis.score, expected.hypothesis.score);
}

}  // namespace
}  // namespace rtfx
