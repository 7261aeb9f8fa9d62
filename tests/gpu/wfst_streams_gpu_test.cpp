// Tests that streams of ctc_wfst on a GPU equal the plain search on the CPU in every bit.
#include <ATen/cuda/CUDAContext.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "algorithms/decoders/wfst/ctc_wfst/ctc_wfst.h"
#include "tests/support/beam_cases.h"
#include "tests/support/own_path.h"
#include "tests/support/piece_cases.h"
#include "tests/support/stream_cases.h"

namespace rtfx {
namespace {

class WfstStreamsGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
  }

  test::StreamCase on_gpu(int32_t states, float beam, int64_t max_active) const {
    return {test::random_graph(states, 1), beam, max_active, device_,
            [](const test::StreamCase& c) -> std::unique_ptr<StreamSearch> {
              return std::make_unique<GpuStreams>(
                  std::make_shared<PassingMemory>(c.graph, "test", c.device), c.beam, c.max_active,
                  at::Tensor());
            }};
  }

  const at::Device device_{at::kCUDA, 0};
};

TEST_F(WfstStreamsGpu, EqualThePlainSearchWhateverThePieces) {
  for (const int32_t states : {2, 100, 3000}) test::pieces_of_any_size(on_gpu(states, 3, 40));
}

TEST_F(WfstStreamsGpu, ManyStreamsComeAndGo) { test::many_streams(on_gpu(500, 4, 100), 300, 8); }

TEST_F(WfstStreamsGpu, SlotsAndTracesGrow) {
  // Up to 20,000 tokens a frame exceed the room of a slot at first.
  test::many_streams(on_gpu(20000, 1e6f, 1 << 20), 12, 30);
}

TEST_F(WfstStreamsGpu, FindAddedWords) {
  test::StreamCase c = on_gpu(1, 4, 100);
  c.graph = test::graph_with_phrases();
  test::pieces_of_any_size(c);
}

TEST_F(WfstStreamsGpu, TakeOtherWordCosts) { test::changing_word_costs(on_gpu(100, 3, 40)); }

TEST_F(WfstStreamsGpu, EndWithTheListsOfWholeUtterances) {
  const auto path = test::own_path("wfst_streams_lists.tlg");
  test::random_graph(60, 5).write(path);
  nlohmann::json options = {{"graph", path.string()},
                            {"acoustic_scale", 1},
                            {"beam", 6},
                            {"nbest", 3},
                            {"mbr", {{"scale", 0.1}, {"unit", "tokens"}}}};
  std::mt19937 random(1);
  at::manual_seed(1);
  const EncodedBatch rows = test::random_batch(random, 5, 23, 3, device_);
  const auto model = test::identity_model(2, device_);
  for (const char* loop : {"persistent", "replay"}) {
    options["loop"] = loop;
    test::random_pieces({"ctc_wfst", options, model, true, {}, rows}, 1);
  }
}

TEST_F(WfstStreamsGpu, ComplainOfWrongPieces) { test::wrong_pieces(on_gpu(20, 3, 40)); }

}  // namespace
}  // namespace rtfx
