// Compares the encoder as CUDA graphs with the launched encoder, for batches of every shape in one
// process.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <gtest/gtest.h>

#include "speech/pipeline/recorded_encoder.h"
#include "tests/support/encoder_variants.h"
#include "tests/support/small_model.h"

namespace rtfx {
namespace {

class GpuEncoder : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
    torch_guard_.emplace();
  }

  /// Returns random log-mel features, which are 0 after the end of a row.
  Features features(int64_t rows, int64_t frames) const {
    const auto on_gpu = at::TensorOptions(at::Device(at::kCUDA, 0));
    Features f{at::randn({rows, 80, frames}, on_gpu),
               at::randint(0, frames + 1, {rows}, on_gpu.dtype(at::kLong))};
    f.lengths[0] = frames;
    const at::Tensor valid =
        at::arange(frames, f.lengths.options()).unsqueeze(0) < f.lengths.unsqueeze(1);
    f.values.mul_(valid.unsqueeze(1));
    return f;
  }

  std::shared_ptr<const AcousticModel> model(bool limited, bool prompts = false) const {
    ModelConfig config = test::small_config();
    if (prompts) test::prompts(config);
    if (limited) config.encoder.left_context = config.encoder.right_context = 6;
    return test::random_model(config, 5, {at::kCUDA, 0}, GetParam());
  }

  /// Expects equal lengths, and equal frames within them up to rounding.
  void expect_same(const Encoded& found, const Encoded& expected, const std::string& what) const {
    const double tolerance = GetParam() == at::kFloat ? 2e-5 : 6e-2;
    ASSERT_EQ(found.frames.sizes(), expected.frames.sizes()) << what;
    EXPECT_TRUE(at::equal(found.lengths, expected.lengths));
    for (int64_t b = 0; b < expected.frames.size(0); ++b) {
      const int64_t length = expected.lengths[b].item<int64_t>();
      const auto valid = [&](const Encoded& e) {
        return e.frames[b].narrow(0, 0, length).to(at::kFloat);
      };
      EXPECT_TRUE(at::allclose(valid(found), valid(expected), tolerance, tolerance))
          << what << " row " << b << ": " << (valid(found) - valid(expected)).abs().max();
    }
  }

 private:
  std::optional<c10::InferenceMode> torch_guard_;
};

TEST_P(GpuEncoder, RecordedEqualsLaunchedOneByOne) {
  for (const bool limited : {false, true}) {
    const auto model = this->model(limited);
    RecordedEncoder recorded(model, /*graphs=*/true);
    // The first batch of a size is launched, the second recorded, and the third replayed, for other
    // features and fewer frames.
    for (const auto& [rows, frames] : {std::pair{4, 700},
                                       {4, 690},
                                       {1, 60},
                                       {4, 650},
                                       {3, 65},
                                       {1, 64},
                                       {9, 1300},
                                       {4, 660},
                                       {1, 1},
                                       {1, 2}}) {
      const Features f = features(rows, frames);
      expect_same(recorded(f), (*model->encoder)(f),
                  std::to_string(rows) + " x " + std::to_string(frames));
    }
    const RecordedEncoder::Counts& counts = recorded.counts();
    EXPECT_EQ(counts.recorded, 2);
    EXPECT_EQ(counts.launched, 6);
    EXPECT_EQ(counts.replayed, 4);
  }
}

TEST_P(GpuEncoder, RecordedOnesReadThePromptsOfEachBatch) {
  const auto model = this->model(false, /*prompts=*/true);
  RecordedEncoder recorded(model, /*graphs=*/true);
  for (int64_t batch = 0; batch < 6; ++batch) {
    const int64_t rows = 3 + batch % 2;  // the fused encoder rounds neither number up
    Features f = features(rows, 640);
    const int64_t first = batch > 2 ? batch + 1 : batch;  // no batch starts with the default prompt
    if (batch > 0) f.prompts = (at::arange(rows, f.lengths.options()) + first).remainder(5);
    expect_same(recorded(f), (*model->encoder)(f), "batch " + std::to_string(batch));
    Features standard = f;
    standard.prompts = at::Tensor();
    // The first row has no padding.
    EXPECT_EQ(at::equal((*model->encoder)(f).frames[0], (*model->encoder)(standard).frames[0]),
              batch == 0)
        << batch;
  }
  EXPECT_EQ(recorded.counts().replayed, 2);
}

TEST_P(GpuEncoder, SharedMemoryDoesNotMixResults) {
  const auto model = this->model(false);
  RecordedEncoder recorded(model, /*graphs=*/true);
  std::vector<Features> inputs;
  for (const int64_t frames : {640, 64, 320}) inputs.push_back(features(3, frames));
  std::vector<Encoded> alone;  // launched one by one, in memory of their own
  for (const Features& f : inputs) alone.push_back((*model->encoder)(f));
  for (const size_t i : {2, 0, 1, 1, 0, 2, 0, 2, 1, 0})
    expect_same(recorded(inputs[i]), alone[i], std::to_string(i));
}

TEST_P(GpuEncoder, MemoryDoesNotGrowOnceEverySizeWasSeen) {
  const auto model = this->model(false);
  RecordedEncoder recorded(model, /*graphs=*/true);
  const auto reserved = [] {
    return c10::cuda::CUDACachingAllocator::getDeviceStats(0).reserved_bytes[0].current;
  };
  std::mt19937 random(7);
  const auto some = [&] {
    const auto frames = static_cast<int64_t>(1 + random() % 1000);
    recorded(features(1 + static_cast<int64_t>(random() % 3), frames));
  };
  for (int i = 0; i < 600; ++i) some();
  const int64_t captures = recorded.counts().recorded, before = reserved();
  EXPECT_LE(captures, 3 * 16);
  for (int i = 0; i < 200; ++i) some();
  EXPECT_EQ(recorded.counts().recorded, captures);
  EXPECT_EQ(reserved(), before);
}

TEST_P(GpuEncoder, KeepsTheSizesThatCameLast) {
  const auto model = this->model(false);
  RecordedEncoder recorded(model, /*graphs=*/true);
  const Features first = features(1, 64), next = features(2, 64);
  const Encoded expected = (*model->encoder)(first), other = (*model->encoder)(next);
  for (int i = 0; i < 3; ++i) recorded(first);
  EXPECT_EQ(recorded.counts().replayed, 1);
  // One size more than the encoder keeps evicts the first one.
  for (int64_t i = 0; i < static_cast<int64_t>(RecordedEncoder::kMostSizes); ++i)
    recorded(features(2 + i % 14, 64 * (1 + i / 14)));
  expect_same(recorded(first), expected, "after its graph went");
  EXPECT_EQ(recorded.counts().replayed, 1);
  recorded.forget();
  EXPECT_EQ(recorded.counts().launched, 0);
  for (int i = 0; i < 4; ++i) expect_same(recorded(next), other, "after all were forgotten");
  EXPECT_EQ(recorded.counts().replayed, 2);
}

TEST_P(GpuEncoder, GivesItsMemoryBack) {
  const auto model = this->model(false);
  const auto reserved = [] {
    c10::cuda::CUDACachingAllocator::emptyCache();
    return c10::cuda::CUDACachingAllocator::getDeviceStats(0).reserved_bytes[0].current;
  };
  int64_t before = 0;
  for (int i = 0; i < 5; ++i) {
    {
      RecordedEncoder recorded(model, /*graphs=*/true);
      for (const int64_t frames : {6400, 640, 64, 6400, 640, 64}) recorded(features(8, frames));
    }
    if (i == 1) before = reserved();
  }
  EXPECT_EQ(reserved(), before);
}

/// Encoders of every kind give the results of the CPU, and their graphs give those of launched
/// kernels.
class GpuEncoderVariant : public testing::TestWithParam<test::Variant> {};

TEST_P(GpuEncoderVariant, EqualsTheCpuAndItsOwnGraphs) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
  const c10::InferenceMode inference;
  ModelConfig config = test::small_config();
  GetParam().change(config);
  const at::Device gpu(at::kCUDA, 0);
  const auto on_cpu = test::random_model(config, 5), on_gpu = test::random_model(config, 5, gpu);
  RecordedEncoder recorded(on_gpu, /*graphs=*/true);
  const std::vector<int64_t> lengths = {77, 1600, 0, 1, 800, 13};
  for (const int64_t frames : {1600, 1580, 1590}) {
    at::Tensor values = at::zeros({6, 80, frames});
    std::vector<int64_t> kept = lengths;
    kept[1] = frames;
    for (size_t row = 0; row < kept.size(); ++row)
      values[static_cast<int64_t>(row)].narrow(1, 0, kept[row]).normal_();
    const at::Tensor valid = at::tensor(kept);
    const Encoded expected = (*on_cpu->encoder)({values, valid});
    const Features there{values.to(gpu), valid.to(gpu)};
    const Encoded eager = (*on_gpu->encoder)(there), graph = recorded(there);
    EXPECT_TRUE(at::equal(eager.lengths.cpu(), expected.lengths));
    EXPECT_TRUE(at::equal(graph.lengths.cpu(), expected.lengths));
    for (int64_t row = 0; row < 6; ++row) {
      const auto count = expected.lengths[row].item<int64_t>();
      const auto frames_of = [&](const Encoded& e) {
        return e.frames[row].narrow(0, 0, count).cpu();
      };
      EXPECT_TRUE(at::allclose(frames_of(eager), frames_of(expected), 1e-4, 1e-4)) << row;
      EXPECT_TRUE(at::allclose(frames_of(graph), frames_of(eager), 2e-5, 2e-5)) << row;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, GpuEncoderVariant, testing::ValuesIn(test::variants()),
                         [](const auto& info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(Dtypes, GpuEncoder, testing::Values(at::kFloat, at::kBFloat16, at::kHalf));

}  // namespace
}  // namespace rtfx
