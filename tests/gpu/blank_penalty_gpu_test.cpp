// Tests the blank penalty on a GPU, in each form of a greedy search and in the fused beams. They
// equal a search without it whose tables have blanks lowered by the penalty. Streams equal the
// whole utterance.
#include <ATen/cuda/CUDAContextLight.h>
#include <gtest/gtest.h>

#include "tests/support/greedy_lm_cases.h"
#include "tests/support/piece_cases.h"

namespace rtfx {
namespace {

using namespace test;

class BlankPenaltyGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
  }
  const at::Device device_{at::kCUDA, 0};
};

std::vector<Arm> arms_on_gpu() {
  std::vector<Arm> arms;
  for (const char* name : {"frame_looping", "label_looping"})
    for (const char* loop : {"host", "replay", "graph"}) arms.push_back({name, {{"loop", loop}}});
  arms.push_back({"label_looping", {{"loop", "graph"}, {"window", 4}}});
  for (const char* loop : {"persistent", "graph", "host"})
    arms.push_back({"fused_looping", {{"loop", loop}}});
  arms.push_back({"step_replay", {{"loop", "coalesced"}}});
  for (const char* kernels : {"operators", "fused"}) {
    const nlohmann::json beam = {{"beam_size", 2}, {"nbest", 2}, {"kernels", kernels}};
    arms.push_back({"alsd_pp", beam});
    arms.push_back({"modified_beam_search", beam});
    arms.push_back({"aes_pp", beam});
    arms.back().options["expansion_beta"] = 1;
  }
  return arms;
}

Case with_lower_blanks(Case c, double penalty) {
  for (Table& row : c.rows)
    for (auto& frame : row)
      for (int64_t blank = c.model.vocabulary; blank < c.model.labels(); ++blank)
        frame[static_cast<size_t>(blank)] -= penalty;
  return c;
}

TEST_F(BlankPenaltyGpu, EqualsASearchOnLowerBlanks) {
  std::mt19937 random(61);
  int different = 0;
  for (int trial = 0; trial < 6 && !HasFailure(); ++trial) {
    const TransducerKind kind = kTransducerKinds[trial % 3];
    Case c = random_case(random, kind, trial % 4 < 2);
    while (c.model.vocabulary < 3) c = random_case(random, kind, trial % 4 < 2);
    const double penalty = 1 + trial % 3;
    const Case lower = with_lower_blanks(c, penalty);
    for (const Arm& arm : arms_on_gpu()) {
      if (kind == TransducerKind::multiblank && arm.options.contains("beam_size")) continue;
      nlohmann::json options = arm.options;
      options["blank_penalty"] = penalty;
      for (const auto dtype : {at::kFloat, at::kBFloat16}) {
        const auto found = run(arm.name, options, c, device_, dtype);
        EXPECT_EQ(found, run(arm.name, arm.options, lower, device_, dtype))
            << arm.name << options << " trial " << trial << ' ' << dtype;
        different += found != run(arm.name, arm.options, c, device_, dtype);
      }
    }
  }
  EXPECT_GT(different, 60);
}

/// The test is small enough for compute-sanitizer, and has no recorded graphs, at which racecheck
/// crashes.
TEST_F(BlankPenaltyGpu, OneSmallBatch) {
  std::mt19937 random(63);
  const Case c = wide_case(random, TransducerKind::tdt, true, 40, 4);
  const Case lower = with_lower_blanks(c, 2);
  std::vector<Arm> arms = {{"fused_looping", {{"loop", "persistent"}, {"max_symbols", 2}}},
                           {"fused_looping", {{"loop", "host"}, {"max_symbols", 2}}}};
  for (const char* beam : {"alsd_pp", "aes_pp", "modified_beam_search"})
    arms.push_back({beam, {{"beam_size", 2}, {"kernels", "fused"}, {"loop", "host"}}});
  for (const Arm& arm : arms) {
    nlohmann::json options = arm.options;
    options["blank_penalty"] = 2;
    const auto found = run(arm.name, options, c, device_, at::kBFloat16);
    EXPECT_EQ(found, run(arm.name, arm.options, lower, device_, at::kBFloat16)) << arm.name;
    EXPECT_NE(found, run(arm.name, arm.options, c, device_, at::kBFloat16)) << arm.name;
  }
}

TEST_F(BlankPenaltyGpu, FusedLoopingEqualsFrameLoopingOnLstmModels) {
  at::manual_seed(4);
  std::mt19937 random(62);
  for (const auto& durations : {std::vector<int64_t>{}, {0, 1, 2, 3, 4}}) {
    const auto model = random_model(with_durations(small_config(), durations), 3, device_);
    const nlohmann::json both = {{"blank_penalty", 0.7}, {"max_symbols", 4}};
    const auto reference = make_decoder("frame_looping", both, "");
    const auto decoder = make_decoder("fused_looping", both, "");
    for (const auto& d : {reference.get(), decoder.get()}) d->prepare(model, {});
    const EncodedBatch batch = random_batch(random, 33, 25, 16, device_);
    const auto expected = reference->decode(batch).to_host(),
               found = decoder->decode(batch).to_host();
    for (size_t b = 0; b < expected.size(); ++b) {
      EXPECT_EQ(found[b].tokens, expected[b].tokens) << b;
      EXPECT_EQ(found[b].frames, expected[b].frames) << b;
      EXPECT_EQ(found[b].durations, expected[b].durations) << b;
    }
  }
}

TEST_F(BlankPenaltyGpu, PiecesOfStreamsEqualTheWhole) {
  const auto model = random_model(small_config(), 8, device_, at::kBFloat16);
  for (const char* name : {"fused_looping", "label_looping"})
    for (uint32_t seed = 0; seed < 2 && !HasFailure(); ++seed)
      random_pieces({name, {{"blank_penalty", 1.5}, {"max_symbols", 3}}, model}, seed);
}

}  // namespace
}  // namespace rtfx
