// Requirements on every StreamSearch, on any device.
#pragma once

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "algorithms/decoders/wfst/ctc_wfst_cpu/ctc_wfst_cpu.h"
#include "algorithms/shared/wfst/added_words.h"
#include "algorithms/shared/wfst/wfst_batch.h"
#include "base/error.h"
#include "tests/support/wfst_cases.h"

namespace rtfx::test {

struct StreamCase {
  WfstGraph graph;
  float beam;
  int64_t max_active;
  at::Device device;
  std::function<std::unique_ptr<StreamSearch>(const StreamCase&)> make;

  ViterbiSearch plain() const { return {graph.view(), beam, max_active}; }
  at::Tensor tensor(const std::vector<float>& lp) const {
    return at::tensor(lp).reshape({-1, graph.view().columns}).to(device);
  }
};

/// Returns two_token_graph() with words and a phrase added to its own.
inline WfstGraph graph_with_phrases() {
  return with_phrases(two_token_graph(Topology::normal),
                      {{"BA", {{"BA", {1, 0}}}, 0.25f},
                       {"BB", {{"BB", {1, 1}}}, 0.5f},
                       {"B A", {{"B", {1}}, {"A", {0}}}, 0.125f}},
                      "test");
}

/// Advances an utterance by pieces of many sizes. Before each piece and at the end, the results
/// must equal those of the plain search.
inline void pieces_of_any_size(const StreamCase& c) {
  constexpr int64_t kFrames = 23;
  const auto search = c.make(c);
  ViterbiSearch plain = c.plain();
  const auto values = random_emissions(kFrames, 3, 7);
  const at::Tensor lp = c.tensor(values);
  for (const std::vector<int64_t>& sizes :
       std::vector<std::vector<int64_t>>{{1}, {4}, {0, 3}, {kFrames}, {5, 0, 0, 1, 11}}) {
    const int64_t stream = search->open();
    ViterbiState state = plain.start();
    const auto expect_equal = [&](int64_t frame) {
      const std::string what = fmt::format("{} states, frame {}", c.graph.view().states, frame);
      expect_same_path(search->partial(stream), plain.partial(state), what);
      expect_same_path(search->finish(stream), plain.finish(state), what);
    };
    size_t piece = 0;
    for (int64_t frame = 0; frame < kFrames;) {
      expect_equal(frame);
      const int64_t size = std::min(kFrames - frame, sizes[piece++ % sizes.size()]);
      search->advance(std::array{WfstPiece{stream, lp.narrow(0, frame, size)}});
      plain.advance(state, values.data() + 3 * frame, size, 3);
      frame += size;
    }
    expect_equal(kFrames);
    search->close(stream);
    if (testing::Test::HasFailure()) return;
  }
}

/// Runs `count` streams in batches, some with word costs of their own. About a third of the streams
/// closes in the middle, and others begin.
inline void many_streams(const StreamCase& c, int count, int64_t frames) {
  const auto search = c.make(c);
  ViterbiSearch plain = c.plain();
  std::mt19937 random(3);
  const auto below = [&](int64_t n) {
    return std::uniform_int_distribution<int64_t>(0, n - 1)(random);
  };
  const std::vector<float> own_costs = {0, -0.75f, 1.5f};
  struct Stream {
    int64_t number, frame;
    std::vector<float> values, word_costs;
    at::Tensor lp;
  };
  std::vector<Stream> streams;
  uint32_t seed = 0;
  const auto begin = [&] {
    Stream s{0, 0, random_emissions(frames, 3, ++seed), {}, {}};
    s.lp = c.tensor(s.values);
    if (seed % 3 == 0) s.word_costs = own_costs;
    s.number = seed % 3 == 0 ? search->open(own_costs) : search->open();
    streams.push_back(std::move(s));
  };
  for (int i = 0; i < count; ++i) begin();
  int finished = 0;
  for (int batch = 0; finished < count && !testing::Test::HasFailure(); ++batch) {
    std::vector<WfstPiece> pieces;
    for (Stream& s : streams) {
      if (below(4) == 0) continue;
      const int64_t size = std::min(frames - s.frame, below(frames));
      pieces.push_back({s.number, s.lp.narrow(0, s.frame, size)});
      s.frame += size;
    }
    search->advance(pieces);
    for (size_t i = 0; i < streams.size();) {
      const Stream s = streams[i];
      const bool ends = s.frame == frames;
      if (ends) {
        expect_same_path(search->finish(s.number),
                         plain.run(s.values.data(), frames, 3, s.word_costs),
                         fmt::format("stream {}", s.number));
        ++finished;
      }
      if (!ends && below(12) != 0) {
        ++i;
        continue;
      }
      search->close(s.number);
      streams.erase(streams.begin() + static_cast<ptrdiff_t>(i));
      begin();
    }
  }
}

/// Changes the word costs of a stream. New costs before the first frame count as if the stream had
/// begun with them. Later ones count from the next frame on.
inline void changing_word_costs(const StreamCase& c) {
  constexpr int64_t kFrames = 14, kChange = 6;
  const std::vector<float> first = {0, -0.75f, 1.5f}, second = {0, 2.0f, -1.5f};
  const auto search = c.make(c);
  ViterbiSearch plain = c.plain();
  for (uint32_t seed = 0; seed < 10; ++seed) {
    const auto values = random_emissions(kFrames, 3, seed);
    const at::Tensor lp = c.tensor(values);
    const int64_t stream = search->open(second);
    search->advance(std::array{WfstPiece{stream, lp.narrow(0, 0, 0)}});
    search->partial(stream);
    search->set_word_costs(stream, first);
    search->advance(std::array{WfstPiece{stream, lp.narrow(0, 0, kChange)}});
    ViterbiState state = plain.start(first);
    plain.advance(state, values.data(), kChange, 3);
    expect_same_path(search->partial(stream), plain.partial(state), fmt::format("first {}", seed));
    search->set_word_costs(stream, second);
    state.word_costs = second;
    search->advance(std::array{WfstPiece{stream, lp.narrow(0, kChange, 4)}});
    plain.advance(state, values.data() + 3 * kChange, 4, 3);
    search->set_word_costs(stream, std::nullopt);  // back to the search's own: none
    state.word_costs = {};
    search->advance(
        std::array{WfstPiece{stream, lp.narrow(0, kChange + 4, kFrames - kChange - 4)}});
    plain.advance(state, values.data() + 3 * (kChange + 4), kFrames - kChange - 4, 3);
    expect_same_path(search->finish(stream), plain.finish(state), fmt::format("end {}", seed));
    search->close(stream);
  }
}

inline void wrong_pieces(const StreamCase& c) {
  const auto search = c.make(c);
  const int64_t stream = search->open();
  const at::Tensor lp = c.tensor(random_emissions(4, 3, 1));
  const auto advance = [&](const std::vector<WfstPiece>& pieces) { search->advance(pieces); };
  EXPECT_THROW(advance({{stream + 1, lp}}), UserError);
  EXPECT_THROW(advance({{stream, lp}, {stream, lp}}), UserError);
  EXPECT_THROW(advance({{stream, lp.narrow(1, 0, 2)}}), UserError);
  EXPECT_THROW(advance({{stream, lp.to(at::kDouble)}}), UserError);
  EXPECT_THROW(advance({{stream, at::Tensor()}}), UserError);
  advance({});
  advance({{stream, lp}});
  search->close(stream);
  EXPECT_THROW(search->close(stream), UserError);
  EXPECT_THROW(search->partial(stream), UserError);
  EXPECT_NE(search->open(), stream);
}

}  // namespace rtfx::test
