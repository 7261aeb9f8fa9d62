// Tests token passing of utterances in pieces, by threads of the CPU. It must equal that of the
// whole utterance.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "algorithms/decoders/wfst/ctc_wfst/passing_memory.h"
#include "algorithms/decoders/wfst/ctc_wfst_cpu/ctc_wfst_cpu.h"
#include "tests/support/host_block.h"
#include "tests/support/wfst_cases.h"

namespace rtfx {
namespace {

constexpr float kBeam = 3;
constexpr int64_t kActive = 40;

/// Does the work of GpuStreams in the host's memory.
class HostStreams {
 public:
  struct Piece {
    int32_t entry;
    const float* lp;
    int32_t frames;
  };

  HostStreams(const WfstGraph& graph, int32_t entries, int64_t capacity, int64_t trace_capacity)
      : graph_(graph.view()),
        workspaces_(graph_, 2, 2),
        state_(static_cast<size_t>(entries * capacity), -7),
        cost_(state_.size(), std::nanf("")),
        traces_(static_cast<size_t>(trace_capacity)) {
    batch_.beam = kBeam;
    batch_.max_active = kActive;
    batch_.store = {capacity, state_.data(), cost_.data()};
    batch_.traces = traces_.data();
    batch_.trace_capacity = trace_capacity;
  }

  void open(int32_t entry, std::vector<float> word_costs = {}) {
    streams_[entry] = {std::move(word_costs), {}};
  }

  /// Returns how the pieces ended. Those that found no room have changed nothing.
  std::vector<PassingStatus> advance(const std::vector<Piece>& pieces) {
    std::vector<PassingRow> rows;
    for (const Piece& piece : pieces) {
      const Stream& stream = streams_.at(piece.entry);
      PassingRow row = stream.history.next_row();
      row.lp = piece.lp;
      row.frames = piece.frames;
      row.entry = piece.entry;
      row.word_costs = stream.word_costs.empty() ? nullptr : stream.word_costs.data();
      rows.push_back(row);
    }
    std::vector<PassingEnd> ends;
    const int64_t used = workspaces_.run(batch_, rows, ends);
    EXPECT_TRUE(workspaces_.clean());
    std::vector<int32_t> positions(static_cast<size_t>(std::min(used, batch_.trace_capacity)),
                                   PieceHistory::kNoPosition);
    std::vector<PassingStatus> status;
    for (size_t i = 0; i < pieces.size(); ++i) {
      status.push_back(ends[i].status);
      if (ends[i].status < PassingStatus::out_of_traces)
        streams_.at(pieces[i].entry).history.append(ends[i], traces_.data(), positions);
    }
    return status;
  }

  const PieceHistory& history(int32_t entry) const { return streams_.at(entry).history; }
  WfstPath finish(int32_t entry) const { return history(entry).best_path(graph_, true); }
  WfstPath partial(int32_t entry) const { return history(entry).best_path(graph_, false); }

 private:
  struct Stream {
    std::vector<float> word_costs;
    PieceHistory history;
  };

  GraphView graph_;
  test::HostWorkspaces workspaces_;
  std::vector<int32_t> state_;
  std::vector<float> cost_;
  std::vector<PassingTrace> traces_;
  PassingBatch batch_;
  std::map<int32_t, Stream> streams_;
};

TEST(TokenPieces, OfAnySizeGiveThePlainSearchsResultsAtEveryPiece) {
  for (uint32_t seed = 0; seed < 3; ++seed) {
    const WfstGraph graph = test::random_graph(100, seed);
    const auto lp = test::random_emissions(31, 3, seed);
    const std::vector<float> word_costs =
        seed % 3 == 0 ? std::vector<float>{0, -0.75f, 1.5f} : std::vector<float>{};
    for (const std::vector<int32_t>& sizes :
         std::vector<std::vector<int32_t>>{{1}, {7}, {0, 3}, {31}, {5, 0, 0, 1, 20}}) {
      HostStreams streams(graph, 1, 100, 1 << 14);
      streams.open(0, word_costs);
      ViterbiSearch plain(graph.view(), kBeam, kActive);
      ViterbiState state = plain.start(word_costs);
      for (int32_t frame = 0, i = 0; frame < 31; ++i) {
        const auto size = std::min(31 - frame, sizes[static_cast<size_t>(i) % sizes.size()]);
        streams.advance({{0, lp.data() + 3 * frame, size}});
        plain.advance(state, lp.data() + 3 * frame, size, 3);
        frame += size;
        const std::string what = fmt::format("seed {} frame {}", seed, frame);
        test::expect_same_path(streams.finish(0), plain.finish(state), what);
        test::expect_same_path(streams.partial(0), plain.partial(state), what);
      }
      const WfstPath whole = plain.run(lp.data(), 31, 3, word_costs);
      test::expect_same_path(streams.finish(0), whole, fmt::format("seed {}", seed));
      if (HasFailure()) return;
    }
  }
}

TEST(TokenPieces, StreamsInOneBatchDoNotMixAndAReusedSlotIsClean) {
  const WfstGraph graph = test::random_graph(100, 1);
  ViterbiSearch plain(graph.view(), kBeam, kActive);
  HostStreams streams(graph, 3, 100, 1 << 14);
  std::vector<std::vector<float>> lp;
  for (uint32_t i = 0; i < 4; ++i) lp.push_back(test::random_emissions(20, 3, 10 + i));
  for (int32_t entry = 0; entry < 3; ++entry) streams.open(entry);
  const auto at = [&](size_t i, int32_t frame) { return lp[i].data() + 3 * frame; };
  streams.advance({{0, at(0, 0), 4}, {1, at(1, 0), 9}, {2, at(2, 0), 1}});
  // The stream of entry 1 ends in the middle, and another takes its place.
  streams.open(1);
  streams.advance({{2, at(2, 1), 6}, {1, at(3, 0), 5}});
  streams.advance({{0, at(0, 4), 16}, {1, at(3, 5), 15}, {2, at(2, 7), 13}});
  const std::vector<size_t> own = {0, 3, 2};
  for (int32_t entry = 0; entry < 3; ++entry) {
    const float* all = at(own[static_cast<size_t>(entry)], 0);
    test::expect_same_path(streams.finish(entry), plain.run(all, 20, 3), std::to_string(entry));
  }
}

TEST(TokenPieces, WithoutRoomAPieceChangesNothingAndCanBeSearchedAgain) {
  const WfstGraph graph = test::random_graph(100, 4);
  const auto lp = test::random_emissions(20, 3, 4);
  ViterbiSearch plain(graph.view(), kBeam, kActive);
  const WfstPath whole = plain.run(lp.data(), 20, 3);

  HostStreams few_traces(graph, 1, 100, 120);
  few_traces.open(0);
  EXPECT_EQ(few_traces.advance({{0, lp.data(), 20}})[0], PassingStatus::out_of_traces);
  for (int32_t frame = 0; frame < 20; ++frame)
    EXPECT_LT(few_traces.advance({{0, lp.data() + 3 * frame, 1}})[0], PassingStatus::out_of_traces);
  test::expect_same_path(few_traces.finish(0), whole, "traces");

  // Two entries share one memory. A piece that does not fit must not reach into the other's part.
  HostStreams few_tokens(graph, 2, 3, 1 << 14);
  few_tokens.open(0);
  few_tokens.open(1);
  EXPECT_EQ(few_tokens.advance({{0, lp.data(), 5}})[0], PassingStatus::out_of_store);
  EXPECT_FALSE(few_tokens.partial(0).alive);
}

TEST(TokenPieces, ADeadStreamStaysDead) {
  const WfstGraph graph = test::two_token_graph(Topology::compact);
  HostStreams streams(graph, 1, 16, 1 << 10);
  streams.open(0);
  const auto good = test::logs({{.9, .05, .05}});
  const std::vector<float> bad(3, std::nanf(""));
  EXPECT_EQ(streams.advance({{0, good.data(), 1}})[0], PassingStatus::final);
  EXPECT_EQ(streams.advance({{0, bad.data(), 1}})[0], PassingStatus::dead);
  EXPECT_EQ(streams.advance({{0, good.data(), 1}})[0], PassingStatus::dead);
  EXPECT_FALSE(streams.finish(0).alive);
}

TEST(TokenPieces, ALongStreamForgetsWhatNoPathUses) {
  const WfstGraph graph = test::random_graph(100, 2);
  const auto lp = test::random_emissions(100, 3, 2);
  ViterbiSearch plain(graph.view(), kBeam, kActive);
  ViterbiState state = plain.start();
  HostStreams streams(graph, 1, 100, 1 << 14);
  streams.open(0);
  size_t most = 0;
  for (int i = 0; i < 20; ++i) {
    streams.advance({{0, lp.data(), 100}});
    plain.advance(state, lp.data(), 100, 3);
    most = std::max(most, streams.history(0).size());
  }
  test::expect_same_path(streams.finish(0), plain.finish(state), "long");
  EXPECT_GT(state.counts.kept_tokens, static_cast<int64_t>(4 * most));
}

}  // namespace
}  // namespace rtfx
