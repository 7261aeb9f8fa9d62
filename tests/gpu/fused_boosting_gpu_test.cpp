// Tests boosted phrases and allowed characters in the fused kernels, in all their forms. They equal
// label_looping on tables (exact arithmetic) and on random LSTM models, for whole batches and for
// streams.
#include <ATen/cuda/CUDAContextLight.h>
#include <gtest/gtest.h>

#include "tests/support/boost_cases.h"
#include "tests/support/greedy_cases.h"
#include "tests/support/piece_cases.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using namespace test;

class FusedBoostingGpu : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
  }
  nlohmann::json options(nlohmann::json more = nlohmann::json::object()) const {
    more["loop"] = GetParam();
    return more;
  }
  const at::Device device_{at::kCUDA, 0};
};

using Sets = std::vector<std::shared_ptr<const CompiledBias>>;

/// Returns a set for each row: the decoder's own phrases alone, or with more phrases, a mask, or
/// both.
Sets sets_of(const Decoder& decoder, const PlainBoost& more, size_t rows) {
  const std::vector<std::string> only = {"U+0062-U+9FFF"};  // all but the first token
  const Sets kinds = {nullptr, decoder.compile_bias({phrases_of(more), {}, ""}),
                      decoder.compile_bias({{}, only, "test"}),
                      decoder.compile_bias({phrases_of(more), only, "test"})};
  Sets sets;
  for (size_t row = 0; row < rows; ++row) sets.push_back(kinds[row * 7 % 4]);
  return sets;
}

TEST_P(FusedBoostingGpu, EqualsLabelLoopingOnTables) {
  std::mt19937 random(21);
  int different = 0;
  for (int trial = 0; trial < 36 && !HasFailure(); ++trial) {
    const bool wide = trial % 3 != 0;
    const TransducerKind kind = kTransducerKinds[trial / 3 % 3];
    const int64_t rows = std::vector<int64_t>{1, 4, 8, 16, 33}[static_cast<size_t>(trial % 5)];
    const Case c = wide ? wide_case(random, kind, trial % 4 < 2, trial % 3 == 1 ? 40 : 150, rows)
                        : random_case(random, kind, trial % 4 < 2);
    const int64_t tokens = c.model.vocabulary, columns = c.model.columns();
    const auto few = std::min<int64_t>(tokens, 8);
    nlohmann::json both = {{"max_symbols", 1 + trial % 4}};
    both["boost"] = random_boost(random, few, 12, 4).option();
    if (trial % 4 == 3) both["boost"]["compatibility"] = "nemo";
    if (trial % 7 == 6 && tokens > 1) both["allowed"] = {"U+0062-U+9FFF"};
    const PlainBoost more = random_boost(random, few, 6, 3);
    for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const auto search = [&](const char* name, const nlohmann::json& given) {
        BoostedSearch s(name, given, build(c.model, device_, dtype),
                        batch_of(c.rows, columns, device_, dtype));
        const auto first = s();
        if (tokens > 1) s.batch.biases = sets_of(*s.decoder, more, c.rows.size());
        const auto second = s();
        s.batch.biases.clear();
        EXPECT_EQ(s(), first) << name << given;  // no set has a lasting effect
        return std::pair(first, second);
      };
      const auto expected = search("label_looping", both);
      different += expected.first !=
                   run("label_looping", {{"max_symbols", both["max_symbols"]}}, c, device_, dtype);
      for (const int window : {1, 8}) {
        nlohmann::json given = options(both);
        given["window"] = window;
        if (trial % 5 == 0) given["frames_per_step"] = 7;
        EXPECT_EQ(search("fused_looping", given), expected) << given << " trial " << trial << dtype;
      }
    }
  }
  EXPECT_GT(different, 50);
}

/// Tests so many rows and outputs that each warp takes frames of its own.
TEST_P(FusedBoostingGpu, EqualsLabelLoopingOnALargeVocabulary) {
  std::mt19937 random(25);
  for (const TransducerKind kind : kTransducerKinds) {
    const Case c = wide_case(random, kind, false, 1501, 100);
    const nlohmann::json both = {{"max_symbols", 2},
                                 {"boost", random_boost(random, 8, 12, 4).option()}};
    const PlainBoost more = random_boost(random, 8, 6, 3);
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      const auto search = [&](const char* name, const nlohmann::json& given) {
        BoostedSearch s(name, given, build(c.model, device_, dtype),
                        batch_of(c.rows, c.model.columns(), device_, dtype));
        s.batch.biases = sets_of(*s.decoder, more, c.rows.size());
        return s();
      };
      EXPECT_EQ(search("fused_looping", options(both)), search("label_looping", both)) << dtype;
    }
  }
}

/// The test is small enough for compute-sanitizer's racecheck.
TEST_P(FusedBoostingGpu, OneSmallBatch) {
  std::mt19937 random(5);
  const Case c = wide_case(random, TransducerKind::tdt, true, 40, 4);
  const nlohmann::json both = {{"max_symbols", 2},
                               {"boost", random_boost(random, 8, 12, 4).option()}};
  const PlainBoost more = random_boost(random, 8, 6, 3);
  const auto search = [&](const char* name, const nlohmann::json& given) {
    BoostedSearch s(name, given, build(c.model, device_, at::kBFloat16),
                    batch_of(c.rows, c.model.columns(), device_, at::kBFloat16));
    s.batch.biases = sets_of(*s.decoder, more, c.rows.size());
    return s();
  };
  EXPECT_EQ(search("fused_looping", options(both)), search("label_looping", both));
}

TEST_P(FusedBoostingGpu, EqualsLabelLoopingOnLstmModels) {
  at::manual_seed(4);
  std::mt19937 random(22);
  for (int trial = 0; trial < 8 && !HasFailure(); ++trial) {
    ModelConfig config = small_config();
    config.prediction.layers = 1 + trial % 2;
    config.prediction.width = 64;
    config.joint_width = 96;
    config.vocabulary = trial % 4 == 0 ? 20 : 150;
    if (trial % 3 == 0) config.durations = {};
    const auto model = with_letters(random_model(config, static_cast<uint64_t>(trial), device_));
    const nlohmann::json both = {
        {"max_symbols", 4}, {"boost", random_boost(random, config.vocabulary, 300, 4).option()}};
    const PlainBoost more = random_boost(random, config.vocabulary, 50, 3);
    const auto reference = make_decoder("label_looping", both, "");
    const auto decoder = make_decoder("fused_looping", options(both), "");
    for (const auto& d : {reference.get(), decoder.get()}) d->prepare(model, {});
    for (const int64_t rows : {1, 5, 33, 70}) {
      EncodedBatch batch =
          random_batch(random, rows, 25, config.encoder.width, device_, at::kFloat);
      for (const bool own : {false, true}) {
        const auto decoded = [&](Decoder& d) {
          batch.biases = own ? sets_of(d, more, static_cast<size_t>(rows)) : Sets{};
          return d.decode(batch).to_host();
        };
        const auto expected = decoded(*reference), found = decoded(*decoder);
        for (size_t b = 0; b < expected.size(); ++b) {
          EXPECT_EQ(found[b].tokens, expected[b].tokens) << trial << " " << rows << " " << b;
          EXPECT_EQ(found[b].frames, expected[b].frames);
          EXPECT_EQ(found[b].durations, expected[b].durations);
          EXPECT_NEAR(found[b].score, expected[b].score, 1e-3 * (1 + std::abs(expected[b].score)));
          EXPECT_FALSE(found[b].nan);
        }
      }
    }
  }
}

TEST_P(FusedBoostingGpu, AScaleOfZeroChangesNothing) {
  std::mt19937 random(23);
  const Case c = wide_case(random, TransducerKind::tdt, true, 40, 9);
  PlainBoost boost = random_boost(random, 8, 6, 3);
  boost.scale = 0;
  for (const nlohmann::json& given : {boost.option(), nlohmann::json::object()}) {
    const BoostedSearch search("fused_looping", options({{"boost", given}}),
                               build(c.model, device_),
                               batch_of(c.rows, c.model.columns(), device_));
    EXPECT_EQ(search(), run("fused_looping", options(), c, device_));
    const auto other = make_decoder("label_looping", {{"boost", given}}, "");
    EXPECT_EQ(search.decoder->describe().exactness, other->describe().exactness);
    EXPECT_EQ(search.decoder->boosted_words().size(), given.value("phrases", given).size());
  }
}

TEST_P(FusedBoostingGpu, WhatCannotBeIsSaid) {
  std::mt19937 random(24);
  const Case c = wide_case(random, TransducerKind::rnnt, false, 4, 1);
  const auto prepared = [&](const nlohmann::json& more) {
    return user_error([&] {
      BoostedSearch("fused_looping", options(more), build(c.model, device_),
                    batch_of(c.rows, c.model.columns(), device_));
    });
  };
  EXPECT_EQ(prepared({{"boost", {{"phrases", {"ab", "xy"}}}}}),
            "/boost/phrases/1: the model's tokenizer cannot spell 'xy'; write it as the model's "
            "texts have it, or set \"spellings\": \"any\"");
  EXPECT_HAS(prepared({{"allowed", {"lattin"}}}), "allowed: 'lattin' names no characters");
}

/// Each stream has phrases of its own, a mask, both, or neither.
TEST_P(FusedBoostingGpu, RandomPiecesWithPhrasesOfTheirOwn) {
  std::mt19937 random(25);
  ModelConfig stateless = small_config();
  stateless.prediction.kind = PredictionConfig::Kind::stateless;
  stateless.prediction.context_size = 2;
  for (const at::ScalarType dtype : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const ModelConfig& config :
         {small_config(), with_durations(small_config(), {}), stateless}) {
      const auto model = with_letters(random_model(config, 8, device_, dtype));
      const auto given = options(
          {{"max_symbols", 3}, {"boost", random_boost(random, config.vocabulary, 30, 3).option()}});
      const auto decoder = make_decoder("fused_looping", given, "");
      decoder->prepare(model, {});
      const Sets sets = sets_of(*decoder, random_boost(random, config.vocabulary, 20, 3), 4);
      for (uint32_t seed = 0; seed < 3 && !HasFailure(); ++seed)
        random_pieces({"fused_looping", given, model, true, sets}, seed);
    }
  }
}

/// Streams of tables in pieces, whose phrases change now and then, give label_looping's partial and
/// final results.
TEST_P(FusedBoostingGpu, StreamsWhosePhrasesChangeEqualLabelLooping) {
  std::mt19937 random(26);
  for (int trial = 0; trial < 8 && !HasFailure(); ++trial) {
    const size_t rows = 5;
    const Case c = wide_case(random, kTransducerKinds[trial % 3], trial % 4 < 2, 40, rows);
    const PlainBoost own = random_boost(random, 8, 8, 4), more = random_boost(random, 8, 8, 4);
    const auto dtype = trial % 3 == 0 ? at::kFloat : at::kHalf;
    const auto results = [&](const char* name, const nlohmann::json& given) {
      const BoostedSearch s(name, given, build(c.model, device_, dtype),
                            batch_of(c.rows, c.model.columns(), device_, dtype));
      const auto streams = s.decoder->streams({static_cast<int64_t>(rows), 4});
      const at::Tensor frames = streams->project(s.batch.frames);
      const Sets sets = sets_of(*s.decoder, more, 4);
      std::mt19937 same(static_cast<uint32_t>(trial));
      std::vector<Hypothesis> all;
      for (size_t row = 0; row < rows; ++row) {
        const int64_t stream = streams->open(), length = s.batch.lengths_host[row];
        for (int64_t begin = 0; begin < length;) {
          if (same() % 2 == 0) streams->set_bias(stream, sets[same() % 4]);
          const int64_t cut =
              std::min<int64_t>(length - begin, 1 + static_cast<int64_t>(same() % 5));
          streams->push({&stream, 1}, pieces_of(frames, {row}, {begin}, {cut}));
          begin += cut;
          all.push_back(streams->partial(stream).best);
        }
        all.push_back(streams->finish(stream));
      }
      return all;
    };
    const nlohmann::json both = {{"max_symbols", 3}, {"boost", own.option()}};
    EXPECT_EQ(results("fused_looping", options(both)), results("label_looping", both)) << trial;
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, FusedBoostingGpu, testing::Values("persistent", "graph", "host"),
                         [](const auto& form) { return std::string(form.param); });

}  // namespace
}  // namespace rtfx
