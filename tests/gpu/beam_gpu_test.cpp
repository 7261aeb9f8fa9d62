// Tests the batched beam searches on a GPU, with and without a language model. They equal the
// CPU's, and their CUDA graphs equal the forms that the host drives.
#include <ATen/cuda/CUDAContext.h>
#include <gtest/gtest.h>

#include "algorithms/gpu/host_read.h"
#include "algorithms/shared/beams/top_k.h"
#include "tests/support/beam_cases.h"
#include "tests/support/small_lm.h"
#include "tests/support/token_graph_cases.h"

namespace rtfx {
namespace {

using namespace test;

constexpr int64_t kVocabulary = 20;

class BeamGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
    std::mt19937 random(1);
    random_token_graph(random, 40, kVocabulary, kVocabulary, /*fine=*/true).write(graph_);
  }
  void TearDown() override { std::filesystem::remove(graph_); }

  struct Arm {
    std::string name;
    nlohmann::json options;
    bool tdt = false;
    std::string what() const { return name + options.dump() + (tdt ? " tdt" : ""); }
  };

  std::vector<Arm> arms() const {
    std::vector<Arm> all, monotonic;
    for (const bool with_lm : {false, true}) {
      nlohmann::json options = {{"beam_size", 6}, {"nbest", 6}};
      if (with_lm) options["lm"] = {{"path", lm_.path()}, {"alpha", 0.4}};
      for (const char* step : {"operators", "fused"}) {
        options["kernels"] = step;
        all.push_back({"ctc_beam", options});
        for (const bool tdt : {false, true}) {
          nlohmann::json transducer = options;
          if (with_lm) transducer["lm"]["pruning"] = tdt ? "early" : "late";
          all.push_back({"alsd_pp", transducer, tdt});
          all.push_back({"aes_pp", transducer, tdt});
          monotonic.push_back({"modified_beam_search", transducer, tdt});
        }
      }
    }
    // These come last, so that the random batches of the others stay the same. In some batches,
    // hypotheses tie.
    all.insert(all.end(), monotonic.begin(), monotonic.end());
    for (const bool tdt : {false, true}) {
      all.push_back({"transducer_wfst",
                     {{"beam_size", 6}, {"nbest", 6}, {"max_tokens", 12}, {"graph", graph_}},
                     tdt});
    }
    return all;
  }

  std::unique_ptr<Decoder> prepared(const Arm& arm, const BeamCase& c, at::Device device,
                                    const std::string& loop, Limits limits = {}) const {
    nlohmann::json options = arm.options;
    options["loop"] = loop;
    auto decoder = make_decoder(arm.name, options, "");
    decoder->prepare(arm.name == "ctc_beam" ? identity_model(c.model.columns() - 1, device)
                                            : build(c.model, device),
                     limits);
    return decoder;
  }

  static BeamCase random_batch(std::mt19937& random, const Arm& arm, size_t rows, int64_t longest) {
    std::vector<int64_t> frames;
    for (size_t b = 0; b < rows; ++b)
      frames.push_back(std::uniform_int_distribution<int64_t>(0, longest)(random));
    return random_beam_case(random, arm.tdt, kVocabulary, kVocabulary, frames);
  }

  static void expect_rows(const std::vector<Hypothesis>& found,
                          const std::vector<Hypothesis>& expected, const std::string& what) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t b = 0; b < expected.size(); ++b)
      expect_same(found[b], expected[b], what + " row " + std::to_string(b));
  }

  const at::Device device_{at::kCUDA, 0};
  const SmallLm lm_{kVocabulary};
  const std::string graph_ = lm_.path() + ".tlg";
};

TEST_F(BeamGpu, EqualsTheCpu) {
  std::mt19937 random(3);
  for (const Arm& arm : arms()) {
    const BeamCase c = random_batch(random, arm, 7, 20);
    const int64_t columns = c.model.columns();
    expect_rows(
        prepared(arm, c, device_, "host")->decode(batch_of(c.rows, columns, device_)).to_host(),
        prepared(arm, c, at::kCPU, "host")->decode(batch_of(c.rows, columns)).to_host(),
        arm.what());
    if (HasFailure()) return;
  }
}

TEST_F(BeamGpu, GraphsEqualTheHostDrivenForm) {
  std::mt19937 random(5);
  for (const Arm& arm : arms()) {
    for (const size_t rows : {1, 8, 32}) {
      const BeamCase c = random_batch(random, arm, rows, 40);
      const auto batch = batch_of(c.rows, c.model.columns(), device_);
      const auto graph =
          prepared(arm, c, device_, "graph", {static_cast<int64_t>(rows), batch.frames.size(1)});
      expect_rows(graph->decode(batch).to_host(),
                  prepared(arm, c, device_, "host")->decode(batch).to_host(), arm.what());
      // To find the words of the graph, the host reads each array of the results once. Durations
      // are two arrays, one of the best hypothesis and one of all.
      const int64_t of_results = arm.name != "transducer_wfst" ? 0 : arm.tdt ? 11 : 9;
      EXPECT_EQ(graph->counters().at("host_reads"), of_results) << arm.what();
      EXPECT_EQ(graph->counters().at("graph_captures"), 0);  // prepare() has recorded it
    }
    if (HasFailure()) return;
  }
}

TEST_F(BeamGpu, GraphsServeBatchesOfEveryShape) {
  std::mt19937 random(7);
  for (const Arm& arm : arms()) {
    BeamCase c = random_batch(random, arm, 4, 20);
    const auto graph = prepared(arm, c, device_, "graph", {4, 20});
    const auto host = prepared(arm, c, device_, "host");
    int64_t captures = 0;
    // Batches are smaller and larger than prepared for, then small again. Rows of earlier batches
    // must not show.
    for (const auto& [rows, longest] : {std::pair{4, 20}, {2, 9}, {9, 70}, {1, 1}, {3, 0}}) {
      c.rows = random_batch(random, arm, static_cast<size_t>(rows), longest).rows;
      const auto batch = batch_of(c.rows, c.model.columns(), device_);
      const Hypotheses first = graph->decode(batch);
      captures += graph->counters().at("graph_captures");
      graph->decode(batch);  // another search must not overwrite the first results
      EXPECT_EQ(graph->counters().at("graph_captures"), 0);
      expect_rows(first.to_host(), host->decode(batch).to_host(), arm.what());
    }
    EXPECT_EQ(captures, 1) << arm.what();
    if (HasFailure()) return;
  }
}

TEST_F(BeamGpu, NoSearchWaitsUndeclared) {
  std::mt19937 random(11);
  for (const Arm& arm : arms()) {
    const BeamCase c = random_batch(random, arm, 5, 12);
    const auto batch = batch_of(c.rows, c.model.columns(), device_);
    for (const char* loop : {"host", "graph"}) {
      const auto decoder = prepared(arm, c, device_, loop, {5, 12});
      decoder->decode(batch);
      EXPECT_NO_THROW(forbid_undeclared_syncs([&] { decoder->decode(batch); })) << arm.what();
    }
  }
}

TEST_F(BeamGpu, TopKIsThatOfTheCpuForEqualValuesAndNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  at::manual_seed(5);
  at::Tensor values = at::randint(-3, 4, {64, 500}).to(at::kFloat);
  values.index_put_({at::arange(0, 64, 2), at::randint(0, 500, {32})}, at::Scalar(-nan));
  values.index_put_({at::arange(0, 64, 4), at::randint(0, 500, {16})}, at::Scalar(nan));
  values.index_put_({at::arange(64), at::randint(0, 500, {64})}, at::Scalar(-0.0));
  for (const int64_t k : {1, 4, 100}) {
    const TopK host = top_k(values, k), device = top_k(values.cuda(), k);
    EXPECT_TRUE(at::equal(device.indices.cpu(), host.indices)) << k;
  }
}

}  // namespace
}  // namespace rtfx
