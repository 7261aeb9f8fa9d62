// Tests the replay of greedy results. Honest ones pass in every dtype, and each kind of planted
// error is found.
#include <gtest/gtest.h>

#include "tests/support/greedy_lm_cases.h"
#include "tests/support/replay_cases.h"
#include "tests/support/small_lm.h"

namespace rtfx {
namespace {

using namespace test;

constexpr at::ScalarType kDtypes[] = {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble};

TEST(Replay, NetworkIsTheReferences) {
  for (const bool stateless : {false, true}) {
    ModelConfig config = small_config();
    if (stateless) {
      config.prediction.kind = PredictionConfig::Kind::stateless;
      config.prediction.layers = 0;
      config.prediction.context_size = 2;
      config.prediction.layer_norm = true;
    }
    const auto model = random_model(config, 3);
    const ReplayNetwork network(model, Head::transducer);
    const at::Tensor tokens = at::tensor(std::vector<int64_t>{4, 7, 7, 0}).unsqueeze(0);
    const at::Tensor frame = at::randn({1, config.encoder.width});
    const Uncertain predictions = network.predictions(tokens);
    PredictionState state = model->prediction->initial_state(1);
    at::Tensor label = at::full({1}, model->prediction->blank(), at::kLong);
    for (int64_t u = 0; u <= 4; ++u) {
      const auto step = model->prediction->step(label, state);
      const at::Tensor expected = model->joint->logits(
          model->joint->project_encoder(frame), model->joint->project_prediction(step.output));
      const auto found = network.outputs(network.encode(frame), predictions.select(1, u));
      EXPECT_LT((found.logits - expected).abs().max().item<double>(), 1e-5) << u;
      state = step.state;
      if (u < 4) label = tokens.select(1, u);
    }
  }
}

TEST(Replay, AcceptsThePlainSearchOnTables) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 60; ++trial) {
    const Case c = random_case(random, trial % 2 == 0, trial % 4 < 2);
    const int64_t max_symbols =
        std::vector<int64_t>{1, 2, 3, 5, 10}[static_cast<size_t>(trial % 5)];
    std::vector<Hypothesis> found;
    for (const Table& row : c.rows) found.push_back(oracle(c.model, row, max_symbols));
    const auto decoder = make_decoder("label_looping", {{"max_symbols", max_symbols}}, "");
    for (const auto dtype : kDtypes) {
      const auto batch = batch_of(c.rows, c.model.columns(), at::kCPU, dtype);
      for (const Replayed& r : replay(build(c.model, at::kCPU, dtype), *decoder, batch, found))
        EXPECT_TRUE(r.within()) << trial << " " << dtype << ": " << text(r);
    }
    if (HasFailure()) return;
  }
}

/// Logits of the tables are whole numbers. A result without its last token, which was better than
/// blank, has a blank in its place that is worse by at least 1.
TEST(Replay, AcceptsNothingElseOnTables) {
  std::mt19937 random(12);
  int changed = 0;
  for (int trial = 0; trial < 200; ++trial) {
    const Case c = random_case(random, /*tdt=*/false, trial % 2 == 0);
    const auto model = build(c.model);
    const auto batch = batch_of(c.rows, c.model.columns());
    const auto decoder = make_decoder("label_looping", {{"max_symbols", 2}}, "");
    std::vector<Hypothesis> found;
    std::vector<bool> is_wrong;
    for (const Table& row : c.rows) {
      Hypothesis h = oracle(c.model, row, 2);
      is_wrong.push_back(false);
      if (!h.tokens.empty()) {
        const size_t last = h.tokens.size() - 1;
        std::vector<int32_t> before(h.tokens.begin(), h.tokens.end() - 1);
        const auto sum = logits(c.model, row[static_cast<size_t>(h.frames[last])], before);
        if (sum[static_cast<size_t>(h.tokens[last])] >
            sum[static_cast<size_t>(c.model.vocabulary)]) {
          h.tokens.pop_back();
          h.frames.pop_back();
          if (!h.durations.empty()) h.durations.pop_back();
          is_wrong.back() = true;
          ++changed;
        }
      }
      found.push_back(h);
    }
    const auto results = replay(model, *decoder, batch, found);
    for (size_t b = 0; b < found.size(); ++b)
      EXPECT_NE(results[b].within(), is_wrong[b]) << trial << " " << b;
  }
  EXPECT_GT(changed, 100);
}

/// Logits of both signs can cancel in a score, but their errors do not.
TEST(Replay, TheBoundOfAScoreGrowsWithTheMagnitudesOfItsTerms) {
  std::mt19937 random(13);
  int cancelled = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const Case c = random_case(random, /*tdt=*/false, trial % 2 == 0);
    const auto decoder = make_decoder("label_looping", {{"max_symbols", 3}}, "");
    std::vector<Hypothesis> found;
    for (const Table& row : c.rows) found.push_back(oracle(c.model, row, 3));
    const auto results =
        replay(build(c.model), *decoder, batch_of(c.rows, c.model.columns()), found);
    for (size_t b = 0; b < found.size(); ++b) {
      const Hypothesis& h = found[b];
      double sum = 0, magnitudes = 0;
      for (size_t i = 0; i < h.tokens.size(); ++i) {
        const std::vector<int32_t> before(h.tokens.begin(),
                                          h.tokens.begin() + static_cast<std::ptrdiff_t>(i));
        const auto at_frame = logits(c.model, c.rows[b][static_cast<size_t>(h.frames[i])], before);
        const double logit = at_frame[static_cast<size_t>(h.tokens[i])];
        sum += logit;
        magnitudes += std::abs(logit);
      }
      EXPECT_GE(results[b].score_bound, magnitudes * 0x1p-15) << trial << " " << b;
      cancelled += magnitudes > 2 * std::abs(sum) + 1;
    }
  }
  EXPECT_GT(cancelled, 5);
}

/// Replays honest results of decoders of full width in all dtypes.
TEST(Replay, AcceptsDecodersOfFullWidth) {
  at::manual_seed(4);
  for (const bool tdt : {false, true}) {
    for (const auto dtype : kDtypes) {
      const auto model = full_width_model(tdt, at::kCPU, dtype);
      std::mt19937 random(3);
      const EncodedBatch batch = random_batch(random, 6, 30, 512, at::kCPU, dtype);
      for (const char* name : {"frame_looping", "label_looping"}) {
        const auto decoder = make_decoder(name, {{"max_symbols", 3}}, "");
        decoder->prepare(model, {});
        const auto found = decoder->decode(batch).to_host();
        for (const Replayed& r : replay(model, *decoder, batch, found)) {
          EXPECT_TRUE(r.within()) << name << " " << dtype << ": " << text(r);
          EXPECT_LT(r.worst, 0.5) << name << " " << dtype << ": the bound is not that loose";
        }
      }
    }
  }
}

/// Only the tokens 0 and 1 are possible. The last token, whose bonus is -inf, shares its place in
/// the table of bonuses with blank.
TEST(Replay, AcceptsCtcWithALanguageModelThatRulesOutTokens) {
  std::mt19937 random(14);
  constexpr int64_t kVocabulary = 8;
  const SmallLm lm(kVocabulary, /*has_unk=*/false);
  const auto model = identity_model(kVocabulary);
  const auto decoder =
      make_decoder("ctc_greedy", {{"lm", {{"path", lm.path()}, {"alpha", 0.4}}}}, "");
  decoder->prepare(model, {});
  size_t tokens = 0;
  for (int trial = 0; trial < 8; ++trial) {
    std::vector<Table> rows;
    for (const int64_t frames : {1, 5, 12}) {
      rows.push_back(random_table(random, frames, kVocabulary + 1));
      for (auto& frame : rows.back()) frame.back() += 2;  // blank is often the best label
    }
    const EncodedBatch batch = batch_of(rows, kVocabulary + 1);
    const auto found = decoder->decode(batch).to_host();
    for (const Hypothesis& h : found) tokens += h.tokens.size();
    for (const Replayed& r : replay(model, *decoder, batch, found))
      EXPECT_TRUE(r.within()) << trial << ": " << text(r);
  }
  EXPECT_GT(tokens, 20);
}

/// Runs the plain search with `change` on each row of a batch.
std::vector<Hypothesis> search_with(const std::shared_ptr<const AcousticModel>& model,
                                    const EncodedBatch& batch,
                                    const std::function<at::Tensor(at::Tensor)>& change) {
  std::vector<Hypothesis> found;
  for (int64_t row = 0; row < batch.frames.size(0); ++row)
    found.push_back(greedy_with(model, batch, row, 2, change));
  return found;
}

TEST(Replay, FindsLogitsThatWereRoundedToFp8) {
  at::manual_seed(4);
  for (const bool tdt : {false, true}) {
    const auto model = full_width_model(tdt, at::kCPU, at::kBFloat16);
    std::mt19937 random(3);
    const EncodedBatch batch = random_batch(random, 8, 30, 512, at::kCPU, at::kBFloat16);
    const auto decoder = make_decoder("label_looping", {{"max_symbols", 2}}, "");
    const auto honest = search_with(model, batch, [](const at::Tensor& z) { return z; });
    const auto wrong = search_with(model, batch, to_fp8);
    const auto accepted = replay(model, *decoder, batch, honest);
    const auto refused = replay(model, *decoder, batch, wrong);
    size_t found = 0;
    for (size_t b = 0; b < honest.size(); ++b) {
      EXPECT_TRUE(accepted[b].within()) << text(accepted[b]);
      found += refused[b].within() ? 0 : 1;
    }
    EXPECT_GE(found, tdt ? 4U : 7U) << "of 8 rows";  // rows of few decisions may be right
  }
}

TEST(Replay, FindsPlantedErrorsAtFullWidth) {
  at::manual_seed(4);
  for (const bool tdt : {false, true}) {
    const auto model = full_width_model(tdt, at::kCPU, at::kBFloat16);
    std::mt19937 random(3);
    const EncodedBatch batch = random_batch(random, 8, 30, 512, at::kCPU, at::kBFloat16);
    const auto decoder = make_decoder("label_looping", {{"max_symbols", 2}}, "");
    decoder->prepare(model, {});
    const auto honest = decoder->decode(batch).to_host();
    const auto share = [&](const auto& plant) {
      return share_found(model, *decoder, batch, honest, plant, 2);
    };
    EXPECT_GT(share([](Hypothesis& h, std::mt19937& r) { return swap_a_token(h, r, 1024); }), 0.9);
    EXPECT_GT(share([](Hypothesis& h, std::mt19937& r) { return move_a_frame(h, r, 1); }), 0.9);
    if (!tdt) continue;
    EXPECT_GT(share([](Hypothesis& h, std::mt19937& r) { return change_a_duration(h, r, 4); }),
              0.9);
  }
}

}  // namespace
}  // namespace rtfx
