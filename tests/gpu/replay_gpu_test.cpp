// Tests decoders of full width (LSTM 640, joint 640, vocabulary 1024 and blank) on a GPU in all
// dtypes. Replay accepts every decision as the best one up to rounding, and finds planted errors.
#include <ATen/cuda/CUDAContext.h>

#include "tests/support/replay_cases.h"

namespace rtfx {
namespace {

using namespace test;

struct Arm {
  const char* name;
  nlohmann::json options;
};

class ReplayGpu : public testing::TestWithParam<std::tuple<bool, at::ScalarType>> {
 protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
    at::manual_seed(4);
    model_ = full_width_model(std::get<0>(GetParam()), device_, std::get<1>(GetParam()));
  }
  EncodedBatch batch(int64_t rows) const {
    std::mt19937 random(3);
    return random_batch(random, rows, 60, 512, device_, std::get<1>(GetParam()));
  }
  void expect_within(const Arm& arm, int64_t rows) const {
    const auto decoder = make_decoder(arm.name, arm.options, "");
    decoder->prepare(model_, {rows, 60});
    const EncodedBatch input = batch(rows);
    const auto found = decoder->decode(input).to_host();
    size_t tokens = 0;
    double worst = 0;
    for (const Replayed& r : replay(model_, *decoder, input, found)) {
      EXPECT_TRUE(r.within()) << arm.name << arm.options << rows << ": " << text(r);
      worst = std::max(worst, r.worst);
    }
    for (const Hypothesis& h : found) tokens += h.tokens.size();
    if (rows > 1) {
      EXPECT_GT(tokens, 50U);
    }
    std::cout << arm.name << arm.options << " " << rows << " rows: worst gap / bound " << worst
              << "\n";
  }

  const at::Device device_{at::kCUDA, 0};
  std::shared_ptr<const AcousticModel> model_;
};

TEST_P(ReplayGpu, AcceptsGreedyDecodersOfFullWidth) {
  const std::vector<Arm> arms = {{"frame_looping", {{"max_symbols", 3}}},
                                 {"frame_looping", {{"max_symbols", 3}, {"loop", "graph"}}},
                                 {"label_looping", {{"max_symbols", 3}, {"window", 4}}},
                                 {"label_looping", {{"max_symbols", 3}, {"loop", "graph"}}},
                                 {"step_replay", {{"max_symbols", 3}}},
                                 {"fused_looping", {{"max_symbols", 3}, {"loop", "host"}}},
                                 {"fused_looping", {{"max_symbols", 3}, {"loop", "graph"}}},
                                 {"fused_looping", {{"max_symbols", 3}, {"loop", "persistent"}}}};
  for (const Arm& arm : arms)
    for (const int64_t rows : {1, 33, 128}) expect_within(arm, rows);
}

TEST_P(ReplayGpu, AcceptsBeamsOfFullWidth) {
  for (const char* name : {"alsd_pp", "aes_pp", "modified_beam_search"}) {
    for (const char* kernels : {"operators", "fused"}) {
      nlohmann::json options = {{"beam_size", 4}, {"nbest", 2}, {"kernels", kernels}};
      if (std::string(name) == "alsd_pp") options["max_symbols"] = 3;
      expect_within({name, options}, 16);
    }
  }
}

TEST_P(ReplayGpu, FindsErrorsInResultsOfTheFusedKernels) {
  const auto decoder = make_decoder("fused_looping", {{"max_symbols", 3}}, "");
  decoder->prepare(model_, {32, 60});
  const EncodedBatch input = batch(32);
  const auto honest = decoder->decode(input).to_host();
  const auto share = [&](const auto& plant) {
    return share_found(model_, *decoder, input, honest, plant, 2);
  };
  EXPECT_GT(share([](Hypothesis& h, std::mt19937& r) { return swap_a_token(h, r, 1024); }), 0.9);
  EXPECT_GT(share([](Hypothesis& h, std::mt19937& r) { return move_a_frame(h, r, 1); }), 0.5);
  if (std::get<0>(GetParam())) {
    EXPECT_GT(share([](Hypothesis& h, std::mt19937& r) { return change_a_duration(h, r, 4); }),
              0.5);
  }
  std::vector<Hypothesis> wrong;
  for (int64_t row = 0; row < 32; ++row)
    wrong.push_back(greedy_with(model_, input, row, 3, to_fp8));
  size_t refused = 0;
  for (const Replayed& r : replay(model_, *decoder, input, wrong)) refused += r.within() ? 0 : 1;
  EXPECT_GE(refused, 24U);  // the other texts are short
}

INSTANTIATE_TEST_SUITE_P(Full, ReplayGpu,
                         testing::Combine(testing::Bool(),
                                          testing::Values(at::kFloat, at::kBFloat16, at::kHalf)),
                         [](const auto& one) {
                           return std::string(std::get<0>(one.param) ? "tdt_" : "rnnt_") +
                                  c10::toString(std::get<1>(one.param));
                         });

}  // namespace
}  // namespace rtfx
