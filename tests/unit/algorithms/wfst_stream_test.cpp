// Tests the search of an utterance that comes in pieces.
#include <gtest/gtest.h>

#include "algorithms/decoders/wfst/ctc_wfst_cpu/ctc_wfst_cpu.h"
#include "tests/support/wfst_cases.h"

namespace rtfx {
namespace {

using test::Words;

constexpr float kBeam = 3;
constexpr int64_t kActive = 40;

/// An utterance that advances by pieces of the given sizes in turn.
class Stream {
 public:
  Stream(ViterbiSearch& search, std::vector<float> lp, std::vector<int64_t> sizes)
      : lp_(std::move(lp)), sizes_(std::move(sizes)), state_(search.start()) {}

  bool more() const { return 3 * frame_ < static_cast<int64_t>(lp_.size()); }
  void advance(ViterbiSearch& search) {
    const auto left = static_cast<int64_t>(lp_.size()) / 3 - frame_;
    const int64_t size = std::min(left, sizes_[piece_++ % sizes_.size()]);
    search.advance(state_, lp_.data() + 3 * frame_, size, 3);
    frame_ += size;
  }
  const ViterbiState& state() const { return state_; }
  const std::vector<float>& lp() const { return lp_; }

 private:
  std::vector<float> lp_;
  std::vector<int64_t> sizes_;
  ViterbiState state_;
  int64_t frame_ = 0;
  size_t piece_ = 0;
};

TEST(WfstStream, PiecesOfAnySizeGiveTheOfflineResult) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const WfstGraph graph = test::random_graph(100, seed);
    ViterbiSearch search(graph.view(), kBeam, kActive);
    const auto lp = test::random_emissions(47, 3, seed);
    const WfstPath whole = search.run(lp.data(), 47, 3);
    for (const std::vector<int64_t>& sizes :
         std::vector<std::vector<int64_t>>{{1}, {2}, {7}, {0, 3}, {47}, {100}, {5, 0, 0, 1, 20}}) {
      Stream stream(search, lp, sizes);
      while (stream.more()) stream.advance(search);
      test::expect_same_path(search.finish(stream.state()), whole, std::to_string(seed));
    }
  }
}

TEST(WfstStream, OneSearchServesStreamsInTurn) {
  const WfstGraph graph = test::random_graph(100, 1);
  ViterbiSearch search(graph.view(), kBeam, kActive);
  std::vector<Stream> streams;
  for (uint32_t i = 0; i < 5; ++i)
    streams.emplace_back(search, test::random_emissions(10 + 9 * i, 3, i),
                         std::vector<int64_t>{1 + i, 2});
  for (bool any = true; any;) {
    any = false;
    for (Stream& stream : streams) {
      if (!stream.more()) continue;
      stream.advance(search);
      any = true;
    }
  }
  for (const Stream& stream : streams) {
    const auto frames = static_cast<int64_t>(stream.lp().size()) / 3;
    test::expect_same_path(search.finish(stream.state()), search.run(stream.lp().data(), frames, 3),
                           std::to_string(frames));
  }
}

TEST(WfstStream, PartialResultsDoNotWaitForAFinalState) {
  // Word 1 ends only at its second frame, and no state is final before that.
  TransducerArcs t;
  t.states = 3;
  t.finals = {{2, 0.5f}};
  t.add(0, 1, 1, 1);
  t.add(1, 2, 2, 0);
  const auto graph = WfstGraph::from(t, 2, {"word"}, "none", std::string(64, '0'), "test");
  ViterbiSearch search(graph.view(), kBeam, kActive);
  ViterbiState state = search.start();
  EXPECT_TRUE(search.partial(state).words.empty());
  const std::vector<float> lp = {-1, -2, -4, -1, -2, -4};
  search.advance(state, lp.data(), 1, 3);
  EXPECT_EQ(search.partial(state).words, Words({1}));
  EXPECT_EQ(search.partial(state).cost, 1);
  EXPECT_FALSE(search.finish(state).reached_final);
  search.advance(state, lp.data() + 3, 1, 3);
  EXPECT_EQ(search.partial(state).cost, 3);
  EXPECT_EQ(search.finish(state).cost, 3.5);
  EXPECT_TRUE(search.finish(state).reached_final);
}

TEST(WfstStream, ALongStreamForgetsWhatNoPathUses) {
  // The two tokens alternate with blanks between them. So the text is certain, however long it is.
  const WfstGraph graph = test::two_token_graph(Topology::compact);
  const auto lp = test::logs({{.9, .05, .05}, {.05, .05, .9}, {.05, .9, .05}, {.05, .05, .9}});
  ViterbiSearch search(graph.view(), 1e6f, 1 << 20);
  ViterbiState state = search.start();
  constexpr int64_t kPieces = 20000;
  size_t most = 0;
  for (int64_t i = 0; i < kPieces; ++i) {
    search.advance(state, lp.data(), 4, 3);
    most = std::max(most, state.traces.size());
  }
  const WfstPath path = search.finish(state);
  EXPECT_EQ(path.words, Words(kPieces, 2));  // AB
  EXPECT_EQ(path.word_frames.back(), 4 * kPieces - 2);
  EXPECT_EQ(path.tokens.size(), 2 * kPieces);
  // The stream kept more tokens in all than it held at any time.
  EXPECT_GT(state.counts.kept_tokens, static_cast<int64_t>(2 * most));
}

TEST(WfstStream, AStreamThatNoPathGetsThroughStaysEmpty) {
  const WfstGraph graph = test::two_token_graph(Topology::compact);
  ViterbiSearch search(graph.view(), kBeam, kActive);
  ViterbiState state = search.start();
  const std::vector<float> nan(3, std::nanf(""));
  search.advance(state, nan.data(), 1, 3);
  EXPECT_FALSE(search.partial(state).alive);
  search.advance(state, test::logs({{.9, .05, .05}}).data(), 1, 3);
  EXPECT_FALSE(search.finish(state).alive);
}

}  // namespace
}  // namespace rtfx
