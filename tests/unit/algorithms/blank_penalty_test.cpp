// Tests the blank penalty of every search. Such a search must equal, bit for bit, a search without
// it on tables whose blanks are lower by the penalty. Pieces of streams, replays and confidences
// must apply it too.
#include "algorithms/blank_penalty.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "algorithms/shared/confidence/confidence.h"
#include "base/error.h"
#include "tests/support/greedy_lm_cases.h"
#include "tests/support/piece_cases.h"
#include "tests/support/replay_cases.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using namespace test;

Case penalised(Case c, double penalty) {
  for (Table& row : c.rows) {
    for (auto& frame : row) {
      for (int64_t blank = c.model.vocabulary; blank < c.model.labels(); ++blank)
        frame[static_cast<size_t>(blank)] -= penalty;
    }
  }
  return c;
}

std::vector<Arm> transducer_arms(bool tdt) {
  std::vector<Arm> arms = exact_arms();
  const nlohmann::json beam = {{"beam_size", 2}, {"nbest", 2}, {"temperature", 2}};
  for (const char* name : {"alsd", "aes", "alsd_pp", "aes_pp", "modified_beam_search"}) {
    arms.push_back({name, beam});
    const bool expands = std::string_view(name).starts_with("aes");
    if (expands) arms.back().options["expansion_beta"] = 1;
    if (name == std::string_view("alsd") || name == std::string_view("aes")) continue;
    arms.push_back(arms.back());
    arms.back().options["kernels"] = "fused";
  }
  arms.push_back({"frame_looping", {{"score_kind", "logprob"}}});
  arms.push_back({"label_looping", {{"score_kind", "logprob"}, {"window", 4}}});
  if (tdt) arms.push_back({"tdt_min_duration", nlohmann::json::object()});
  return arms;
}

TEST(BlankPenalty, EqualsASearchOnLowerBlanks) {
  std::mt19937 random(41);
  int more = 0;
  for (int trial = 0; trial < 30 && !HasFailure(); ++trial) {
    const bool tdt = trial % 2 == 0;
    Case c = random_case(random, tdt, trial % 4 < 2);
    if (c.model.vocabulary < 3) continue;  // a beam has no more labels than the vocabulary
    const double penalty = 1 + trial % 3;
    const Case lower = penalised(c, penalty);
    for (const Arm& arm : transducer_arms(tdt)) {
      nlohmann::json options = arm.options.is_null() ? nlohmann::json::object() : arm.options;
      const auto expected = run(arm.name, options, lower), without = run(arm.name, options, c);
      options["blank_penalty"] = penalty;
      const auto found = run(arm.name, options, c);
      EXPECT_EQ(found, expected) << arm.name << options << " trial " << trial;
      for (size_t b = 0; b < found.size(); ++b)
        more +=
            static_cast<int>(found[b].tokens.size()) - static_cast<int>(without[b].tokens.size());
    }
  }
  EXPECT_GT(more, 500);  // more tokens, in place of blanks
}

TEST(BlankPenalty, EqualsThePlainSearch) {
  std::mt19937 random(42);
  for (int trial = 0; trial < 40 && !HasFailure(); ++trial) {
    const Case c = random_case(random, kTransducerKinds[trial % 3], trial % 4 < 2);
    const double penalty = 0.5 * (1 + trial % 5);
    const Case lower = penalised(c, penalty);
    for (const Arm& arm : exact_arms()) {
      nlohmann::json options = arm.options.is_null() ? nlohmann::json::object() : arm.options;
      options.update({{"blank_penalty", penalty}, {"max_symbols", 1 + trial % 4}});
      const auto found = run(arm.name, options, c);
      for (size_t b = 0; b < found.size(); ++b) {
        EXPECT_EQ(found[b], oracle(lower.model, lower.rows[b], 1 + trial % 4))
            << arm.name << options << " trial " << trial << " row " << b;
      }
    }
  }
}

TEST(BlankPenalty, IsOfEverySearchOverACtcHead) {
  std::mt19937 random(43);
  int different = 0;
  for (int trial = 0; trial < 20 && !HasFailure(); ++trial) {
    const int64_t vocabulary = 3 + trial % 3;
    const double penalty = 1 + trial % 3;
    std::vector<Table> rows;
    for (int b = 0; b < 4; ++b)
      rows.push_back(random_table(random, static_cast<int64_t>(random() % 14), vocabulary + 1));
    std::vector<Table> lower = rows;
    for (Table& row : lower)
      for (auto& frame : row) frame.back() -= penalty;
    const auto search = [&](const Arm& arm, const std::vector<Table>& tables, double by) {
      nlohmann::json options = arm.options;
      options["blank_penalty"] = by;
      const auto decoder = make_decoder(arm.name, options, "");
      decoder->prepare(identity_model(vocabulary), {});
      return decoder->decode(batch_of(tables, vocabulary + 1)).to_host();
    };
    for (const Arm& arm :
         std::vector<Arm>{{"ctc_greedy", nlohmann::json::object()},
                          {"ctc_beam", {{"beam_size", 3}, {"nbest", 3}}},
                          {"ctc_beam", {{"beam_size", 3}, {"nbest", 3}, {"kernels", "fused"}}}}) {
      const auto found = search(arm, rows, penalty);
      EXPECT_EQ(found, search(arm, lower, 0)) << arm.name << arm.options << " trial " << trial;
      different += found != search(arm, rows, 0);
    }
  }
  EXPECT_GT(different, 30);
}

TEST(BlankPenalty, LeavesNoBlankWhereItIsLarge) {
  std::mt19937 random(44);
  const Case c = random_case(random, false, false);
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const nlohmann::json options = {{"blank_penalty", kMaxBlankPenalty}, {"max_symbols", 2}};
    for (const char* name : {"frame_looping", "label_looping"}) {
      const auto found = run(name, options, c, at::kCPU, dtype);
      for (size_t b = 0; b < found.size(); ++b) {
        EXPECT_EQ(found[b].tokens.size(), 2 * c.rows[b].size()) << name << dtype;
        EXPECT_FALSE(found[b].nan);
      }
    }
  }
}

TEST(BlankPenalty, OfZeroIsTheModelItself) {
  const auto model = random_model(small_config(), 5);
  EXPECT_EQ(with_blank_penalty(model, 0), model);
  const auto other = with_blank_penalty(model, 1.5);
  EXPECT_TRUE(other->joint->output().weight.is_alias_of(model->joint->output().weight));
  const int64_t blank = model->config.vocabulary;
  const at::Tensor by = model->joint->output().bias - other->joint->output().bias;
  EXPECT_NEAR(by[blank].item<double>(), 1.5, 1e-6);
  EXPECT_EQ(by.abs().sum().item<double>(), by[blank].item<double>());  // only blank differs
}

TEST(BlankPenalty, MakesADecoderApproximate) {
  for (const char* name :
       {"frame_looping", "label_looping", "fused_looping", "step_replay", "ctc_greedy"}) {
    const auto exactness = [&](double penalty) {
      return make_decoder(name, {{"blank_penalty", penalty}}, "")->describe().exactness;
    };
    EXPECT_EQ(exactness(0), Description::Exactness::exact) << name;
    EXPECT_EQ(exactness(0.1), Description::Exactness::approximate) << name;
  }
}

TEST(BlankPenalty, RefusesNegativeNumbers) {
  for (const DecoderEntry* entry : decoder_entries()) {
    const bool has = std::ranges::any_of(
        entry->options, [](const OptionInfo& option) { return option.name == "blank_penalty"; });
    if (entry->is_foreign) continue;  // registered by other tests
    EXPECT_EQ(has, entry->name != "null" && entry->name != "python") << entry->name;
    if (!has || entry->options.front().name == "graph" || entry->options.front().name == "lexicon")
      continue;  // those need files first
    const auto error = user_error([&] {
      make_decoder(entry->name, {{"blank_penalty", -1}}, "/o");
    });
    EXPECT_HAS(error, "/o/blank_penalty: ");
    EXPECT_HAS(error, "a number 0..10000");
  }
}

/// Results must be equal bit for bit. Greedy searches use tables, whose sums are exact in any
/// order, because a product of LibTorch may round a row differently at another place of a batch.
TEST(BlankPenalty, PiecesOfStreamsEqualTheWhole) {
  std::mt19937 random(46);
  for (const TransducerKind kind : kTransducerKinds) {
    for (uint32_t seed = 0; seed < 8 && !HasFailure(); ++seed) {
      const nlohmann::json greedy = {{"blank_penalty", seed % 2 == 0 ? 0.5 : 3.0},
                                     {"max_symbols", 3}};
      const Case c = random_case(random, kind, seed % 4 < 2);
      for (const char* name : {"frame_looping", "label_looping"}) {
        PieceCase pieces{name, greedy, build(c.model)};
        pieces.batch = batch_of(c.rows, c.model.columns());
        random_pieces(pieces, seed);
      }
    }
  }
  for (const auto& durations : {std::vector<int64_t>{}, {0, 1, 2, 3, 4}}) {
    const auto model = random_model(with_durations(small_config(), durations), 8);
    for (const double penalty : {0.5, 3.0}) {
      const nlohmann::json beam = {{"blank_penalty", penalty}, {"beam_size", 3}};
      for (uint32_t seed = 0; seed < 2 && !HasFailure(); ++seed) {
        for (const char* name : {"alsd_pp", "aes_pp", "modified_beam_search"})
          random_pieces({name, beam, model}, seed);
        random_pieces({"ctc_greedy", {{"blank_penalty", penalty}}, model, /*same_sum=*/false},
                      seed);
      }
    }
  }
}

TEST(BlankPenalty, IsKnownToReplays) {
  at::manual_seed(7);
  std::mt19937 random(45);
  int refused = 0;
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    for (const auto& durations : {std::vector<int64_t>{}, {0, 1, 2, 3, 4}}) {
      const auto model =
          random_model(with_durations(small_config(), durations), 8, at::kCPU, dtype);
      const EncodedBatch batch =
          random_batch(random, 6, 30, model->config.encoder.width, at::kCPU, dtype);
      const nlohmann::json beam = {{"beam_size", 3}, {"nbest", 3}};
      for (const auto& [name, more] : std::vector<std::pair<std::string, nlohmann::json>>{
               {"frame_looping", {{"score_kind", "logprob"}}},
               {"label_looping", {{"max_symbols", 3}}},
               {"ctc_greedy", nlohmann::json::object()},
               {"alsd_pp", beam},
               {"ctc_beam", beam}}) {
        nlohmann::json options = more;
        options["blank_penalty"] = 1.25;
        const auto decoder = make_decoder(name, options, ""), other = make_decoder(name, more, "");
        decoder->prepare(model, {});
        other->prepare(model, {});
        const auto found = decoder->decode(batch).to_host();
        for (const Replayed& r : replay(model, *decoder, batch, found))
          EXPECT_TRUE(r.within()) << name << dtype << ": " << text(r);
        for (const Replayed& r : replay(model, *other, batch, found)) refused += !r.within();
      }
    }
  }
  EXPECT_GT(refused, 30) << "without the penalty, a replay refuses such results";
  const auto min = make_decoder("tdt_min_duration", {{"blank_penalty", 1}}, "");
  EXPECT_FALSE(ReplayRules::from(min->describe(), min->options()));
}

TEST(BlankPenalty, LeavesSearchesOverAGraphWithoutReplay) {
  const std::string arpa = "tests/data/words.arpa", lexicon = "tests/data/words.lexicon";
  for (const int penalty : {0, 1}) {
    for (const auto& [name, files] : std::vector<std::pair<std::string, nlohmann::json>>{
             {"ctc_wfst", {{"graph", arpa}}},
             {"ctc_wfst_cpu", {{"graph", arpa}}},
             {"ctc_lexicon_cpu", {{"lexicon", lexicon}, {"lm", arpa}}}}) {
      nlohmann::json options = files;
      options["blank_penalty"] = penalty;
      const auto decoder = make_decoder(name, options, "");
      EXPECT_FALSE(ReplayRules::from(decoder->describe(), decoder->options())) << name << penalty;
    }
  }
}

TEST(BlankPenalty, IsAnotherThingInAForeignDecoder) {
  const auto decoder = make_decoder("label_looping", {{"blank_penalty", 2}}, "");
  Description foreign = decoder->describe();
  EXPECT_EQ(ReplayRules::from(foreign, decoder->options())->blank_penalty, 2);
  foreign.exactness = Description::Exactness::exact;
  EXPECT_EQ(ReplayRules::from(foreign, decoder->options(), true)->blank_penalty, 0);
  foreign.exactness = Description::Exactness::approximate;
  EXPECT_FALSE(ReplayRules::from(foreign, decoder->options(), true));
}

TEST(BlankPenalty, IsKnownToConfidences) {
  std::mt19937 random(46);
  Case c = random_case(random, false, false);
  while (c.model.vocabulary < 3 || c.rows[0].size() < 5) c = random_case(random, false, false);
  const Case lower = penalised(c, 2);
  const auto found = run("label_looping", {{"blank_penalty", 2}}, c);
  std::vector<int64_t> rows;
  std::vector<const Hypothesis*> hypotheses;
  for (size_t b = 0; b < found.size(); ++b) {
    rows.push_back(static_cast<int64_t>(b));
    hypotheses.push_back(&found[b]);
  }
  const auto evidence = [&](const Case& tables, double penalty) {
    const Confidence confidence(with_blank_penalty(build(tables.model), penalty), Head::transducer,
                                ConfidenceOptions{});
    std::vector<double> all;
    for (const auto& row : confidence(batch_of(tables.rows, c.model.columns()), rows, hypotheses))
      all.insert(all.end(), row.confidence.begin(), row.confidence.end());
    return all;
  };
  EXPECT_EQ(evidence(c, 2), evidence(lower, 0));
  EXPECT_NE(evidence(c, 2), evidence(c, 0));
}

}  // namespace
}  // namespace rtfx
