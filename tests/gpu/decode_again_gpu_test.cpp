// Tests on a GPU that parts without words are decoded again. Pieces of files are batches among
// those in flight, and a stream that starts over keeps its recorded step. Results are those of a
// CPU.
#include <c10/cuda/CUDAFunctions.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "algorithms/decoder.h"
#include "datasets/audio.h"
#include "models/load_checkpoint.h"
#include "speech/runtime/device.h"
#include "speech/streams/speech_streams.h"
#include "speech/transcriber.h"
#include "tests/support/long_audio_cases.h"

namespace rtfx {
namespace {

struct Results : TranscriptionObserver {
  void result(size_t recording, const Transcription& transcription) override {
    order.push_back(recording);
    all[recording] = transcription;
  }
  void failure(size_t recording, const std::string& message, bool) override {
    ADD_FAILURE() << recording << ": " << message;
  }
  void started(const std::vector<size_t>&) override { ++batches; }

  std::vector<size_t> order;
  std::map<size_t, Transcription> all;
  int batches = 0;
};

class DecodeAgainGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (c10::cuda::device_count() == 0) GTEST_SKIP() << "no GPU";
    const Checkpoint checkpoint = load_checkpoint("models/quickstart/quickstart-rnnt.nemo");
    for (const at::Device device : {at::Device(at::kCPU), at::Device(at::kCUDA, 0)})
      models_.push_back(AcousticModel::build(checkpoint, device, at::kFloat));
    for (const Utterance& u : test::quickstart_utterances()) {
      clips_.push_back(read_audio(u.audio).samples);
      std::vector<float>& joined = joined_.back();
      joined.insert(joined.end(), clips_.back().begin(), clips_.back().end());
      joined.resize(joined.size() + 8000);
      if (joined.size() > 24 * 16000) joined_.emplace_back();
    }
  }

  /// Returns a decoder that stays on blank after the first 3 s of each window of 12.8 s or more.
  static std::unique_ptr<Decoder> stuck(const AcousticModel& model) {
    const char* const name = model.device.is_cuda() ? "fused_looping" : "label_looping";
    return std::make_unique<test::Stuck>(make_decoder(name, {}, ""), 160);
  }

  std::vector<std::shared_ptr<const AcousticModel>> models_;  // one on the CPU, one on the GPU
  std::vector<std::vector<float>> clips_, joined_ = {{}};
};

/// Short recordings and recordings that stick run in batches of 2, of which six are in flight.
TEST_F(DecodeAgainGpu, FilesInBatchesInFlight) {
  std::vector<Recording> recordings;
  for (int round = 0; round < 2; ++round) {
    for (const auto& clip : clips_)
      recordings.push_back({"clip", {}, {}, std::span<const float>(clip)});
    for (const auto& clip : joined_)
      if (!clip.empty()) recordings.push_back({"joined", {}, {}, std::span<const float>(clip)});
  }
  std::vector<Results> results(2);
  for (size_t i = 0; i < 2; ++i) {
    const ThreadSettings settings(models_[i]->device);
    const auto choose = [&](const PrepareDecoder& prepare) {
      auto decoder = stuck(*models_[i]);
      prepare(*decoder);
      return decoder;
    };
    Transcriber(models_[i], choose, {.batch_size = 2}).run(recordings, results[i]);
  }
  ASSERT_EQ(results[1].all.size(), recordings.size());
  EXPECT_TRUE(std::ranges::is_sorted(results[1].order));
  EXPECT_GT(results[1].batches, static_cast<int>(recordings.size()) / 2) << "none is of pieces";
  size_t again = 0;
  for (size_t r = 0; r < recordings.size(); ++r) {
    const Transcription &cpu = results[0].all.at(r), &gpu = results[1].all.at(r);
    EXPECT_EQ(gpu.hypothesis.tokens, cpu.hypothesis.tokens) << r;
    EXPECT_EQ(gpu.hypothesis.frames, cpu.hypothesis.frames) << r;
    const auto &of_cpu = cpu.transcript.decoded_again, &of_gpu = gpu.transcript.decoded_again;
    ASSERT_EQ(of_gpu.size(), of_cpu.size()) << r;
    for (size_t p = 0; p < of_cpu.size(); ++p) {
      EXPECT_EQ(of_gpu[p].words, of_cpu[p].words) << r;
      EXPECT_EQ(of_gpu[p].decodes, of_cpu[p].decodes) << r;
      EXPECT_DOUBLE_EQ(of_gpu[p].start, of_cpu[p].start) << r;
    }
    again += of_gpu.size();
  }
  EXPECT_GE(again, 2U);
}

/// One of two streams sticks. The text of each equals that on a CPU.
TEST_F(DecodeAgainGpu, Streams) {
  std::vector<std::vector<std::vector<int32_t>>> tokens(2);
  std::vector<size_t> again(2);
  for (size_t i = 0; i < 2; ++i) {
    const ThreadSettings settings(models_[i]->device);
    auto decoder = stuck(*models_[i]);
    decoder->prepare(models_[i], {});
    StreamOptions options;
    options.streams = 2;
    options.buffer = BufferSeconds{2, 6, 1};
    SpeechStreams speech(models_[i], *decoder, options, {}, 4);
    const std::vector<int64_t> streams = {speech.open(), speech.open()};
    const std::vector<const std::vector<float>*> audio = {&joined_[0], &clips_[0]};
    tokens[i].resize(2);
    const auto work = [&] {
      for (auto updates = speech.step(); !updates.empty(); updates = speech.step()) {
        for (const SpeechUpdate& update : updates) {
          again[i] += update.again.size();
          if (update.closed)
            tokens[i][update.stream == streams[0] ? 0 : 1] = update.result.best.tokens;
        }
      }
    };
    for (size_t at = 0; at < audio[0]->size(); at += 8000) {
      for (size_t s = 0; s < 2; ++s) {
        const auto left = std::span(*audio[s]).subspan(std::min(at, audio[s]->size()));
        if (!left.empty()) speech.push(streams[s], left.first(std::min<size_t>(8000, left.size())));
      }
      work();
    }
    for (const int64_t stream : streams) speech.finish(stream);
    work();
  }
  EXPECT_GT(again[0], 1U);
  EXPECT_EQ(again[1], again[0]);
  EXPECT_GT(tokens[0][0].size(), 25U);
  EXPECT_EQ(tokens[1], tokens[0]);
}

}  // namespace
}  // namespace rtfx
