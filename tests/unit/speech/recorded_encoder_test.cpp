#include "speech/pipeline/recorded_encoder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/support/encoder_variants.h"
#include "tests/support/small_model.h"

namespace rtfx {
namespace {

TEST(RecordedEncoder, RoundedSizesCostAFewPercentAndAreFew) {
  std::set<int64_t> frames, utterances, rows;
  for (int64_t size = 1; size <= 40000; ++size) {
    const EncoderSize fused = rounded_up({size, size, size}, true);
    EXPECT_GE(fused.utterances, size);
    EXPECT_LE(8 * fused.utterances, 9 * size);
    EXPECT_GE(fused.mel_frames, size);
    EXPECT_TRUE(8 * fused.mel_frames <= 9 * size || fused.mel_frames < size + 64) << size;
    EXPECT_GE(fused.rows, size);
    EXPECT_TRUE(32 * fused.rows <= 33 * size || fused.rows < size + 128) << size;
    EXPECT_EQ(rounded_up(fused, true), fused);
    frames.insert(fused.mel_frames);
    utterances.insert(fused.utterances);
    rows.insert(fused.rows);
    const EncoderSize by_operators = rounded_up({size, size, size}, false);
    EXPECT_EQ(by_operators.utterances, size);
    EXPECT_GE(by_operators.mel_frames, size);
    EXPECT_TRUE(16 * by_operators.mel_frames <= 17 * size || by_operators.mel_frames < size + 64);
  }
  EXPECT_LE(frames.size(), 64U);
  EXPECT_LE(utterances.size(), 114U);
  EXPECT_LE(rows.size(), 150U);
  EXPECT_EQ(rounded_up({128, 1600, 5001}, true), (EncoderSize{128, 1664, 5120}));
}

class PaddedEncoder : public testing::TestWithParam<test::Variant> {};

/// The batch is padded as for a graph, with utterances without frames and silence behind each
/// utterance.
TEST_P(PaddedEncoder, ResultsDoNotDependOnPadding) {
  const c10::InferenceMode inference;
  ModelConfig config = test::small_config();
  GetParam().change(config);
  const auto model = test::random_model(config, 5);
  const std::vector<int64_t> lengths = {777, 0, 1, 400, 13};
  Features features{at::zeros({5, 80, 777}), at::tensor(lengths), lengths};
  for (int64_t row = 0; row < 5; ++row)
    features.values[row].narrow(1, 0, lengths[static_cast<size_t>(row)]).normal_();
  EncoderSize size = rounded_size(*model, features);
  EXPECT_EQ(size.mel_frames, 832);
  size.utterances += 3;
  size.rows = model->encoder->rows(size.utterances, size.mel_frames, {});
  const Features padded = padded_features(features, size);
  EXPECT_EQ(padded.values.sizes(), (std::vector<int64_t>{8, 80, 832}));
  EXPECT_EQ(padded.host_lengths, (std::vector<int64_t>{777, 0, 1, 400, 13, 0, 0, 0}));
  EXPECT_TRUE(at::equal(padded.values.narrow(0, 0, 5).narrow(2, 0, 777), features.values));
  EXPECT_EQ(padded.values.count_nonzero().item<int64_t>(),
            features.values.count_nonzero().item<int64_t>());
  const Encoded expected = (*model->encoder)(features), found = (*model->encoder)(padded);
  EXPECT_TRUE(at::equal(found.lengths.narrow(0, 0, 5), expected.lengths));
  EXPECT_EQ(found.lengths.narrow(0, 5, 3).sum().item<int64_t>(), 0);
  for (int64_t row = 0; row < 5; ++row) {
    const auto count = expected.lengths[row].item<int64_t>();
    const at::Tensor wanted = expected.frames[row].narrow(0, 0, count),
                     with_padding = found.frames[row].narrow(0, 0, count);
    EXPECT_TRUE(at::allclose(with_padding, wanted, 2e-5, 2e-5))
        << row << ": " << (with_padding - wanted).abs().max();
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, PaddedEncoder, testing::ValuesIn(test::variants()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(RecordedEncoder, ComputesWhatTheEncoderDoesOnACpu) {
  const c10::InferenceMode inference;
  const auto model = test::random_model(test::small_config(), 5);
  RecordedEncoder recorded(model, /*graphs=*/true);
  const Features features{at::randn({2, 80, 100}), at::tensor({100, 70}, at::kLong), {100, 70}};
  const Encoded found = recorded(features), expected = (*model->encoder)(features);
  EXPECT_TRUE(at::equal(found.frames, expected.frames));
  EXPECT_EQ(recorded.counts().recorded, 0);
  EXPECT_EQ(recorded.counts().launched, 1);
}

TEST(LruCache, KeepsWhatWasUsedLast) {
  LruCache<int, std::string> kept(2);
  std::vector<std::string> removed;
  const auto get = [&](int key) -> std::string& {
    return kept(key, [&](const std::string& value) { removed.push_back(value); });
  };
  get(1) = "one";
  get(2) = "two";
  EXPECT_EQ(get(1), "one");
  EXPECT_EQ(get(3), "");  // takes the place of 2
  EXPECT_EQ(removed, std::vector<std::string>{"two"});
  EXPECT_EQ(get(1), "one");
  EXPECT_EQ(kept.size(), 2U);
  EXPECT_EQ(get(2), "");
  EXPECT_EQ(removed, (std::vector<std::string>{"two", ""}));
  kept.clear();
  EXPECT_EQ(kept.size(), 0U);
  EXPECT_EQ(get(1), "");
}

}  // namespace
}  // namespace rtfx
