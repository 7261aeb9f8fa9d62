// Tests the measures of the confidence of tokens, and the frames at which they are taken.
// tests/golden/test_confidence.py compares them with NeMo's.
#include "algorithms/shared/confidence/confidence.h"

#include <gtest/gtest.h>

#include <cmath>

#include "algorithms/decoder.h"
#include "tests/support/small_model.h"

namespace rtfx {
namespace {

using namespace test;

std::vector<ConfidenceOptions> every_measure() {
  std::vector<ConfidenceOptions> all;
  for (const double alpha : {1.0, 0.33, 0.05}) {
    all.push_back({.method = "max_prob", .alpha = alpha});
    for (const char* entropy : {"gibbs", "tsallis"})
      for (const char* norm : {"lin", "exp"})
        all.push_back({.method = "entropy", .entropy = entropy, .norm = norm, .alpha = alpha});
  }
  return all;
}

double measured(const std::vector<double>& probabilities, const ConfidenceOptions& options) {
  return confidence_of(at::tensor(probabilities, at::kFloat).log(), options).item<double>();
}

TEST(ConfidenceMeasure, IsZeroOfAUniformDistributionAndOneOfACertainOne) {
  for (const ConfidenceOptions& options : every_measure()) {
    EXPECT_NEAR(measured(std::vector<double>(50, 0.02), options), 0, 1e-5);
    std::vector<double> certain(50, 0.0);
    certain[7] = 1;
    EXPECT_NEAR(measured(certain, options), 1, 1e-6) << "logarithms of 0 count as nothing";
  }
}

TEST(ConfidenceMeasure, IsFromZeroToOne) {
  for (const ConfidenceOptions& options : every_measure()) {
    for (const size_t labels : {3, 50, 1025}) {
      for (const auto& [first, second] :
           std::vector<std::pair<double, double>>{{0.6, 0.3}, {0.8, 0.1}, {0.99, 0.001}}) {
        std::vector<double> p(labels, (1 - first - second) / static_cast<double>(labels - 2));
        p[0] = first;
        p[1] = second;
        const double found = measured(p, options);
        EXPECT_TRUE(0 <= found && found <= 1)
            << found << ": " << confidence_options().resolved(options) << ", " << labels
            << " labels, " << first;
      }
    }
  }
}

TEST(ConfidenceMeasure, IsByTheFormula) {
  const std::vector<double> p = {0.7, 0.2, 0.1};
  const double shannon = -(0.7 * std::log(0.7) + 0.2 * std::log(0.2) + 0.1 * std::log(0.1));
  EXPECT_NEAR(measured(p, {.method = "max_prob", .alpha = 1}), (0.7 * 3 - 1) / 2, 1e-6);
  EXPECT_NEAR(measured(p, {.method = "entropy", .entropy = "gibbs", .norm = "lin", .alpha = 1}),
              1 - shannon / std::log(3), 1e-6);
  const double tsallis = (std::sqrt(0.7) + std::sqrt(0.2) + std::sqrt(0.1) - 1) / 0.5;
  EXPECT_NEAR(measured(p, {.method = "entropy", .entropy = "tsallis", .norm = "lin", .alpha = 0.5}),
              1 - tsallis / ((std::sqrt(3) - 1) / 0.5), 1e-6);
}

TEST(ConfidenceMeasure, HasOptionsThatAreChecked) {
  const auto fill = [](const nlohmann::json& given) { confidence_options().fill(given, "here"); };
  EXPECT_NO_THROW(fill({{"method", "max_prob"}, {"alpha", 1}}));
  for (const nlohmann::json& wrong : {nlohmann::json{{"method", "softmax"}},
                                      {{"alpha", 0}},
                                      {{"alpha", 1.1}},
                                      {{"aggregation", "sum"}}})
    EXPECT_THROW(fill(wrong), UserError) << wrong;
}

struct Arm {
  std::string decoder;
  Head head;
  bool tdt;
  std::vector<int64_t> blanks = {};  // durations of a multi-blank model
};

class ConfidenceOf : public ::testing::TestWithParam<Arm> {
 protected:
  ConfidenceOf() {
    ModelConfig config = small_config();
    if (!GetParam().tdt) config.durations = {};
    config.blank_durations = GetParam().blanks;
    model = random_model(config, 5);
    at::manual_seed(3);
    batch = random_batch(random, 7, 30, config.encoder.width);
    const auto decoder = make_decoder(GetParam().decoder, {}, "");
    decoder->prepare(model, {});
    found = decoder->decode(batch).to_host();
  }

  std::vector<TokenEvidence> evidence(const ConfidenceOptions& options) const {
    std::vector<int64_t> rows;
    std::vector<const Hypothesis*> hypotheses;
    for (size_t i = found.size(); i-- > 0;) {
      rows.push_back(static_cast<int64_t>(i));
      hypotheses.push_back(&found[i]);
    }
    return Confidence(model, GetParam().head, options)(batch, rows, hypotheses);
  }

  std::mt19937 random{9};
  std::shared_ptr<const AcousticModel> model;
  EncodedBatch batch;
  std::vector<Hypothesis> found;
};

TEST_P(ConfidenceOf, ARowDoesNotDependOnTheOthers) {
  size_t tokens = 0;
  for (const bool exclude_blank : {true, false}) {
    const ConfidenceOptions options{
        .method = "entropy", .aggregation = "mean", .exclude_blank = exclude_blank};
    const auto all = evidence(options);
    for (size_t i = 0; i < found.size(); ++i) {
      const auto row = static_cast<int64_t>(i);
      const int64_t length = batch.lengths_host[i];
      const EncodedBatch alone{batch.frames.narrow(0, row, 1).narrow(1, 0, length),
                               batch.lengths.narrow(0, row, 1),
                               {length}};
      const auto one = Confidence(model, GetParam().head, options)(alone, {0}, {&found[i]});
      const TokenEvidence& in_batch = all[found.size() - 1 - i];
      ASSERT_EQ(in_batch.confidence.size(), found[i].tokens.size());
      ASSERT_EQ(one[0].confidence.size(), found[i].tokens.size());
      EXPECT_EQ(in_batch.runs, one[0].runs);
      for (size_t t = 0; t < found[i].tokens.size(); ++t)
        EXPECT_NEAR(in_batch.confidence[t], one[0].confidence[t], 1e-5);
      tokens += found[i].tokens.size();
    }
  }
  EXPECT_GT(tokens, 20U);
}

TEST_P(ConfidenceOf, BlanksCountWhereTheyAreAskedFor) {
  // A random network hardly gives any blank, so frames whose tokens are dropped serve as blanks.
  for (Hypothesis& h : found) {
    for (auto* values : {&h.tokens, &h.frames, &h.durations}) {
      std::vector<int32_t> kept;
      for (size_t t = 0; t < values->size(); t += 15) kept.push_back((*values)[t]);
      *values = kept;
    }
  }
  const auto without = evidence({.aggregation = "min"});
  const auto with = evidence({.aggregation = "min", .exclude_blank = false});
  int lower = 0;
  for (size_t i = 0; i < without.size(); ++i) {
    for (size_t t = 0; t < without[i].confidence.size(); ++t) {
      EXPECT_LE(with[i].confidence[t], without[i].confidence[t]);
      lower += with[i].confidence[t] < without[i].confidence[t];
    }
  }
  EXPECT_GT(lower, 0);
}

TEST_P(ConfidenceOf, TheLastTokenIsThatOfTheNetworkThere) {
  const ConfidenceOptions options{.method = "max_prob", .alpha = 1, .aggregation = "mean"};
  const auto all = evidence(options);
  for (size_t i = 0; i < found.size(); ++i) {
    const Hypothesis& h = found[i];
    if (h.tokens.empty()) continue;
    const TokenEvidence& of = all[found.size() - 1 - i];
    const at::Tensor frame = batch.frames[static_cast<int64_t>(i)][h.frames.back()];
    at::Tensor logits;
    if (GetParam().head == Head::ctc) {
      if (of.runs.back() > 1) continue;
      logits = model->ctc_head->logits(frame.view({1, 1, -1})).view({-1});
    } else {
      PredictionState state = model->prediction->initial_state(1);
      auto step =
          model->prediction->step(at::full({1}, model->prediction->blank(), at::kLong), state);
      for (size_t t = 0; t + 1 < h.tokens.size(); ++t)
        step = model->prediction->step(at::full({1}, h.tokens[t], at::kLong), step.state);
      logits = model->joint->logits(model->joint->project_encoder(frame),
                                    model->joint->project_prediction(step.output)[0]);
    }
    const at::Tensor labels = logits.narrow(0, 0, model->config.labels());
    const auto n = static_cast<double>(labels.size(0));
    const double p = labels.softmax(0).max().item<double>();
    EXPECT_NEAR(of.confidence.back(), (p * n - 1) / (n - 1), 1e-5);
    EXPECT_EQ(labels.argmax().item<int64_t>(), h.tokens.back());
  }
}

INSTANTIATE_TEST_SUITE_P(, ConfidenceOf,
                         ::testing::Values(Arm{"label_looping", Head::transducer, true},
                                           Arm{"label_looping", Head::transducer, false},
                                           Arm{"label_looping", Head::transducer, false, {4, 2, 1}},
                                           Arm{"ctc_greedy", Head::ctc, false}),
                         [](const auto& info) {
                           return info.param.decoder + (info.param.tdt ? "_tdt" : "") +
                                  (info.param.blanks.empty() ? "" : "_multiblank");
                         });

/// Takes the runs of a CTC result without any confidence.
TEST(ConfidenceRuns, EndBeforeBlankAndBeforeTheNextToken) {
  ModelConfig config = small_config();
  config.vocabulary = 3;
  config.encoder.width = 4;
  config.has_transducer = false;
  auto model = std::make_shared<AcousticModel>();
  model->config = config;
  model->ctc_head.emplace(at::eye(4), at::zeros({4}));
  // These are the labels of the frames, and 3 is blank. Token 1 comes twice, and 2 follows 0 at
  // once.
  const std::vector<int64_t> best = {3, 1, 1, 3, 1, 0, 0, 0, 2};
  EncodedBatch batch;
  batch.frames = at::one_hot(at::tensor(best), 4).to(at::kFloat).unsqueeze(0);
  batch.lengths = at::full({1}, 9, at::kLong);
  batch.lengths_host = {9};
  Hypothesis h;
  h.tokens = {1, 1, 0, 2};
  h.frames = {1, 4, 5, 8};
  const auto found = Confidence(model, Head::ctc, std::nullopt)(batch, {0}, {&h});
  EXPECT_EQ(found[0].runs, (std::vector<int32_t>{2, 1, 3, 1}));
  EXPECT_TRUE(found[0].confidence.empty());
}

}  // namespace
}  // namespace rtfx
