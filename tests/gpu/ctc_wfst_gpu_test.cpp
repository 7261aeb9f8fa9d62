// Tests that ctc_wfst on a GPU equals the plain search on the CPU in every bit, for any batch.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "algorithms/decoders/wfst/ctc_wfst/ctc_wfst.h"
#include "algorithms/decoders/wfst/ctc_wfst_cpu/ctc_wfst_cpu.h"
#include "algorithms/gpu/host_read.h"
#include "tests/support/beam_cases.h"
#include "tests/support/own_path.h"
#include "tests/support/wfst_cases.h"

namespace rtfx {
namespace {

/// The driver of the loop over frames, and whether it uses a double buffer.
struct Form {
  std::string loop = "persistent";
  bool double_buffer = true;
};

std::vector<Form> forms_with_phases() {
  return {{"host", false}, {"host", true}, {"replay", false}, {"replay", true}};
}

std::string name(const Form& form) {
  return form.loop + (form.double_buffer ? ", double buffer" : "");
}

class CtcWfstGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
  }

  std::unique_ptr<CtcWfst> prepared(const WfstGraph& graph, double beam, int64_t max_active,
                                    int64_t nbest = 1, const Form& form = {}) const {
    const auto path = test::own_path("ctc_wfst_gpu.tlg");
    graph.write(path);
    WfstOptions options;
    options.graph = path;
    options.acoustic_scale = 1;
    options.beam = beam;
    options.max_active = max_active;
    options.nbest = nbest;
    options.loop = form.loop;
    options.double_buffer = form.double_buffer;
    auto decoder = std::make_unique<CtcWfst>(options);
    decoder->prepare(test::identity_model(graph.view().columns - 1, device_), {});
    return decoder;
  }

  struct Rows {
    int64_t frames;
    std::vector<int64_t> lengths;
    std::vector<float> lp;
  };
  static Rows random_rows(size_t rows, int64_t frames, uint32_t seed, int64_t columns = 3) {
    std::mt19937 random(seed);
    Rows r{frames, {}, test::random_emissions(static_cast<int64_t>(rows) * frames, columns, seed)};
    for (size_t b = 0; b < rows; ++b)
      r.lengths.push_back(std::uniform_int_distribution<int64_t>(0, frames)(random));
    return r;
  }

  void expect_equal_to_plain(CtcWfst& decoder, const WfstGraph& graph, const Rows& r, float beam,
                             int64_t max_active) const {
    const auto rows = static_cast<int64_t>(r.lengths.size());
    const int64_t columns = graph.view().columns;
    const auto found =
        decoder.search(at::tensor(r.lp).reshape({rows, r.frames, columns}).to(device_), r.lengths);
    ASSERT_EQ(found.size(), r.lengths.size());
    ViterbiSearch plain(graph.view(), beam, max_active);
    int64_t kept = 0;
    for (size_t b = 0; b < found.size(); ++b) {
      const float* lp = r.lp.data() + b * static_cast<size_t>(columns * r.frames);
      test::expect_same_path(found[b], plain.run(lp, r.lengths[b], columns), std::to_string(b));
      kept += plain.counts().kept_tokens;
    }
    EXPECT_EQ(decoder.counters().at("kept_tokens"), kept);
  }

  const at::Device device_{at::kCUDA, 0};
};

TEST_F(CtcWfstGpu, EqualsThePlainSearchForAnyBatch) {
  for (const int32_t states : {1, 2, 40, 3000}) {
    const WfstGraph graph = test::random_graph(states, static_cast<uint32_t>(states));
    for (const auto& [beam, max_active] :
         std::vector<std::pair<float, int64_t>>{{1e6f, 1 << 20}, {2.5f, 1 << 20}, {1e6f, 100}}) {
      const auto decoder = prepared(graph, beam, max_active);
      for (const size_t rows : {1, 8, 32, 128, 600, 3})
        expect_equal_to_plain(*decoder, graph, random_rows(rows, 25, 7), beam, max_active);
      if (HasFailure()) return;
    }
  }
}

TEST_F(CtcWfstGpu, StatesMayHaveMoreArcsThanABlockHoldsOrNone) {
  for (const auto& [arcs, tokens] :
       std::vector<std::pair<int32_t, int32_t>>{{700, 2}, {8200, 1024}, {30000, 6000}}) {
    const WfstGraph graph = test::uneven_graph(5000, arcs, tokens, static_cast<uint32_t>(arcs));
    for (const float beam : {2.0f, 1e6f}) {
      const auto decoder = prepared(graph, beam, 1 << 20);
      for (const size_t rows : {3, 300})
        expect_equal_to_plain(*decoder, graph, random_rows(rows, 6, 7, tokens + 1), beam, 1 << 20);
      if (HasFailure()) return;
    }
  }
}

TEST_F(CtcWfstGpu, PhasesAsKernelsEqualThePlainSearchForAnyBatch) {
  for (const Form& form : forms_with_phases()) {
    SCOPED_TRACE(name(form));
    for (const int32_t states : {1, 40, 3000}) {
      const WfstGraph graph = test::random_graph(states, static_cast<uint32_t>(states));
      for (const auto& [beam, max_active] :
           std::vector<std::pair<float, int64_t>>{{2.5f, 1 << 20}, {1e6f, 100}}) {
        const auto decoder = prepared(graph, beam, max_active, 1, form);
        // More rows than workspaces are searched in groups. With few rows, some workspaces have
        // none.
        for (const size_t rows : {1, 32, 600, 3})
          expect_equal_to_plain(*decoder, graph, random_rows(rows, 25, 7), beam, max_active);
        if (HasFailure()) return;
      }
    }
    const WfstGraph uneven = test::uneven_graph(5000, 8200, 1024, 8200);
    expect_equal_to_plain(*prepared(uneven, 2, 1 << 20, 1, form), uneven,
                          random_rows(30, 6, 7, 1025), 2, 1 << 20);
  }
}

TEST_F(CtcWfstGpu, PhasesAsKernelsAreTheSameFromRunToRun) {
  const WfstGraph graph = test::random_graph(2000, 3);
  for (const Form& form : forms_with_phases()) {
    SCOPED_TRACE(name(form));
    const auto decoder = prepared(graph, 3, 500, 1, form);
    for (uint32_t i = 0; i < 30 && !HasFailure(); ++i)
      expect_equal_to_plain(*decoder, graph, random_rows(64, 40, i), 3, 500);
  }
}

TEST_F(CtcWfstGpu, PhasesAsKernelsGrowTheirHistory) {
  const WfstGraph graph = test::random_graph(3000, 5);
  Rows r = random_rows(64, 60, 6);
  r.lengths.assign(r.lengths.size(), 60);
  for (const Form& form : forms_with_phases()) {
    SCOPED_TRACE(name(form));
    const auto decoder = prepared(graph, 1e6, 1 << 20, 1, form);
    expect_equal_to_plain(*decoder, graph, r, 1e6f, 1 << 20);
    EXPECT_GT(decoder->counters().at("kept_tokens"), int64_t{1} << 22);
  }
}

TEST_F(CtcWfstGpu, RecordsAFrameAgainForMoreWorkspacesOnly) {
  const WfstGraph graph = test::random_graph(40, 2);
  const auto decoder = prepared(graph, 3, 500, 1, {"replay", true});
  for (const auto& [rows, captures] : std::vector<std::pair<size_t, int64_t>>{
           {1, 0}, {16, 1}, {5, 0}, {16, 0}}) {  // one row was prepared
    expect_equal_to_plain(*decoder, graph, random_rows(rows, 9, 3), 3, 500);
    EXPECT_EQ(decoder->counters().at("graph_captures"), captures) << rows;
  }
}

TEST_F(CtcWfstGpu, PhasesAsKernelsWaitForEachFrame) {
  const WfstGraph graph = test::random_graph(50, 10);
  EncodedBatch batch;
  batch.lengths_host = {6, 4, 0};
  batch.lengths = at::tensor(batch.lengths_host, at::kLong).to(device_);
  batch.frames = at::randn({3, 6, 3}, at::TensorOptions(device_));
  const auto expected = prepared(graph, 5, 1000)->decode(batch).to_host();
  for (const Form& form : forms_with_phases()) {
    SCOPED_TRACE(name(form));
    const auto decoder = prepared(graph, 5, 1000, 1, form);
    decoder->decode(batch);  // makes the workspaces for three rows and their graph
    Hypotheses result;
    forbid_undeclared_syncs([&] { result = decoder->decode(batch); });
    // The arcs before the first frame count as a step. Two more reads are those of row marks and
    // row ends.
    EXPECT_EQ(decoder->counters().at("host_reads"), 2 + (form.double_buffer ? 7 + 1 : 7 * 2));
    const auto rows = result.to_host();
    ASSERT_EQ(rows.size(), expected.size());
    for (size_t b = 0; b < rows.size(); ++b) {
      EXPECT_EQ(rows[b].tokens, expected[b].tokens) << b;
      EXPECT_EQ(rows[b].frames, expected[b].frames) << b;
      EXPECT_EQ(rows[b].score, expected[b].score) << b;
    }
  }
}

TEST_F(CtcWfstGpu, IsTheSameFromRunToRun) {
  const WfstGraph graph = test::random_graph(2000, 3);
  const auto decoder = prepared(graph, 3, 500);
  const Rows r = random_rows(64, 40, 4);
  for (int i = 0; i < 50 && !HasFailure(); ++i) expect_equal_to_plain(*decoder, graph, r, 3, 500);
}

TEST_F(CtcWfstGpu, TracesGrowUntilTheyFit) {
  // 3000 tokens a frame, 60 frames and 64 rows exceed the memory of the first traces.
  const WfstGraph graph = test::random_graph(3000, 5);
  const auto decoder = prepared(graph, 1e6, 1 << 20);
  Rows r = random_rows(64, 60, 6);
  r.lengths.assign(r.lengths.size(), 60);
  expect_equal_to_plain(*decoder, graph, r, 1e6f, 1 << 20);
  EXPECT_GT(decoder->counters().at("kept_tokens"), int64_t{1} << 22);
}

TEST_F(CtcWfstGpu, TracesStayWhereMemoryForMoreIsMissing) {
  const WfstGraph graph = test::random_graph(50, 5);
  PassingMemory memory(graph, "graph", device_);
  const auto before = memory.traces().sizes().vec();
  namespace allocator = c10::cuda::CUDACachingAllocator;
  allocator::setMemoryFraction(0.1, device_.index());
  EXPECT_THROW(memory.grow_traces(int64_t{1} << 30), c10::OutOfMemoryError);  // 17 GB
  allocator::setMemoryFraction(1, device_.index());
  EXPECT_EQ(memory.traces().sizes().vec(), before);
}

TEST_F(CtcWfstGpu, ARowThatNoPathGetsThroughHarmsNoOther) {
  const WfstGraph graph = test::random_graph(50, 8);
  const auto decoder = prepared(graph, 5, 1000);
  Rows r = random_rows(16, 20, 9);
  r.lengths.assign(r.lengths.size(), 20);
  std::fill_n(r.lp.begin() + 3 * 20 * 5 + 3 * 7, 3, -std::numeric_limits<float>::infinity());
  std::fill_n(r.lp.begin() + 3 * 20 * 6 + 3 * 9, 3, std::nanf(""));
  expect_equal_to_plain(*decoder, graph, r, 5, 1000);
  for (const Form& form : forms_with_phases())
    expect_equal_to_plain(*prepared(graph, 5, 1000, 1, form), graph, r, 5, 1000);
}

TEST_F(CtcWfstGpu, RowsHaveWordCostsOfTheirOwn) {
  const WfstGraph graph = test::random_graph(60, 3);
  const auto decoder = prepared(graph, 20, 1 << 20);
  const auto lp = test::random_emissions(3 * 12, 3, 5);
  const std::vector<std::vector<float>> costs = {{0, 9, -1.5f}, {}, {0, -1.5f, 9}};
  const RowBiases biases = {decoder->compile_bias({{{"one", -9, "a"}, {"two", 1.5, "b"}}, {}, ""}),
                            nullptr,
                            decoder->compile_bias({{{"one", 1.5, "c"}, {"two", -9, "d"}}, {}, ""})};
  const auto found =
      decoder->search(at::tensor(lp).reshape({3, 12, 3}).to(device_), {12, 12, 12}, biases);
  ViterbiSearch plain(graph.view(), 20, 1 << 20);
  for (size_t b = 0; b < 3; ++b)
    test::expect_same_path(found[b], plain.run(lp.data() + 36 * b, 12, 3, costs[b]),
                           std::to_string(b));
}

TEST_F(CtcWfstGpu, ListsEqualThoseOfThePlainSearch) {
  for (const auto& [states, form] : std::vector<std::pair<int32_t, Form>>{
           {5, {}}, {300, {}}, {300, {"host", false}}, {300, {"replay", true}}}) {
    const WfstGraph graph = test::random_graph(states, 11);
    const auto decoder = prepared(graph, 6, 200, 10, form);
    const Rows r = random_rows(40, 25, 12);
    std::vector<std::vector<WfstPath>> lists;
    decoder->search(at::tensor(r.lp).reshape({40, r.frames, 3}).to(device_), r.lengths, {}, &lists);
    ASSERT_EQ(lists.size(), 40U);
    ViterbiSearch plain(graph.view(), 6, 200);
    for (size_t b = 0; b < lists.size(); ++b) {
      const float* lp = r.lp.data() + b * 3 * static_cast<size_t>(r.frames);
      const auto expected = plain.run_best(lp, r.lengths[b], 3, {}, 10, 8);
      ASSERT_EQ(lists[b].size(), expected.size()) << b;
      for (size_t i = 0; i < expected.size(); ++i)
        test::expect_same_path(lists[b][i], expected[i], std::to_string(b));
    }
  }
}

TEST_F(CtcWfstGpu, RowsWithoutAnEndAreCountedAndReturned) {
  std::vector<Form> forms = forms_with_phases();
  forms.emplace_back();
  const EncodedBatch batch = test::one_word_rows(device_);
  for (const Form& form : forms) {
    SCOPED_TRACE(name(form));
    for (const int64_t nbest : {1, 3}) {
      const auto decoder = prepared(test::one_word_graph(), 2, 1000, nbest, form);
      const auto rows = decoder->decode(batch).to_host();
      EXPECT_EQ(rows[0].tokens, test::Words({0, 1})) << nbest;
      EXPECT_EQ(rows[1].tokens, test::Words({0})) << nbest;
      EXPECT_FALSE(rows[1].nan) << nbest;
      EXPECT_TRUE(rows[2].nan) << nbest;
      EXPECT_EQ(decoder->counters().at("not_final"), 1) << nbest;
    }
  }
}

TEST_F(CtcWfstGpu, DeclaresItsReadsAndMarksRowsWithNaN) {
  const WfstGraph graph = test::random_graph(50, 10);
  const auto decoder = prepared(graph, 5, 1000);
  EncodedBatch batch;
  batch.lengths_host = {6, 6, 0};
  batch.lengths = at::tensor(batch.lengths_host, at::kLong).to(device_);
  batch.frames = at::randn({3, 6, 3}, at::TensorOptions(device_));
  batch.frames[1][2].fill_(std::nan(""));
  Hypotheses result;
  forbid_undeclared_syncs([&] { result = decoder->decode(batch); });
  EXPECT_EQ(decoder->counters().at("host_reads"), 3);
  const auto rows = result.to_host();
  EXPECT_FALSE(rows[0].nan);
  EXPECT_TRUE(rows[1].nan);
  EXPECT_FALSE(rows[2].nan);
}

}  // namespace
}  // namespace rtfx
