// Tests utterances that are decoded in pieces, on a GPU.
#include <ATen/cuda/CUDAContextLight.h>
#include <gtest/gtest.h>

#include "tests/support/piece_cases.h"

namespace rtfx {
namespace {

class StreamsGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
  }
};

TEST_F(StreamsGpu, RandomPiecesGiveTheResultsOfDecode) {
  uint32_t seed = 0;  // one seed for each type, since a case takes seconds
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16})
    for (const test::PieceCase& c : test::piece_cases(at::Device("cuda"), dtype))
      if (!HasFailure()) test::random_pieces(c, ++seed, 3, 9);
}

/// The sums of these kernels do not depend on a row's place, so any batch gives the same bits.
TEST_F(StreamsGpu, FusedLoopingTakesRandomPieces) {
  const ModelConfig config = test::small_config();
  ModelConfig stateless = config;
  stateless.prediction.kind = PredictionConfig::Kind::stateless;
  stateless.prediction.context_size = 2;
  ModelConfig multiblank = test::with_durations(config, {});
  multiblank.blank_durations = {8, 4, 2, 1};
  for (const at::ScalarType dtype : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const ModelConfig& c : {config, test::with_durations(config, {}), stateless, multiblank}) {
      const auto model = test::random_model(c, 1, at::Device("cuda"), dtype);
      for (const char* loop : {"persistent", "graph", "host"})
        for (uint32_t seed = 0; seed < 2 && !HasFailure(); ++seed)
          test::random_pieces({"fused_looping", {{"loop", loop}, {"max_symbols", 3}}, model}, seed);
    }
  }
}

TEST_F(StreamsGpu, WrongPushesAreRefusedAndChangeNothing) {
  for (const test::PieceCase& c : test::piece_cases(at::Device("cuda"), at::kHalf))
    test::wrong_pushes(c);
}

}  // namespace
}  // namespace rtfx
