// Tests the streams of ctc_wfst_cpu.
#include <gtest/gtest.h>

#include "algorithms/decoders/wfst/ctc_wfst_cpu/ctc_wfst_cpu.h"
#include "tests/support/stream_cases.h"

namespace rtfx {
namespace {

test::StreamCase on_cpu(int32_t states) {
  return {test::random_graph(states, 1), 3, 40, at::kCPU, [](const test::StreamCase& c) {
            return std::make_unique<CpuStreams>(c.graph, c.beam, c.max_active, std::vector<float>(),
                                                2);
          }};
}

TEST(CpuStreams, EqualThePlainSearchWhateverThePieces) { test::pieces_of_any_size(on_cpu(100)); }

TEST(CpuStreams, ManyStreamsComeAndGo) { test::many_streams(on_cpu(60), 40, 9); }

TEST(CpuStreams, FindAddedWords) {
  test::StreamCase c = on_cpu(1);
  c.graph = test::graph_with_phrases();
  test::pieces_of_any_size(c);
}

TEST(CpuStreams, TakeOtherWordCosts) { test::changing_word_costs(on_cpu(100)); }

TEST(CpuStreams, ComplainOfWrongPieces) { test::wrong_pieces(on_cpu(20)); }

TEST(CpuStreams, TakeTheDecodersWordCostsUnlessGivenOthers) {
  const test::StreamCase c = on_cpu(60);
  const std::vector<float> costs = {0, 9, -1.5f};
  CpuStreams search(c.graph, c.beam, c.max_active, costs, 1);
  const auto values = test::random_emissions(12, 3, 5);
  const int64_t boosted = search.open(std::nullopt), plain = search.open(std::vector<float>());
  for (const int64_t stream : {boosted, plain})
    search.advance(std::array{WfstPiece{stream, c.tensor(values)}});
  ViterbiSearch reference = c.plain();
  test::expect_same_path(search.finish(boosted), reference.run(values.data(), 12, 3, costs), "own");
  test::expect_same_path(search.finish(plain), reference.run(values.data(), 12, 3), "none");
}

}  // namespace
}  // namespace rtfx
