// Tests minimum Bayes risk over n-best lists: risks by hand and by their definition, and the
// decoders whose lists it ranks.
#include "algorithms/nbest_risk.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "models/tokenizers/nemo_tokenizers.h"
#include "tests/support/beam_cases.h"
#include "tests/support/piece_cases.h"

namespace rtfx {
namespace {

using namespace test;
using Sequence = std::vector<int32_t>;

constexpr double kRounding = 1e-9;

/// Returns Levenshtein's distance from the whole table of prefixes.
int64_t plain_distance(const Sequence& a, const Sequence& b) {
  std::vector<std::vector<int64_t>> table(a.size() + 1, std::vector<int64_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      int64_t& least = table[i][j];
      least = static_cast<int64_t>(i + j);
      if (i > 0 && j > 0) least = table[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      if (i > 0) least = std::min(least, table[i - 1][j] + 1);
      if (j > 0) least = std::min(least, table[i][j - 1] + 1);
    }
  }
  return table[a.size()][b.size()];
}

TEST(EditDistance, ByHand) {
  const Sequence none, kitten = {1, 2, 3, 3, 4, 5}, sitting = {6, 2, 3, 3, 2, 5, 7};
  EXPECT_EQ(edit_distance(none, none), 0);
  EXPECT_EQ(edit_distance(none, kitten), 6);
  EXPECT_EQ(edit_distance(kitten, none), 6);
  EXPECT_EQ(edit_distance(kitten, kitten), 0);
  EXPECT_EQ(edit_distance(kitten, sitting), 3);
  EXPECT_EQ(edit_distance(Sequence{1, 1}, Sequence{1, 1, 1}), 1);  // common prefix and suffix only
  EXPECT_EQ(edit_distance(Sequence{1, 2, 1}, Sequence{1, 1}), 1);
  EXPECT_EQ(edit_distance(Sequence{1, 2, 3}, Sequence{2, 3, 4}), 2);
}

TEST(EditDistance, EqualsItsDefinition) {
  std::mt19937 random(3);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int trial = 0; trial < 300; ++trial) {
    Sequence a(static_cast<size_t>(draw(0, 6))), b(static_cast<size_t>(draw(0, 6)));
    for (Sequence* s : {&a, &b})
      for (int32_t& x : *s) x = draw(0, 2);
    EXPECT_EQ(edit_distance(a, b), plain_distance(a, b))
        << testing::PrintToString(a) << testing::PrintToString(b);
  }
}

/// The texts "1 2", "1 3" and "3" have p = .4, .3 and .3. So their risks are .3 + .6, .4 + .3 and
/// .8 + .3.
TEST(ExpectedErrors, ByHand) {
  const std::vector<Sequence> texts = {{1, 2}, {1, 3}, {3}};
  const auto risks = expected_errors(texts, {std::log(0.4), std::log(0.3), std::log(0.3)});
  EXPECT_NEAR(risks[0], 0.9, kRounding);
  EXPECT_NEAR(risks[1], 0.7, kRounding);
  EXPECT_NEAR(risks[2], 1.1, kRounding);
  // Weights need not be normalised, and may be too small for exp().
  const auto shifted =
      expected_errors(texts, {std::log(0.4) - 5e3, std::log(0.3) - 5e3, std::log(0.3) - 5e3});
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(shifted[i], risks[i], 1e-8);
  EXPECT_TRUE(expected_errors({}, {}).empty());
  EXPECT_EQ(expected_errors({{1, 2}}, {-3.0}), std::vector<double>{0});
}

Hypothesis said(const std::vector<std::string>& words, float score) {
  Hypothesis h;
  h.score = score;
  h.words.emplace();
  for (const std::string& word : words) h.words->push_back({word, 0});
  h.tokens = {static_cast<int32_t>(words.size())};
  return h;
}

Hypothesis list_of(const std::vector<Hypothesis>& entries) {
  Hypothesis h = entries.front();
  h.nbest = entries;
  return h;
}

/// Returns a tokenizer with a space. Hypotheses that have words need no text of tokens.
std::shared_ptr<const Tokenizer> some_tokenizer() { return character_tokenizer({" ", "a", "b"}); }

std::vector<float> scores_of(const Hypothesis& h) {
  std::vector<float> scores;
  for (const Hypothesis& entry : h.nbest) scores.push_back(entry.score);
  return scores;
}

const float kFour = std::log(0.4F), kThree = std::log(0.3F);

TEST(NbestRisk, PrefersWhatMostOfTheListAgreesOn) {
  Hypothesis h =
      list_of({said({"a", "b"}, kFour), said({"a", "c"}, kThree), said({"c"}, kThree - 0.01F)});
  MinimumBayesRisk({}, some_tokenizer()).sort(h);
  EXPECT_EQ(h.words->at(1).text, "c");
  EXPECT_EQ(h.words->size(), 2U);
  EXPECT_EQ(scores_of(h), (std::vector<float>{kThree, kFour, kThree - 0.01F}));
  EXPECT_EQ(h.score, kThree);
  Hypothesis first = h.nbest.front();
  first.nbest = h.nbest;
  EXPECT_EQ(first, h);
}

TEST(NbestRisk, AScaleSaysHowMuchScoresCount) {
  const std::vector<Hypothesis> entries = {said({"a", "b"}, kFour), said({"a", "c"}, kThree),
                                           said({"c"}, kThree - 0.01F)};
  const auto chosen = [&](double scale) {
    Hypothesis h = list_of(entries);
    MinimumBayesRisk({scale, "words"}, some_tokenizer()).sort(h);
    return h.score;
  };
  EXPECT_EQ(chosen(1), kThree);
  EXPECT_EQ(chosen(50), kFour);  // one text has almost all of the probability
  EXPECT_EQ(chosen(0), kThree);  // the texts' summed distances are 3, 2 and 3
}

TEST(NbestRisk, EqualRisksKeepTheOrderOfTheSearch) {
  Hypothesis h = list_of({said({"a"}, -1), said({"b"}, -1), said({"c"}, -1)});
  h.nbest[1].frames = {7};
  const Hypothesis before = h;
  MinimumBayesRisk({}, some_tokenizer()).sort(h);
  EXPECT_EQ(h, before);
}

TEST(NbestRisk, LeavesShortListsAndNanAlone) {
  for (const bool nan : {false, true}) {
    Hypothesis h =
        list_of({said({"a", "b"}, kFour), said({"a", "c"}, kThree), said({"c"}, kThree)});
    if (!nan) h.nbest.resize(1);
    h.nan = nan;
    const Hypothesis before = h;
    MinimumBayesRisk({}, some_tokenizer()).sort(h);
    EXPECT_EQ(h, before);
  }
}

TEST(NbestRisk, WordsStandBetweenSpacesOfTheText) {
  // The words of "ab a", "ab b" and "b" have the risks of the case above. By tokens, the first two
  // texts are closer to each other.
  const auto spelled = [](Sequence tokens, float score) {
    Hypothesis h;
    h.tokens = std::move(tokens);
    h.score = score;
    return h;
  };
  const std::vector<Hypothesis> entries = {
      spelled({1, 2, 0, 1}, kFour), spelled({1, 2, 0, 2}, kThree), spelled({2}, kThree - 0.01F)};
  Hypothesis words = list_of(entries);
  MinimumBayesRisk({1, "words"}, some_tokenizer()).sort(words);
  EXPECT_EQ(words.tokens, (Sequence{1, 2, 0, 2}));
  EXPECT_EQ(words.nbest[1].tokens, (Sequence{1, 2, 0, 1}));
  // The risks by tokens are 0.3 + 0.3 * 3, 0.4 + 0.3 * 3 and 0.4 * 3 + 0.3 * 3.
  Hypothesis tokens = list_of(entries);
  MinimumBayesRisk({1, "tokens"}, nullptr).sort(tokens);
  EXPECT_EQ(tokens.tokens, (Sequence{1, 2, 0, 1}));
}

/// Returns the risks of a list in tokens, by the definition.
std::vector<double> risks_of(const std::vector<Hypothesis>& list, double scale) {
  double total = 0;
  for (const Hypothesis& entry : list) total += std::exp(scale * entry.score);
  std::vector<double> risks;
  for (const Hypothesis& entry : list) {
    double risk = 0;
    for (const Hypothesis& other : list)
      risk += std::exp(scale * other.score) / total *
              static_cast<double>(plain_distance(entry.tokens, other.tokens));
    risks.push_back(risk);
  }
  return risks;
}

struct Arm {
  std::string name;
  bool ctc = false;
};

const std::vector<Arm> kArms = {
    {"alsd"}, {"aes"}, {"alsd_pp"}, {"aes_pp"}, {"modified_beam_search"}, {"ctc_beam", true}};

/// kArms has every decoder of the registry that gives lists, except those that need a graph or
/// lexicon.
TEST(NbestRisk, EveryDecoderWithAListHasIt) {
  for (const DecoderEntry* entry : decoder_entries()) {
    const auto has = [&](const char* name) {
      return std::ranges::any_of(entry->options, [&](const auto& o) { return o.name == name; });
    };
    EXPECT_EQ(has("nbest"), has("mbr")) << entry->name;
    EXPECT_EQ(has("mbr.scale"), has("mbr")) << entry->name;
    if (!has("nbest") || entry->name.find("_wfst") != std::string::npos ||
        entry->name.find("_lexicon") != std::string::npos)
      continue;
    EXPECT_TRUE(std::ranges::any_of(kArms, [&](const Arm& arm) { return arm.name == entry->name; }))
        << entry->name;
  }
}

TEST(NbestRisk, RanksTheListsOfDecoders) {
  std::mt19937 random(7);
  int changed = 0;
  for (int trial = 0; trial < 12; ++trial) {
    const BeamCase c = random_beam_case(random, trial % 2 == 0, 8, 8, {4, 0, 5});
    for (const Arm& arm : kArms) {
      if (arm.ctc && trial % 2 == 0) continue;
      const auto decode = [&](const nlohmann::json& mbr) {
        const auto decoder =
            make_decoder(arm.name, {{"beam_size", 5}, {"nbest", 5}, {"mbr", mbr}}, "");
        decoder->prepare(arm.ctc ? identity_model(8) : build(c.model), {});
        return decoder->decode(batch_of(c.rows, c.model.columns())).to_host();
      };
      const auto ranked = decode(nullptr), found = decode({{"scale", 0.5}, {"unit", "tokens"}});
      for (size_t b = 0; b < c.rows.size(); ++b) {
        const auto& list = found[b].nbest;
        ASSERT_EQ(list.size(), ranked[b].nbest.size()) << arm.name;
        EXPECT_TRUE(std::is_permutation(list.begin(), list.end(), ranked[b].nbest.begin()))
            << arm.name;
        const auto risks = risks_of(list, 0.5);
        for (size_t i = 1; i < risks.size(); ++i)
          EXPECT_LE(risks[i - 1], risks[i] + 1e-6) << arm.name << " row " << b << " entry " << i;
        EXPECT_EQ(found[b].tokens, list.front().tokens) << arm.name;
        EXPECT_EQ(found[b].score, list.front().score) << arm.name;
        changed += found[b].tokens != ranked[b].tokens ? 1 : 0;
      }
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(changed, 0);
}

TEST(NbestRisk, StreamsEndAsWholeUtterances) {
  const auto model = random_model(small_config(), 4);
  const nlohmann::json mbr = {{"scale", 0.5}, {"unit", "tokens"}};
  for (const Arm& arm : kArms)
    for (uint32_t seed = 0; seed < 2; ++seed)
      if (arm.name != "alsd" && arm.name != "aes")
        random_pieces({arm.name, {{"beam_size", 5}, {"nbest", 5}, {"mbr", mbr}}, model}, seed);
}

std::string message_of(const std::string& decoder, const nlohmann::json& options) {
  try {
    make_decoder(decoder, options, "/decoders/0/options");
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

TEST(NbestRisk, BadOptionsAreErrors) {
  const auto expect = [](const nlohmann::json& options, const std::string& part) {
    EXPECT_NE(message_of("alsd_pp", options).find(part), std::string::npos)
        << options << ": " << message_of("alsd_pp", options);
  };
  expect({{"mbr", nlohmann::json::object()}},
         "/decoders/0/options/mbr: compares the texts of an n-best list, and \"nbest\" is 1");
  expect({{"nbest", 4}, {"mbr", {{"scale", -1}}}}, "/decoders/0/options/mbr/scale");
  expect({{"nbest", 4}, {"mbr", {{"unit", "letters"}}}}, "/decoders/0/options/mbr/unit");
  expect({{"nbest", 4}, {"mbr", {{"factor", 1}}}}, "/decoders/0/options/mbr/factor");
  expect({{"nbest", 4}, {"mbr", true}}, "/decoders/0/options/mbr");
  EXPECT_NE(message_of("label_looping", {{"mbr", nlohmann::json::object()}}).find("mbr"),
            std::string::npos);
}

}  // namespace
}  // namespace rtfx
