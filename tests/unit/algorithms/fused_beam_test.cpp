// Tests the phases of fused beam searches, which are kernels on a GPU. Threads of the CPU run them
// here, and they must give the results of LibTorch's operators.
#include <gtest/gtest.h>

#include "algorithms/log_zero.h"
#include "algorithms/shared/beams/top_k.h"
#include "algorithms/shared/fused_beam/fused_search.h"
#include "algorithms/shared/fused_beam/hypothesis_step.h"
#include "algorithms/shared/transducer/transducer.h"
#include "tests/support/beam_cases.h"
#include "tests/support/small_lm.h"
#include "tests/support/small_model.h"
#include "tests/support/threaded_block.h"

namespace rtfx {
namespace {

using namespace test;

constexpr int64_t kVocabulary = 20;

int64_t draw(std::mt19937& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

bool toss(std::mt19937& random) { return draw(random, 0, 1) == 1; }

BeamCase ragged_case(std::mt19937& random, bool tdt, int64_t rows, int64_t longest) {
  std::vector<int64_t> frames;
  for (int64_t b = 0; b < rows; ++b) frames.push_back(draw(random, 0, longest));
  return random_beam_case(random, tdt, kVocabulary, kVocabulary, frames);
}

nlohmann::json random_options(std::mt19937& random, const std::string& name) {
  const std::vector<int64_t> beams = {1, 2, 3, 4, 6, 8, 16};
  const int64_t beam = beams[static_cast<size_t>(draw(random, 0, 6))];
  nlohmann::json options = {{"beam_size", beam},
                            {"nbest", beam},
                            {"score_norm", toss(random)},
                            {"temperature", toss(random) ? 1.0 : 1.7}};
  if (name == "alsd_pp") {
    // Long texts repeat tokens. Some then sum the same terms in another order, so that only
    // rounding decides between them.
    options["max_symbols"] = draw(random, 1, 3);
    options["merge_finished"] = toss(random);
    options["compatibility"] = toss(random) ? "none" : "nemo";
  } else if (name == "aes_pp") {
    options["num_steps"] = draw(random, 1, 4);
    options["expansion_beta"] = draw(random, 0, 4);
    options["expansion_gamma"] = toss(random) ? 2.3 : 5.0;
    options["compatibility"] = toss(random) ? "none" : "nemo";
    toss(random);  // keeps the seeds' cases: others have near ties in half precision
  }
  return options;
}

/// Bounds the tokens per frame, where a search has an option for that.
void bound_tokens(nlohmann::json& options, const std::string& name, int64_t most) {
  if (name == "alsd_pp") options["max_symbols"] = most;
  if (name == "aes_pp") options["num_steps"] = most;
}

nlohmann::json random_lm_options(std::mt19937& random, const SmallLm& lm) {
  const std::vector<double> alphas = {0, 0.4, 0.9}, betas = {0, 0, 0.6};
  return {{"path", lm.path()},
          {"alpha", alphas[static_cast<size_t>(draw(random, 0, 2))]},
          {"beta", betas[static_cast<size_t>(draw(random, 0, 2))]},
          {"blank_scoring", toss(random) ? "lm_weighted_full" : "no_score"},
          {"pruning", toss(random) ? "late" : "early"}};
}

std::vector<Hypothesis> decode(const std::string& name, nlohmann::json options,
                               const std::string& step, std::shared_ptr<const AcousticModel> model,
                               const EncodedBatch& batch) {
  options["kernels"] = step;
  const auto decoder = make_decoder(name, options, "");
  decoder->prepare(std::move(model), {});
  return decoder->decode(batch).to_host();
}

void expect_equal_forms(const std::string& name, const nlohmann::json& options,
                        std::shared_ptr<const AcousticModel> model, const EncodedBatch& batch,
                        const std::string& what) {
  const auto expected = decode(name, options, "operators", model, batch);
  const auto found = decode(name, options, "fused", model, batch);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t b = 0; b < expected.size(); ++b) {
    EXPECT_EQ(found[b].nan, expected[b].nan) << what;
    expect_same(found[b], expected[b],
                name + " " + what + options.dump() + " row " + std::to_string(b));
  }
}

/// The parameters are the name of a search, and whether the model is TDT.
class FusedBeam : public testing::TestWithParam<std::tuple<const char*, bool>> {
 protected:
  const std::string name_ = std::get<0>(GetParam());
  const bool tdt_ = std::get<1>(GetParam());
  const SmallLm lm_{kVocabulary};

  /// Runs the search with all phases in blocks of `threads` threads. `flag` sets one of its
  /// options.
  std::vector<Hypothesis> search_by_threads(const FusedModel& model, const Transducer& transducer,
                                            const BeamLm& lm, const at::Tensor& encoded,
                                            const at::Tensor& lengths, int64_t beam, bool flag,
                                            int32_t threads) const {
    constexpr int64_t kMost = 2;
    const auto run = [threads](const auto& phase) { run_by_threads(phase, threads); };
    const bool one_label = name_ == "modified_beam_search";
    TransducerBeams beams(transducer, lm, encoded, lengths, beam, encoded.size(1) * (kMost + 1),
                          one_label ? AlignmentRule::monotonic : AlignmentRule::rnnt);
    if (name_ != "aes_pp") {
      FusedStep steps(model, lm, {kMost, 1.0, flag, true, one_label}, beams);
      while (steps.any_active.item<bool>()) steps.step(run);
    } else {
      FusedFrame frames(model, lm, {kMost, beam + 2, 2.3, 1.0, false, flag}, beams);
      while (frames.active.item<bool>()) {
        frames.start_frame(run);
        while (frames.expanding.item<bool>()) frames.expand(run);
        frames.finish_frame(run);
      }
    }
    return beams.result(beam, true).to_host();
  }
};

TEST_P(FusedBeam, EqualsTheOperators) {
  std::mt19937 random(tdt_ ? 2 : 1);
  for (int trial = 0; trial < 200; ++trial) {
    nlohmann::json options = random_options(random, name_);
    if (trial % 3 > 0) options["lm"] = random_lm_options(random, lm_);
    const BeamCase c = ragged_case(random, tdt_, draw(random, 1, 5), 12);
    expect_equal_forms(name_, options, build(c.model), batch_of(c.rows, c.model.columns()),
                       "trial " + std::to_string(trial));
    if (HasFailure()) return;
  }
}

TEST_P(FusedBeam, EqualsTheOperatorsWithAnLstm) {
  std::mt19937 random(tdt_ ? 4 : 3);
  at::manual_seed(tdt_ ? 4 : 3);
  ModelConfig config = small_config();
  if (!tdt_) config.durations = {};
  for (int trial = 0; trial < 40; ++trial) {
    config.prediction.layers = draw(random, 1, 3);
    const auto model = random_model(config, static_cast<uint64_t>(trial));
    nlohmann::json options = random_options(random, name_);
    if (trial % 3 > 0) options["lm"] = random_lm_options(random, lm_);
    expect_equal_forms(name_, options, model, random_batch(random, 4, 14, config.encoder.width),
                       "trial " + std::to_string(trial));
    if (HasFailure()) return;
  }
}

TEST_P(FusedBeam, EqualsTheOperatorsInHalfPrecision) {
  std::mt19937 random(tdt_ ? 6 : 5);
  for (int trial = 0; trial < 40; ++trial) {
    const at::ScalarType dtype = trial % 2 == 0 ? at::kBFloat16 : at::kHalf;
    const BeamCase c = ragged_case(random, tdt_, 3, 8);
    expect_equal_forms(name_, random_options(random, name_), build(c.model, at::kCPU, dtype),
                       batch_of(c.rows, c.model.columns(), at::kCPU, dtype),
                       "trial " + std::to_string(trial));
    if (HasFailure()) return;
  }
}

/// Logits have few values, and all durations are alike, so that many hypotheses have equal scores.
TEST_P(FusedBeam, TiesGoToTheSame) {
  std::mt19937 random(tdt_ ? 8 : 7);
  for (int trial = 0; trial < 60; ++trial) {
    BeamCase c = ragged_case(random, tdt_, 2, 3);
    const auto coarse = [](Table& table) {
      for (auto& row : table)
        for (size_t k = 0; k < row.size(); ++k) row[k] = row[k] < 0 || k > kVocabulary ? 0 : 1;
    };
    coarse(c.model.newest);
    coarse(c.model.older);
    for (Table& row : c.rows) coarse(row);
    // Texts are short, because in sums of many terms the order of rounding decides whether they
    // tie.
    nlohmann::json options = {{"beam_size", 5}, {"nbest", 5}};
    bound_tokens(options, name_, 1 + trial % 3);
    expect_equal_forms(name_, options, build(c.model), batch_of(c.rows, c.model.columns()),
                       "trial " + std::to_string(trial));
    if (HasFailure()) return;
  }
}

TEST_P(FusedBeam, ANanStaysInItsRow) {
  std::mt19937 random(tdt_ ? 10 : 9);
  BeamCase c = random_beam_case(random, tdt_, kVocabulary, kVocabulary, {5, 7, 4, 6});
  c.rows[1][3][2] = std::numeric_limits<double>::quiet_NaN();
  const nlohmann::json options = {{"beam_size", 4}, {"nbest", 4}};
  const EncodedBatch batch = batch_of(c.rows, c.model.columns());
  const auto expected = decode(name_, options, "operators", build(c.model), batch);
  const auto found = decode(name_, options, "fused", build(c.model), batch);
  for (size_t b = 0; b < c.rows.size(); ++b) {
    EXPECT_EQ(found[b].nan, b == 1);
    if (b != 1) expect_same(found[b], expected[b], "row " + std::to_string(b));
  }
}

/// The beam has more slots than a GPU's warp has threads.
TEST_P(FusedBeam, EqualsTheOperatorsInAWideBeam) {
  constexpr int64_t kBeam = 40;
  std::mt19937 random(tdt_ ? 14 : 13);
  for (int trial = 0; trial < 4; ++trial) {
    const BeamCase c = random_beam_case(random, tdt_, kBeam + 5, kBeam + 5, {4, 2});
    nlohmann::json options = {{"beam_size", kBeam}, {"nbest", kBeam}};
    bound_tokens(options, name_, 1);
    expect_equal_forms(name_, options, build(c.model), batch_of(c.rows, c.model.columns()),
                       "trial " + std::to_string(trial));
    if (HasFailure()) return;
  }
}

/// Rows of logits are too long for a block to read them into its shared memory.
TEST_P(FusedBeam, EqualsTheOperatorsWithLongRows) {
  constexpr int64_t kLong = 9000;
  std::mt19937 random(tdt_ ? 16 : 15);
  at::manual_seed(tdt_ ? 16 : 15);
  const SmallLm lm(kLong);
  ModelConfig config = small_config();
  config.vocabulary = kLong;
  if (!tdt_) config.durations = {};
  const auto model = random_model(config, 3);
  for (const bool with_lm : {false, true}) {
    nlohmann::json options = {{"beam_size", 3}, {"nbest", 3}, {"temperature", 1.3}};
    if (with_lm) options["lm"] = {{"path", lm.path()}, {"alpha", 0.4}, {"pruning", "late"}};
    expect_equal_forms(name_, options, model, random_batch(random, 2, 6, config.encoder.width),
                       with_lm ? "language model" : "");
  }
}

/// The joint's output has columns behind the last label and duration, which only its matrix product
/// needs. Whatever they hold must not change a result.
TEST_P(FusedBeam, NeverLooksAtThePadding) {
  std::mt19937 random(tdt_ ? 18 : 17);
  for (const int64_t vocabulary : {17, 20, 23}) {
    const BeamCase c = random_beam_case(random, tdt_, vocabulary, vocabulary, {5, 3});
    const auto acoustic = build(c.model);
    const Transducer transducer(acoustic, {});
    const EncodedBatch batch = batch_of(c.rows, c.model.columns());
    const at::Tensor encoded = transducer.encode(batch.frames);
    const auto search = [&](double poison) {
      const FusedModel model(acoustic);
      EXPECT_EQ(model.output.bias.size(0) % 8, 0);
      EXPECT_LT(model.output.bias.size(0) - c.model.columns(), 8);
      model.output.bias.slice(0, c.model.columns()).fill_(poison);
      return search_by_threads(model, transducer, {}, encoded, batch.lengths, 4, true, 1);
    };
    const auto expected = search(0);
    for (const double poison : {1e30, std::numeric_limits<double>::quiet_NaN()}) {
      const auto found = search(poison);
      for (size_t b = 0; b < expected.size(); ++b)
        expect_same(found[b], expected[b], "vocabulary " + std::to_string(vocabulary));
    }
  }
}

/// Blocks have several threads, as on a GPU. There are fewer threads than labels, or more.
TEST_P(FusedBeam, AnyNumberOfThreadsFindsTheSame) {
  std::mt19937 random(tdt_ ? 12 : 11);
  for (int trial = 0; trial < 4; ++trial) {
    const int64_t beam = 2 + trial;
    LmOptions lm_options;
    lm_options.path = lm_.path();
    lm_options.pruning = trial % 2 == 0 ? "late" : "early";
    const BeamCase c = random_beam_case(random, tdt_, kVocabulary, kVocabulary, {3, 2});
    const auto acoustic = build(c.model);
    const auto loaded = load_lm(lm_options, *acoustic);
    const BeamLm lm = {loaded.get(), &lm_options};
    const Transducer transducer(acoustic, {});
    const FusedModel model(acoustic);
    const EncodedBatch batch = batch_of(c.rows, c.model.columns());

    const at::Tensor encoded = transducer.encode(batch.frames);
    const auto search = [&](int32_t threads) {
      return search_by_threads(model, transducer, lm, encoded, batch.lengths, beam, trial % 2 == 0,
                               threads);
    };
    const auto alone = search(1);
    for (const int32_t threads : {3, 30}) {
      if (threads == 30 && trial > 0) continue;
      const auto together = search(threads);
      for (size_t b = 0; b < alone.size(); ++b)
        expect_same(together[b], alone[b],
                    std::to_string(threads) + " threads, beam " + std::to_string(beam));
    }
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Decoders, FusedBeam,
    testing::Combine(testing::Values("alsd_pp", "aes_pp", "modified_beam_search"), testing::Bool()),
    [](const auto& info) {
      const bool tdt = std::get<1>(info.param);
      return std::string(std::get<0>(info.param)) + (tdt ? "_tdt" : "_rnnt");
    });

/// A phase with one block, which selects the k best of n values.
struct Selection {
  const float* values;
  int32_t n, k;
  float* best;
  int64_t* indices;
  int32_t blocks() const { return 1; }
  int64_t shared_bytes() const { return 0; }
  template <class Block>
  void operator()(Block& block, int32_t, void*) const {
    fused_beam::select(
        block, n, k, [&](int32_t i) { return max_key(values[i], i); },
        [&](int32_t i, MaxKey key) {
          if (!fused_beam::is_mine(block, i)) return;
          best[i] = value_of(key);
          indices[i] = index_of(key);
        });
  }
};

TEST(Select, EqualsTopK) {
  at::manual_seed(13);
  std::mt19937 random(13);
  for (int trial = 0; trial < 60; ++trial) {
    const int64_t n = draw(random, 1, 60), k = draw(random, 1, n);
    at::Tensor values = trial % 2 == 0 ? at::randn({n}) : at::randint(-2, 3, {n}).to(at::kFloat);
    if (trial % 3 == 0) values.masked_fill_(at::rand({n}) < 0.3, kLogZero);
    if (trial % 5 == 0) values.masked_fill_(at::rand({n}) < 0.2, -0.0);
    const at::Tensor best = at::empty({k}), indices = at::empty({k}, at::kLong);
    run_by_threads(
        Selection{values.const_data_ptr<float>(), static_cast<int32_t>(n), static_cast<int32_t>(k),
                  best.mutable_data_ptr<float>(), indices.mutable_data_ptr<int64_t>()},
        trial % 7 == 0 ? 40 : 1 + trial % 5);  // some threads without a value, or with one
    const TopK expected = top_k(values.unsqueeze(0), k);
    EXPECT_TRUE(indices.equal(expected.indices[0])) << values;
    EXPECT_TRUE(best.equal(expected.values[0])) << values;
  }
}

TEST(Select, TakesNansFirst) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> values = {1, -nan, 3, nan};
  std::vector<float> best(4);
  std::vector<int64_t> indices(4);
  run_by_threads(Selection{values.data(), 4, 4, best.data(), indices.data()}, 3);
  EXPECT_EQ(indices, (std::vector<int64_t>{1, 3, 2, 0}));
}

}  // namespace
}  // namespace rtfx
