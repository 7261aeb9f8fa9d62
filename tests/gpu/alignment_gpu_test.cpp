// Tests that forced alignment on a GPU equals that on the CPU: CTC in every bit, a transducer up to
// rounding.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <gtest/gtest.h>

#include <random>

#include "algorithms/shared/alignment/ctc_alignment.h"
#include "algorithms/shared/alignment/transducer_alignment.h"
#include "tests/support/alignment_cases.h"
#include "tests/support/small_model.h"

namespace rtfx {
namespace {

const at::Device device(at::kCUDA, 0);

void expect_equal(const std::vector<Alignment>& found, const std::vector<Alignment>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t b = 0; b < found.size(); ++b) {
    SCOPED_TRACE("row " + std::to_string(b));
    EXPECT_EQ(found[b].hypothesis.tokens, expected[b].hypothesis.tokens);
    EXPECT_EQ(found[b].hypothesis.frames, expected[b].hypothesis.frames);
    EXPECT_EQ(found[b].hypothesis.score, expected[b].hypothesis.score);
    EXPECT_EQ(found[b].hypothesis.nan, expected[b].hypothesis.nan);
    EXPECT_EQ(found[b].evidence.runs, expected[b].evidence.runs);
    EXPECT_EQ(found[b].evidence.confidence, expected[b].evidence.confidence);
  }
}

struct Size {
  int64_t rows, frames, labels, tokens;
};

class AlignmentGpu : public testing::TestWithParam<Size> {};

TEST_P(AlignmentGpu, CtcEqualsTheCpuInEveryBit) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
  const auto [rows, frames, labels, tokens] = GetParam();
  std::mt19937 random(5);
  at::manual_seed(5);
  const test::AlignmentBatch batch = test::random_alignments(random, rows, frames, labels, tokens);
  const auto expected = align_ctc_batch(batch.emissions, batch.lengths, batch.texts);
  const at::Tensor emissions = batch.emissions.to(device);
  expect_equal(align_ctc_batch(emissions, batch.lengths, batch.texts), expected);
  // Another stream gives the same results.
  at::cuda::device_synchronize();
  const c10::cuda::CUDAStreamGuard other(c10::cuda::getStreamFromPool());
  expect_equal(align_ctc_batch(emissions, batch.lengths, batch.texts), expected);
}

// The cases include one frame, more columns than threads, and columns that do not fit into shared
// memory.
INSTANTIATE_TEST_SUITE_P(Sizes, AlignmentGpu,
                         testing::Values(Size{3, 1, 4, 1}, Size{33, 130, 40, 60},
                                         Size{4, 2000, 30, 900}, Size{3, 4000, 25, 2700}),
                         [](const auto& info) {
                           return "Frames" + std::to_string(info.param.frames);
                         });

TEST(CtcAlignmentGpu, NanIsTold) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
  at::Tensor emissions = at::zeros({2, 4, 3}, at::TensorOptions(device));
  emissions[1][2].fill_(std::nan(""));
  const auto found = align_ctc_batch(emissions, {4, 4}, {{0, 1}, {0, 1}});
  EXPECT_FALSE(found[0].hypothesis.nan);
  EXPECT_TRUE(found[1].hypothesis.nan);
}

TEST(TransducerAlignmentGpu, IsThatOfTheCpuUpToRounding) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
  at::manual_seed(6);
  std::mt19937 random(6);
  for (const bool tdt : {false, true}) {
    SCOPED_TRACE(tdt ? "TDT" : "RNN-T");
    ModelConfig config = test::small_config();
    if (!tdt) config.durations = {};
    const Transducer on_cpu(test::random_model(config, 8), {});
    const Transducer on_gpu(test::random_model(config, 8, device), {});
    const at::Tensor frames = 3 * at::randn({40, config.encoder.frame_width()});
    const std::vector<int32_t> text = test::random_text(random, 40, config.vocabulary + 1, 15);
    const LatticeBand band = whole_lattice(40, std::ssize(text));
    const Alignment expected = align_transducer(on_cpu, frames, text, band);
    const Alignment found = align_transducer(on_gpu, frames.to(device), text, band);
    // Scores agree up to the rounding of the networks. Paths may differ if their scores are that
    // close.
    EXPECT_NEAR(found.hypothesis.score, expected.hypothesis.score, 1e-3);
    EXPECT_EQ(found.hypothesis.tokens, expected.hypothesis.tokens);
    EXPECT_FALSE(found.hypothesis.nan);
  }
}

}  // namespace
}  // namespace rtfx
