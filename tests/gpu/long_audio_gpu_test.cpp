// Tests that long audio on a GPU gives the results of a CPU. Its batches are copied, encoded and
// searched on separate streams.
#include <c10/cuda/CUDAFunctions.h>
#include <gtest/gtest.h>

#include "algorithms/decoder.h"
#include "datasets/audio.h"
#include "models/load_checkpoint.h"
#include "speech/runtime/device.h"
#include "tests/support/long_audio_cases.h"

namespace rtfx {
namespace {

class LongAudioGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (c10::cuda::device_count() == 0) GTEST_SKIP() << "no GPU";
    const Checkpoint checkpoint = load_checkpoint("models/quickstart/quickstart-rnnt.nemo");
    for (const at::Device device : {at::Device(at::kCPU), at::Device(at::kCUDA, 0)})
      models_.push_back(AcousticModel::build(checkpoint, device, at::kFloat));
    // Two minutes give more batches than are in flight, and put sentences into different batches.
    for (int round = 0; round < 2; ++round) {
      for (const Utterance& u : test::quickstart_utterances()) {
        const std::vector<float> samples = read_audio(u.audio).samples;
        samples_.insert(samples_.end(), samples.begin(), samples.end());
        samples_.resize(samples_.size() + 3200 * static_cast<size_t>(round));
      }
    }
  }

  /// Returns the results of decoder `name` on the CPU, then those of `on_gpu` on the GPU.
  std::vector<LongResult> transcribe(const char* name, const char* on_gpu,
                                     const LongAudioOptions& options, bool with_confidence,
                                     bool stuck = false) const {
    std::vector<LongResult> results;
    for (const auto& model : models_) {
      const ThreadSettings settings(model->device);
      std::unique_ptr<Decoder> decoder =
          make_decoder(model->device.is_cuda() ? on_gpu : name, {}, "");
      if (stuck) decoder = std::make_unique<test::Stuck>(std::move(decoder));
      decoder->prepare(model, {});
      std::optional<Confidence> confidence;
      if (with_confidence) confidence.emplace(model, Head::transducer, ConfidenceOptions());
      RecordedEncoder encoder(model, /*graphs=*/true);
      LongAudio audio(options, *model, encoder, *decoder, confidence ? &*confidence : nullptr);
      results.push_back(audio.transcribe(source_of(samples_, model->device.is_cuda() ? 4 : 1)));
    }
    return results;
  }

  static void expect_equal(const std::vector<LongResult>& results) {
    const LongResult &cpu = results.at(0), &gpu = results.at(1);
    EXPECT_GT(cpu.hypothesis.tokens.size(), 200U);
    EXPECT_EQ(gpu.hypothesis.tokens, cpu.hypothesis.tokens);
    EXPECT_EQ(gpu.hypothesis.frames, cpu.hypothesis.frames);
    EXPECT_NEAR(gpu.hypothesis.score, cpu.hypothesis.score, 1e-3 * std::abs(cpu.hypothesis.score));
    ASSERT_EQ(gpu.again.size(), cpu.again.size());
    for (size_t i = 0; i < cpu.again.size(); ++i) {
      EXPECT_EQ(gpu.again[i].blocks, cpu.again[i].blocks) << i;
      EXPECT_EQ(gpu.again[i].words, cpu.again[i].words) << i;
    }
    ASSERT_EQ(gpu.evidence.confidence.size(), cpu.evidence.confidence.size());
    for (size_t i = 0; i < cpu.evidence.confidence.size(); ++i)
      EXPECT_NEAR(gpu.evidence.confidence[i], cpu.evidence.confidence[i], 1e-3) << i;
  }

  std::vector<std::shared_ptr<const AcousticModel>> models_;
  std::vector<float> samples_;
};

TEST_F(LongAudioGpu, TokensFramesAndConfidence) {
  const LongAudioOptions options{.chunk_seconds = 3, .batch = 4};
  for (const char* const decoder : {"label_looping", "fused_looping"}) {
    SCOPED_TRACE(decoder);
    expect_equal(transcribe("label_looping", decoder, options, /*with_confidence=*/true));
  }
  expect_equal(transcribe("ctc_greedy", "ctc_greedy", options, false));
}

/// The thread that searches encodes a part again, while another thread encodes the next batches.
TEST_F(LongAudioGpu, WhatASearchThatIsStuckLeavesOut) {
  const auto results = transcribe("label_looping", "label_looping",
                                  {.chunk_seconds = 8, .batch = 2}, false, /*stuck=*/true);
  EXPECT_GT(results[0].again.size(), 3U);
  expect_equal(results);
}

}  // namespace
}  // namespace rtfx
