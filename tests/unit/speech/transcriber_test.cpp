// Transcriber on the quickstart checkpoint: order, errors of single files, long files, and decoders
// that fail.
#include "speech/transcriber.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <span>

#include "algorithms/decoder.h"
#include "models/load_checkpoint.h"
#include "speech/pipeline/pipeline.h"
#include "speech/pipeline/recorded_encoder.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

/// Keeps all that it is told.
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
  void notice(size_t, const std::string& text) override { notices.push_back(text); }

  std::vector<size_t> order, ends;  // of results, and with failures
  std::vector<std::vector<size_t>> batches;
  std::map<size_t, Transcription> results;
  std::map<size_t, std::string> failures;
  std::set<size_t> bad_inputs;  // of the failures
  std::vector<std::string> notices;
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
  EXPECT_EQ(notes.notices, std::vector<std::string>{});
  EXPECT_EQ(notes.results[0].seconds, 1);
  EXPECT_EQ(notes.failures.size(), 0U);
}

/// Results and failures stand in the order of the recordings, which batches have not.
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
  // The first window has the recordings of one batch, and the second one those of two.
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
  // A batch of so many seconds needs at most half of the memory.
  const auto rows = static_cast<int64_t>(seconds(1, 1) / 10);
  EXPECT_LE(2 * least_encoder_memory(*model(), rows, 160000), int64_t{1} << 30);
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

/// NaN in an fp32 model has another cause than the dtype.
TEST(RemedyForNan, NamesFp32OnlyWhereItWouldChangeSomething) {
  AcousticModel model;
  EXPECT_EQ(remedy_for_nan(model),
            "check the audio and the checkpoint: both were computed in fp32");
  model.encoder_dtype = at::kBFloat16;
  EXPECT_EQ(remedy_for_nan(model), "compute in dtype fp32");
  model.dtype = at::kBFloat16;
  EXPECT_EQ(remedy_for_nan(model), "compute in dtype fp32");
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

TEST_F(TranscriberTest, LongRecordingsAreCutAndStandAlone) {
  Notes notes;
  Transcriber(model(), label_looping, {.batch_size = 4, .long_above = 3, .chunk_seconds = 4})
      .run({quickstart(1), quickstart(4)}, notes);
  EXPECT_EQ(notes.order, (std::vector<size_t>{0, 1}));
  EXPECT_GT(notes.done, 3);
  for (const auto& batch : notes.batches) EXPECT_EQ(batch.size(), 1U);
}

/// Samples in memory give what their file gives, also where they are long or the decoder is shared.
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
    const TranscriberOptions options{.batch_size = 2, .long_above = long_above};
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
  Transcriber(model(), label_looping, {.batch_size = 1, .long_above = 3, .chunk_seconds = 1})
      .run(recordings, of_long);
  EXPECT_TRUE(of_long.ends.empty());
  EXPECT_EQ(of_long.batches.size(), 1U);
  Notes again;
  transcriber.run(recordings, again);
  EXPECT_EQ(again.order.size(), 3U);
}

}  // namespace
}  // namespace rtfx
