// Tests Transcriber on the quickstart checkpoint: order, errors of single files, long files, and
// decoders that fail.
#include "speech/transcriber.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <span>

#include "algorithms/decoder.h"
#include "models/load_checkpoint.h"
#include "speech/pipeline/encoder_memory.h"
#include "speech/pipeline/pipeline.h"
#include "tests/support/long_audio_cases.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

/// Records everything that an observer is told.
struct Notes : TranscriptionObserver {
  void result(size_t recording, const Transcription& transcription) override {
    order.push_back(recording);
    ends.push_back(recording);
    results[recording] = transcription;
  }
  void failure(size_t recording, const std::string& message, bool bad_input) override {
    ends.push_back(recording);
    if (bad_input) bad_inputs.insert(recording);
    failures[recording] = message;
  }
  void started(const std::vector<size_t>& recordings) override { batches.push_back(recordings); }
  void progress(size_t, double seconds) override { done = seconds; }
  void notice(size_t recording, const std::string& text) override {
    notices[recording].push_back(text);
  }

  std::vector<size_t> order, ends;  // with results, and with results or failures
  std::vector<std::vector<size_t>> batches;
  std::map<size_t, Transcription> results;
  std::map<size_t, std::string> failures;
  std::set<size_t> bad_inputs;  // failures by bad input
  std::map<size_t, std::vector<std::string>> notices;
  double done = 0;
};

class FailingDecoder : public Decoder {
 public:
  Description describe() const override {
    return {"failing", Head::none, Description::Exactness::approximate, {}, ""};
  }
  nlohmann::json options() const override { return nlohmann::json::object(); }
  void prepare(std::shared_ptr<const AcousticModel>, const Limits&) override {}
  Hypotheses decode(const EncodedBatch& batch) override {
    if (++batches_ == 1) throw std::runtime_error("the first batch");
    return Hypotheses::empty(batch.frames.size(0), batch.frames.device());
  }

 private:
  int batches_ = 0;
};

class TranscriberTest : public test::TempFolder {
 protected:
  static std::shared_ptr<const AcousticModel> model() {
    static const std::shared_ptr<const AcousticModel> kModel = AcousticModel::build(
        load_checkpoint("models/quickstart/quickstart-rnnt.nemo"), at::kCPU, at::kFloat);
    return kModel;
  }

  static std::unique_ptr<Decoder> label_looping(const PrepareDecoder& prepare) {
    auto decoder = make_decoder("label_looping", {}, "");
    prepare(*decoder);
    return decoder;
  }

  static Recording quickstart(int number) {
    const std::string name = fmt::format("qs{:02}", number);
    return {name, "datasets/quickstart/" + name + ".flac"};
  }
};

TEST_F(TranscriberTest, ResultsComeInOrderWhateverTheBatch) {
  const std::vector<Recording> recordings = {quickstart(1), quickstart(4), quickstart(6)};
  Notes one, three;
  Transcriber(model(), label_looping, {.batch_size = 1}).run(recordings, one);
  const auto totals = Transcriber(model(), label_looping, {.batch_size = 3}).run(recordings, three);
  EXPECT_EQ(three.order, (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(one.batches.size(), 3U);
  ASSERT_EQ(three.batches.size(), 1U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_GE(three.results[three.batches[0][i]].seconds,
              three.results[three.batches[0][i + 1]].seconds);
  }
  double seconds = 0;
  for (const auto& [i, result] : three.results) {
    EXPECT_EQ(result.hypothesis.tokens, one.results[i].hypothesis.tokens) << i;
    EXPECT_FALSE(result.transcript.words.empty()) << i;
    seconds += result.seconds;
  }
  EXPECT_DOUBLE_EQ(totals.audio_seconds, seconds);
}

TEST_F(TranscriberTest, FilesAreReadAtTheRateOfTheModel) {
  Checkpoint checkpoint = load_checkpoint("models/quickstart/quickstart-rnnt.nemo");
  checkpoint.config.features.sample_rate = 8000;
  const std::shared_ptr<const AcousticModel> narrow =
      AcousticModel::build(checkpoint, at::kCPU, at::kFloat);
  write_audio("a.wav", test::sine(440, 8000, 8000), SF_FORMAT_WAV | SF_FORMAT_PCM_16, 8000);
  Notes notes;
  Transcriber(narrow, label_looping, {.batch_size = 1}).run({{"a", path("a.wav")}}, notes);
  EXPECT_TRUE(notes.notices.empty());
  EXPECT_EQ(notes.results[0].seconds, 1);
  EXPECT_EQ(notes.failures.size(), 0U);
}

/// Results and failures come in the order of the recordings, though batches have another order.
TEST_F(TranscriberTest, TheLongestOfAWindowComeFirst) {
  std::vector<Recording> recordings;
  for (const int number : {1, 4, 6, 7, 9, 10, 13, 15, 17, 20})
    recordings.push_back(quickstart(number));
  recordings[5] = {"the bad one", write("bad.flac", "no audio")};
  Notes one, three;
  Transcriber(model(), label_looping, {.batch_size = 1, .with_times = false}).run(recordings, one);
  Transcriber(model(), label_looping, {.batch_size = 3, .with_times = false})
      .run(recordings, three);
  EXPECT_EQ(three.order, (std::vector<size_t>{0, 1, 2, 3, 4, 6, 7, 8, 9}));
  EXPECT_EQ(three.order, one.order);
  EXPECT_EQ(three.failures, one.failures);
  EXPECT_EQ(three.ends, (std::vector<size_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  for (const auto& [i, result] : one.results)
    EXPECT_EQ(three.results[i].hypothesis.tokens, result.hypothesis.tokens) << i;
  // The first pool has the recordings of one batch, and the second one those of two.
  ASSERT_EQ(three.batches.size(), 3U);
  EXPECT_EQ(std::set<size_t>(three.batches[0].begin(), three.batches[0].end()),
            (std::set<size_t>{0, 1, 2}));
  std::vector<double> lengths;
  for (size_t b = 1; b <= 2; ++b)
    for (const size_t i : three.batches[b]) lengths.push_back(three.results[i].seconds);
  EXPECT_EQ(lengths.size(), 6U);
  EXPECT_TRUE(std::ranges::is_sorted(lengths, std::ranges::greater()));
}

TEST_F(TranscriberTest, TheSizeOfABatchFollowsFromTheFreeMemory) {
  const auto seconds = [](int64_t gibibytes, size_t in_flight) {
    return fitting_batch_seconds(*model(), gibibytes << 30, in_flight);
  };
  EXPECT_EQ(seconds(0, 6), 30);
  EXPECT_EQ(seconds(1 << 10, 6), 2400);
  EXPECT_NEAR(seconds(2, 6) / seconds(1, 6), 2, 1e-9);
  EXPECT_LT(seconds(1, 6), seconds(1, 1));
  // A batch of this many seconds needs at most half of the memory.
  const auto rows = static_cast<int64_t>(seconds(1, 1) / 10);
  EXPECT_LE(2 * least_encoder_memory(*model(), rows, 160000), int64_t{1} << 30);
}

TEST_F(TranscriberTest, AsManyChunksAreEncodedTogetherAsFit) {
  const int64_t samples = int64_t{600} * 16000;
  const auto chunks = [&](int64_t free) {
    return fitting_chunks(*model(), 8, samples, free, "long.wav");
  };
  const auto bytes = [&](int64_t rows) { return least_encoder_memory(*model(), rows, samples); };
  EXPECT_EQ(chunks(2 * bytes(8)), 8);
  EXPECT_EQ(chunks(2 * bytes(8) - 1), 7);
  EXPECT_EQ(chunks(2 * bytes(3)), 3);
  EXPECT_EQ(chunks(bytes(1)), 1);
  const std::string error = test::user_error([&] { chunks(bytes(1) - 1); });
  EXPECT_HAS(error, "long.wav: encoding 600 s of audio needs at least");
  EXPECT_HAS(error, "choose shorter chunks");
}

TEST_F(TranscriberTest, ChunksThatDoNotFitCostTheirRecording) {
  const auto hours = write_audio("hours.wav", std::vector<float>(20000 * 1000),
                                 SF_FORMAT_WAV | SF_FORMAT_PCM_16, 1000);
  Notes notes;
  Transcriber(model(), label_looping, {.cuts = {.long_above = 60, .chunk_seconds = 1e5}})
      .run({{"hours", hours}, quickstart(1)}, notes);
  EXPECT_EQ(notes.order, std::vector<size_t>{1});
  EXPECT_HAS(notes.failures[0], "hours: encoding 20000 s of audio needs at least");
}

TEST(ReadClip, NamesARecordingWithoutTheLanguageThatItNeeds) {
  PromptConfig prompts;
  prompts.count = 2;
  prompts.languages = {{"de-DE", 1}, {"en", 0}};
  ReadingRules rules;
  rules.prompts = &prompts;
  rules.is_long = [](double) { return false; };
  rules.require_memory = [](double, const std::string&) {};
  const std::vector<float> samples(16000);
  Recording recording{"a.wav", {}, {}, std::span<const float>(samples), "de-DE"};
  EXPECT_EQ(read_clip(recording, 0, rules).prompt, 1);
  recording.language.reset();
  EXPECT_HAS(test::user_error([&] { read_clip(recording, 0, rules); }),
             "a.wav: the model needs a language for each utterance; state one");
  prompts.standard = 0;
  EXPECT_EQ(read_clip(recording, 0, rules).prompt, 0);
}

TEST_F(TranscriberTest, AFileThatCannotBeReadCostsItself) {
  const auto bad = write("bad.flac", "no audio");
  Notes notes;
  Transcriber(model(), label_looping, {.batch_size = 2, .with_times = false})
      .run({quickstart(1), {"the bad one", bad}, quickstart(4)}, notes);
  EXPECT_EQ(notes.order, (std::vector<size_t>{0, 2}));
  ASSERT_EQ(notes.failures.size(), 1U);
  EXPECT_TRUE(notes.failures[1].starts_with("the bad one: ")) << notes.failures[1];
  EXPECT_TRUE(notes.bad_inputs.contains(1));
  EXPECT_TRUE(notes.results[0].transcript.words.empty());
  EXPECT_FALSE(notes.results[0].transcript.text.empty());
}

/// In an fp32 model, NaN has another cause than the dtype.
TEST(RemedyForNan, NamesFp32OnlyWhereItWouldChangeSomething) {
  AcousticModel model;
  EXPECT_EQ(remedy_for_nan(model),
            "check the audio and the checkpoint: both were computed in fp32");
  model.encoder_dtype = at::kBFloat16;
  EXPECT_EQ(remedy_for_nan(model), "compute in dtype fp32");
  model.dtype = at::kBFloat16;
  EXPECT_EQ(remedy_for_nan(model), "compute in dtype fp32");
}

TEST(NanProblem, NamesTheGraphOrTheLanguageModelsDoing) {
  EXPECT_EQ(nan_problem(*make_decoder("label_looping", {}, "")), "NaN in the emissions");
  EXPECT_EQ(nan_problem(*make_decoder("ctc_wfst_cpu", {{"graph", "tests/data/words.arpa"}}, "")),
            "no path through the graph, or NaN in the emissions");
  const nlohmann::json lm = {{"lm", {{"path", "tests/data/words.arpa"}}}};
  EXPECT_EQ(nan_problem(*make_decoder("aes", lm, "")),
            "no hypothesis with a finite score, or NaN in the emissions");
  EXPECT_EQ(nan_problem(*make_decoder("aes", {}, "")), "NaN in the emissions");
}

TEST_F(TranscriberTest, ABatchThatFailsCostsItsRecordings) {
  const auto failing = [](const PrepareDecoder& prepare) {
    std::unique_ptr<Decoder> decoder = std::make_unique<FailingDecoder>();
    prepare(*decoder);
    return decoder;
  };
  Notes notes;
  Transcriber(model(), failing, {.batch_size = 2, .with_times = false})
      .run({quickstart(1), quickstart(4), quickstart(6)}, notes);
  ASSERT_EQ(notes.batches.size(), 2U);
  ASSERT_EQ(notes.batches[0].size(), 2U);
  EXPECT_EQ(notes.order, notes.batches[1]);
  EXPECT_EQ(notes.ends, (std::vector<size_t>{0, 1, 2}));
  ASSERT_EQ(notes.failures.size(), 2U);
  const std::vector<std::string> names = {"qs01", "qs04", "qs06"};
  for (const size_t i : notes.batches[0])
    EXPECT_EQ(notes.failures[i], names[i] + ": the first batch");
  EXPECT_TRUE(notes.bad_inputs.empty());
}

/// Throws when the first recording is read, or when the first batch begins.
struct ThrowingNotes : Notes {
  explicit ThrowingNotes(bool where_it_is_read) : where_it_is_read_(where_it_is_read) {}
  void reading(size_t) override {
    if (where_it_is_read_) throw std::runtime_error("the disk is full");
  }
  void started(const std::vector<size_t>&) override {
    if (!where_it_is_read_) throw std::runtime_error("the disk is full");
  }

 private:
  bool where_it_is_read_;
};

TEST_F(TranscriberTest, AnObserverThatThrowsEndsThePass) {
  Transcriber transcriber(model(), label_looping, {.batch_size = 1});
  for (const bool where_it_is_read : {true, false}) {
    ThrowingNotes notes(where_it_is_read);
    EXPECT_THROW(transcriber.run({quickstart(1), quickstart(4)}, notes), std::runtime_error);
    EXPECT_TRUE(notes.ends.empty());
  }
}

TEST_F(TranscriberTest, LongRecordingsAreCutAndStandAlone) {
  Notes notes;
  Transcriber(model(), label_looping,
              {.batch_size = 4, .cuts = {.long_above = 3, .chunk_seconds = 4}})
      .run({quickstart(1), quickstart(4)}, notes);
  EXPECT_EQ(notes.order, (std::vector<size_t>{0, 1}));
  EXPECT_GT(notes.done, 3);
  for (const auto& batch : notes.batches) EXPECT_EQ(batch.size(), 1U);
}

/// Samples in memory give the results of their file. This also holds for long ones, and for a
/// decoder that is shared.
TEST_F(TranscriberTest, SamplesInMemoryGiveWhatTheirFileGives) {
  const std::shared_ptr<Decoder> shared =
      label_looping([](Decoder& decoder) { decoder.prepare(model(), {}); });
  const auto choose = [&](const PrepareDecoder&) { return shared; };
  const std::vector<Recording> files = {quickstart(1), quickstart(4), quickstart(6)};
  std::vector<Audio> audio;
  for (const Recording& file : files) audio.push_back(read_audio(file.audio));
  std::vector<Recording> clips;
  for (size_t i = 0; i < files.size(); ++i)
    clips.push_back({files[i].name, {}, {}, std::span<const float>(audio[i].samples)});
  std::vector<float> with_nan = audio[0].samples;
  with_nan[7] = std::numeric_limits<float>::quiet_NaN();
  clips.push_back({"audio[3]", {}, {}, std::span<const float>(with_nan)});
  clips.push_back({"audio[4]", {}, {}, std::span<const float>()});
  for (const double long_above : {600., 3.}) {
    Notes of_files, of_clips;
    const TranscriberOptions options{.batch_size = 2, .cuts = {.long_above = long_above}};
    const auto totals = Transcriber(model(), label_looping, options).run(files, of_files);
    EXPECT_EQ(Transcriber(model(), choose, options).run(clips, of_clips).audio_seconds,
              totals.audio_seconds);
    EXPECT_EQ(of_clips.done > 0, long_above == 3);
    EXPECT_EQ(of_clips.order, (std::vector<size_t>{0, 1, 2}));
    for (const size_t i : of_files.order) {
      EXPECT_EQ(of_clips.results[i].hypothesis, of_files.results[i].hypothesis) << i;
      EXPECT_EQ(of_clips.results[i].transcript.words.size(),
                of_files.results[i].transcript.words.size());
    }
    EXPECT_TRUE(of_clips.failures[3].starts_with("audio[3]: sample 7 is NaN"));
    EXPECT_TRUE(of_clips.failures[4].starts_with("audio[4]: no samples"));
    EXPECT_EQ(of_clips.bad_inputs, (std::set<size_t>{3, 4}));
  }
}

/// Stops after the first result, or after the first part of a long recording.
struct StoppedNotes : Notes {
  bool stopped() override { return !ends.empty() || done > 0; }
};

TEST_F(TranscriberTest, NothingMoreIsBegunOnceItIsStopped) {
  const std::vector<Recording> recordings = {quickstart(1), quickstart(4), quickstart(6)};
  StoppedNotes notes, of_long;
  Transcriber transcriber(model(), label_looping, {.batch_size = 1});
  transcriber.run(recordings, notes);
  EXPECT_EQ(notes.ends, std::vector<size_t>{0});
  EXPECT_EQ(notes.batches.size(), 1U);
  Transcriber(model(), label_looping,
              {.batch_size = 1, .cuts = {.long_above = 3, .chunk_seconds = 1}})
      .run(recordings, of_long);
  EXPECT_TRUE(of_long.ends.empty());
  EXPECT_EQ(of_long.batches.size(), 1U);
  // A long recording that waits behind a batch is not opened.
  StoppedNotes before_long;
  Transcriber(model(), label_looping, {.batch_size = 2, .cuts = {.long_above = 5}})
      .run({quickstart(1), quickstart(4)}, before_long);
  EXPECT_EQ(before_long.ends, std::vector<size_t>{0});
  EXPECT_EQ(before_long.batches.size(), 1U);
  Notes again;
  transcriber.run(recordings, again);
  EXPECT_EQ(again.order.size(), 3U);
}

/// Stops once the second batch has begun.
struct StoppedInSecondBatch : Notes {
  bool stopped() override { return batches.size() > 1; }
};

TEST_F(TranscriberTest, ResultsThatWaitForOthersAreGivenWhereItIsStopped) {
  std::vector<Recording> recordings;
  for (const size_t seconds : {1, 1, 1, 1, 2, 2}) {
    const std::string name = fmt::format("{}.wav", recordings.size());
    recordings.push_back({name, write_audio(name, test::sine(440, 16000, 16000 * seconds))});
  }
  StoppedInSecondBatch notes;
  Transcriber(model(), label_looping, {.batch_size = 2}).run(recordings, notes);
  // The longest recordings of the second pool form the second batch.
  EXPECT_EQ(notes.ends, (std::vector<size_t>{0, 1, 4, 5}));
}

// The following tests decode speech without words again.

/// A decoder with a head that finds nothing. Its decode() throws in the calls `failing` to
/// `end` - 1.
class Mute : public Decoder {
 public:
  explicit Mute(int failing = 1 << 20, int end = 1 << 20) : failing_(failing), end_(end) {}
  Description describe() const override {
    return {"mute", Head::transducer, Description::Exactness::approximate, {}, ""};
  }
  nlohmann::json options() const override { return nlohmann::json::object(); }
  void prepare(std::shared_ptr<const AcousticModel>, const Limits&) override {}
  Hypotheses decode(const EncodedBatch& batch) override {
    const int call = calls_++;
    if (call >= failing_ && call < end_) throw std::runtime_error("no second time");
    return Hypotheses::empty(batch.frames.size(0), batch.frames.device());
  }

 private:
  int failing_, end_, calls_ = 0;
};

class DecodeAgainTest : public TranscriberTest {
 protected:
  /// Returns the quickstart's utterances with 0.5 s between them, 32 s or a little more.
  static const std::vector<float>& half_a_minute() {
    static const std::vector<float> kSamples = [] {
      std::vector<float> samples;
      for (const Utterance& u : test::quickstart_utterances()) {
        if (samples.size() > 32 * 16000) break;
        const std::vector<float> one = read_audio(u.audio).samples;
        samples.insert(samples.end(), one.begin(), one.end());
        samples.resize(samples.size() + 8000);
      }
      return samples;
    }();
    return kSamples;
  }

  static std::vector<Recording> three() {
    return {quickstart(1),
            {"half a minute", {}, {}, std::span<const float>(half_a_minute())},
            quickstart(4)};
  }

  template <class Made>
  static Notes transcribe(const Made& make, TranscriberOptions options) {
    options.batch_size = 3;
    Notes notes;
    const auto choose = [&](const PrepareDecoder& prepare) {
      std::unique_ptr<Decoder> decoder = make();
      prepare(*decoder);
      return decoder;
    };
    Transcriber(model(), choose, options).run(three(), notes);
    return notes;
  }

  static Notes plain(const TranscriberOptions& options = {}) {
    return transcribe([] { return make_decoder("label_looping", {}, ""); }, options);
  }
  /// Transcribes with a decoder that stays on blank after 3 s, in windows of at least `window`
  /// frames.
  static Notes stuck(int64_t window, const TranscriberOptions& options = {},
                     const char* decoder = "label_looping", const nlohmann::json& with = {}) {
    return transcribe(
        [&] { return std::make_unique<test::Stuck>(make_decoder(decoder, with, ""), window); },
        options);
  }
};

TEST_F(DecodeAgainTest, WordsComeBackByAnotherCut) {
  const Notes expected = plain();
  const size_t words = expected.results.at(1).transcript.words.size();
  EXPECT_TRUE(expected.results.at(1).transcript.decoded_again.empty());
  EXPECT_LT(stuck(160, {.decode_again = 0}).results[1].transcript.words.size(), words / 4);
  // Pieces of 12 s are short enough for the first window. The second window needs the pieces of 6 s
  // of a second decode. That decode takes place if at least `again` / 2 seconds without a token are
  // left that contain 1.5 s of speech.
  for (const auto& [window, again, decodes] : {std::tuple{160, 16, 1}, std::tuple{100, 8, 2}}) {
    const Notes notes = stuck(window, {.decode_again = static_cast<double>(again)});
    EXPECT_EQ(notes.order, (std::vector<size_t>{0, 1, 2}));
    EXPECT_EQ(notes.batches.front().size(), 3U);
    EXPECT_GT(notes.batches.size(), 1U) << "pieces are batches of their own";
    for (const size_t other : {0U, 2U})
      EXPECT_EQ(notes.results.at(other).hypothesis, expected.results.at(other).hypothesis);
    const Transcription& result = notes.results.at(1);
    const Transcript& transcript = result.transcript;
    EXPECT_GE(5 * transcript.words.size(), 4 * words) << transcript.text;
    EXPECT_LE(4 * transcript.words.size(), 5 * words) << transcript.text;
    EXPECT_TRUE(std::ranges::is_sorted(result.hypothesis.frames));
    EXPECT_EQ(transcript.text, model()->tokenizer->text(result.hypothesis.tokens));
    ASSERT_EQ(transcript.decoded_again.size(), 1U);
    const DecodedAgain& part = transcript.decoded_again[0];
    EXPECT_EQ(part.decodes, decodes);
    EXPECT_GT(part.words, 20);
    EXPECT_LT(part.start, 5);
    EXPECT_GT(part.end, result.seconds - 1.5);
    EXPECT_LE(part.end, result.seconds);
    EXPECT_EQ(notes.notices.at(1), std::vector<std::string>{notice_of(part)});
    EXPECT_FALSE(notes.notices.contains(0));
  }
}

TEST_F(DecodeAgainTest, ConfidencesAndListsGoWithTheTokens) {
  const Notes notes = stuck(160, {.confidence = ConfidenceOptions()});
  const Transcript& transcript = notes.results.at(1).transcript;
  EXPECT_EQ(transcript.decoded_again.size(), 1U);
  ASSERT_GT(transcript.words.size(), 30U);
  for (const TimedWord& word : transcript.words) {
    EXPECT_GE(word.confidence, 0) << word.text;
    EXPECT_LE(word.confidence, 1) << word.text;
  }
  // Without a request, words have no confidences, although these decide what counts.
  EXPECT_TRUE(std::isnan(stuck(160).results.at(1).transcript.words.back().confidence));
}

/// No token is confident by the requested measure. The default measure still decides what is kept.
TEST_F(DecodeAgainTest, TheMeasureThatIsAskedForKeepsNoOtherWords) {
  const ConfidenceOptions low{.entropy = "tsallis", .alpha = 0.01};
  for (const double long_above : {600., 20.}) {
    const TranscriberOptions options{.cuts = {.long_above = long_above, .chunk_seconds = 12}};
    TranscriberOptions asked = options;
    asked.confidence = low;
    const Notes expected = stuck(160, options), notes = stuck(160, asked);
    EXPECT_EQ(notes.notices, expected.notices);
    EXPECT_EQ(notes.results.at(1).hypothesis, expected.results.at(1).hypothesis);
    const Transcript& transcript = notes.results.at(1).transcript;
    ASSERT_FALSE(transcript.decoded_again.empty());
    EXPECT_GT(transcript.decoded_again[0].words, 0);
    for (const TimedWord& word : transcript.words)
      EXPECT_LT(word.confidence, kLeastConfidence) << word.text;
  }
}

TEST_F(DecodeAgainTest, TheRunsOfCtcGoWithTheTokens) {
  const Notes expected = transcribe([] { return make_decoder("ctc_greedy", {}, ""); }, {});
  const Notes notes = stuck(160, {}, "ctc_greedy");
  const Transcript& transcript = notes.results.at(1).transcript;
  ASSERT_EQ(transcript.decoded_again.size(), 1U);
  EXPECT_NEAR(static_cast<double>(transcript.words.size()),
              static_cast<double>(expected.results.at(1).transcript.words.size()), 15);
  EXPECT_TRUE(std::ranges::is_sorted(transcript.words, {}, &TimedWord::start));
}

TEST_F(DecodeAgainTest, LongRecordingsAreDecodedAgainInTheirChunks) {
  const TranscriberOptions options{.cuts = {.long_above = 20, .chunk_seconds = 12}};
  const Notes expected = plain(options);
  const Notes notes = stuck(160, options);
  const Transcript& transcript = notes.results.at(1).transcript;
  EXPECT_GE(transcript.decoded_again.size(), 2U);
  EXPECT_GT(transcript.words.size(), expected.results.at(1).transcript.words.size() / 2);
  EXPECT_EQ(notes.notices.at(1).size(), transcript.decoded_again.size());
  EXPECT_TRUE(stuck(160, {.cuts = {.long_above = 20, .chunk_seconds = 12}, .decode_again = 0})
                  .results.at(1)
                  .transcript.decoded_again.empty());
}

TEST_F(DecodeAgainTest, WhatStaysWithoutWordsIsTold) {
  const Notes notes = transcribe([] { return std::make_unique<Mute>(); }, {});
  EXPECT_EQ(notes.order, (std::vector<size_t>{0, 1, 2}));
  for (size_t i = 0; i < 3; ++i) {
    const auto& again = notes.results.at(i).transcript.decoded_again;
    ASSERT_EQ(again.size(), 1U) << i;
    EXPECT_EQ(again[0].words, 0);
    EXPECT_EQ(again[0].decodes, 2);
    ASSERT_EQ(notes.notices.at(i).size(), 1U);
    EXPECT_TRUE(notes.notices.at(i)[0].starts_with("speech energy without words from 0.")) << i;
    EXPECT_TRUE(notes.results.at(i).hypothesis.tokens.empty());
  }
}

/// The first result is kept, and the other recordings lose nothing either.
TEST_F(DecodeAgainTest, ADecodeThatFailsLosesNothing) {
  const Notes notes = transcribe([] { return std::make_unique<Mute>(/*failing=*/1); }, {});
  EXPECT_EQ(notes.order, (std::vector<size_t>{0, 1, 2}));
  EXPECT_TRUE(notes.failures.empty());
  EXPECT_EQ(notes.notices.at(1).front(), "decoding a part again failed: no second time");
}

/// The batch that fails is one of a later piece, or one of all pieces of a part.
TEST_F(DecodeAgainTest, EachBatchThatFailsIsToldOnce) {
  for (const auto& [batch_size, failing] : {std::pair{1, 2}, std::pair{8, 1}}) {
    const auto mute = [failing = failing](const PrepareDecoder&) {
      return std::make_unique<Mute>(failing, failing + 1);
    };
    Notes notes;
    Transcriber(model(), mute, {.batch_size = batch_size})
        .run({{"half a minute", {}, {}, std::span<const float>(half_a_minute())}}, notes);
    EXPECT_EQ(notes.order, std::vector<size_t>{0});
    const std::vector<std::string>& told = notes.notices.at(0);
    ASSERT_EQ(told.size(), 2U) << batch_size;
    EXPECT_EQ(told[0], "decoding a part again failed: no second time");
    EXPECT_TRUE(told[1].starts_with("speech energy without words from 0.")) << told[1];
  }
}

/// Silence and steady noise without words cost no further decode.
TEST_F(DecodeAgainTest, SilenceIsNotDecodedAgain) {
  std::vector<float> noise(30 * 16000), none(30 * 16000);
  for (size_t i = 0; i < noise.size(); ++i)
    noise[i] = 0.02F * (static_cast<float>(i * 7919 % 1009) / 504.5F - 1);
  Notes notes;
  const auto mute = [](const PrepareDecoder&) { return std::make_unique<Mute>(); };
  Transcriber(model(), mute, {.batch_size = 2})
      .run({{"noise", {}, {}, std::span<const float>(noise)},
            {"none", {}, {}, std::span<const float>(none)}},
           notes);
  EXPECT_EQ(notes.batches.size(), 1U);
  EXPECT_TRUE(notes.notices.empty());
}

}  // namespace
}  // namespace rtfx
