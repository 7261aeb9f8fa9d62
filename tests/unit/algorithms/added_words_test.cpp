// Words and phrases added to a graph give what a graph that was built with them gives.
#include "algorithms/shared/wfst/added_words.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "algorithms/decoders/wfst/ctc_lexicon_cpu/ctc_lexicon_cpu.h"
#include "algorithms/decoders/wfst/ctc_wfst/token_passing.h"
#include "algorithms/decoders/wfst/ctc_wfst_cpu/ctc_wfst_cpu.h"
#include "algorithms/shared/wfst/graph_builder.h"
#include "base/error.h"
#include "base/files.h"
#include "models/load_checkpoint.h"
#include "tests/support/beam_cases.h"
#include "tests/support/host_block.h"
#include "tests/support/wfst_cases.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using test::EveryPath;
using test::Words;

constexpr float kWide = 1e6f;
constexpr int64_t kMany = 1 << 20;

/// Returns two_token_graph(), built with more words among the choices of its only history.
WfstGraph built_with(Topology topology, const std::vector<SpelledPhrase>& phrases) {
  TransducerArcs lg = test::two_token_grammar();
  std::vector<std::string> names = {"A", "AB", "B"};
  for (const SpelledPhrase& phrase : phrases) {
    names.push_back(phrase.text);
    const std::vector<int32_t> tokens = phrase.tokens();
    int32_t from = 0;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const int32_t to = i + 1 == tokens.size() ? 0 : lg.add_state();
      lg.add(from, to, tokens[i] + 1, i == 0 ? static_cast<int32_t>(names.size()) : 0,
             i == 0 ? phrase.cost : 0);
      from = to;
    }
  }
  return test::two_token_graph(topology, lg, names);
}

SpelledPhrase word(const std::string& text, std::vector<int32_t> tokens, float cost) {
  return {text, {{text, std::move(tokens)}}, cost};
}

std::string text_of(const WfstGraph& graph, const Words& words) {
  std::string text;
  for (const int32_t id : words) text += std::string(graph.word(id)) + " ";
  return text;
}

TEST(AddedWords, CostWhatTheyCostInAGraphBuiltWithThem) {
  const std::vector<SpelledPhrase> phrases = {word("BA", {1, 0}, 0.4f), word("BB", {1, 1}, 0.25f),
                                              word("x", {0}, 0.1f), word("AAB", {0, 0, 1}, 2)};
  const auto lp = test::logs(
      {{.6, .1, .3}, {.2, .1, .7}, {.1, .7, .2}, {.3, .5, .2}, {.4, .3, .3}, {.1, .3, .6}});
  for (const Topology topology : {Topology::normal, Topology::compact}) {
    const WfstGraph graph = test::two_token_graph(topology);
    const WfstGraph with = with_phrases(graph, phrases, "test");
    const WfstGraph built = built_with(topology, phrases);
    const auto expected = EveryPath(built.view(), lp).by_words();
    const auto found = EveryPath(with.view(), lp).by_words();
    ASSERT_EQ(found.size(), expected.size()) << topology_name(topology);
    EXPECT_GT(found.size(), EveryPath(graph.view(), lp).by_words().size());
    for (const auto& [words, cost] : expected) {
      ASSERT_TRUE(found.contains(words)) << text_of(built, words);
      EXPECT_NEAR(found.at(words), cost, 1e-5) << text_of(built, words);
    }
    ViterbiSearch search(with.view(), kWide, kMany);
    const WfstPath path = search.run(lp.data(), 6, 3);
    EXPECT_NEAR(path.cost, EveryPath(with.view(), lp).best(), 1e-4);
    EXPECT_NEAR(path.cost, found.at(path.words), 1e-4);
  }
}

TEST(AddedWords, HaveTheFramesOfTheirOwnTokens) {
  const SpelledPhrase phrase{"B AB", {{"B", {1}}, {"AB", {0, 1}}}, 0};
  const std::vector<std::vector<double>> frames = {
      {.01, .98, .01}, {.01, .01, .98}, {.98, .01, .01}, {.01, .98, .01}, {.01, .01, .98}};
  for (const Topology topology : {Topology::normal, Topology::compact}) {
    const WfstGraph with = with_phrases(test::two_token_graph(topology), {phrase}, "test");
    EXPECT_EQ(with.words(), 3 + 2);
    ViterbiSearch search(with.view(), kWide, kMany);
    const WfstPath path = search.run(test::logs(frames).data(), 5, 3);
    EXPECT_EQ(text_of(with, path.words), "B AB ");
    EXPECT_EQ(path.words, Words({3, 2}));  // numbers of the graph's own words
    EXPECT_EQ(path.word_frames, Words({0, 2}));
    EXPECT_EQ(path.tokens, Words({1, 0, 1}));
    EXPECT_NEAR(path.cost, 0.3 - 5 * std::log(.98), 1e-4);
  }
}

TEST(AddedWords, ListsHoldNoTextTwice) {
  // The phrase has the texts of two of the graph's own words, at another cost.
  const SpelledPhrase phrase{"A B", {{"A", {0}}, {"B", {1}}}, 0.1f};
  const auto lp = test::logs({{.6, .1, .3}, {.2, .1, .7}, {.1, .7, .2}, {.3, .5, .2}});
  for (const Topology topology : {Topology::normal, Topology::compact}) {
    const WfstGraph with = with_phrases(test::two_token_graph(topology), {phrase}, "test");
    ViterbiSearch search(with.view(), kWide, kMany);
    const auto list = search.run_best(lp.data(), 4, 3, {}, 50, 20);
    std::set<std::string> texts;
    for (const WfstPath& path : list) EXPECT_TRUE(texts.insert(text_of(with, path.words)).second);
    EXPECT_TRUE(texts.contains("A B "));
    const WordLattice lattice = search.run_lattice(lp.data(), 4, 3, {}, 20, 1);
    for (const auto& arc : lattice.arcs) EXPECT_LE(arc.word, 3);
    EXPECT_EQ(symbol_table(with), "<eps>\t0\nA\t1\nAB\t2\nB\t3\n");
  }
}

TEST(AddedWords, APhraseIsBoostedAsAWholeAndAWordOutsidePhrases) {
  const std::vector<SpelledPhrase> phrases = {{"A B", {{"A", {0}}, {"B", {1}}}, 5},
                                              word("new", {1, 0}, 5)};
  const WfstGraph with = with_phrases(test::two_token_graph(Topology::compact), phrases, "test");
  const auto lp = test::logs({{.9, .05, .05}, {.05, .05, .9}, {.05, .9, .05}});
  const auto cost_of = [&](const WordBoosts& boosts) {
    return EveryPath(with.view(), lp, word_costs(with, boosts)).by_words();
  };
  const Words phrase = {4, 5}, apart = {1, 3};  // word numbers of the arcs
  EXPECT_EQ(with.word(4), "A B");
  EXPECT_NEAR(cost_of({{"A B", 3}}).at(phrase), cost_of({}).at(phrase) - 3, 1e-5);
  EXPECT_NEAR(cost_of({{"B", 3}}).at(phrase), cost_of({}).at(phrase), 1e-5);
  EXPECT_NEAR(cost_of({{"B", 3}}).at(apart), cost_of({}).at(apart) - 3, 1e-5);
  const WordBoosting boosting(std::nullopt, with);
  std::vector<float> own;
  const auto bias = boosting.compile({{{"new", 2, "x"}, {"A B", 4, "y"}}, {}, ""});
  const auto costs = boosting.of_row(bias.get(), own);
  EXPECT_EQ(std::vector<float>(costs.begin(), costs.end()),
            (std::vector<float>{0, 0, 0, 0, -4, 0, -2}));
}

TEST(AddedWords, TokenPassingFindsThemToo) {
  const std::vector<SpelledPhrase> phrases = {word("BA", {1, 0}, 0.25f),
                                              word("BB", {1, 1}, 0.5f),
                                              {"B A", {{"B", {1}}, {"A", {0}}}, 0.125f}};
  for (const Topology topology : {Topology::normal, Topology::compact}) {
    const WfstGraph with = with_phrases(test::two_token_graph(topology), phrases, "test");
    for (uint32_t seed = 0; seed < 5; ++seed) {
      const auto lp = test::random_emissions(12, 3, seed);
      ViterbiSearch plain(with.view(), 4, kMany);
      const WfstPath expected = plain.run(lp.data(), 12, 3);
      for (const auto form : {test::PassingForm::one_kernel, test::PassingForm::phases}) {
        const auto found =
            test::pass_tokens(with.view(), lp, 12, {12}, 4, kMany, 1, 3, 1 << 16, {}, form);
        test::expect_same_path(found.paths[0], expected, std::to_string(seed));
      }
    }
  }
}

/// A lexicon and a language model over the quickstart's tokens, with and without some words. Where
/// the option has a phrase, their files write one word, such as `ab_aft`.
class AddedWordsTest : public test::TempFolder {
 protected:
  void SetUp() override {
    std::string lexicon = read_text("tests/data/words.lexicon");
    std::string arpa = read_text("tests/data/words.arpa");
    lexicon += "backa ack ▁a\nalpha ▁a\nabab ▁ab ▁ab\nab_aft ▁ab ▁a ft\n";
    arpa.replace(arpa.find("ngram 1=7"), 9, "ngram 1=11");
    arpa.insert(arpa.find("\n\\2-grams"), "-1.2\tbacka\n-0.2\talpha\n-0.1\tabab\n-0.7\tab_aft\n");
    lexicon_ = write("lexicon.txt", lexicon);
    arpa_ = write("lm.arpa", arpa);
    const auto ln = [](double log10) { return log10 * std::log(10.0); };
    words_.phrases = {{"backa", ln(1.2), {"ack", "▁a"}, "0"},
                      {"alpha", ln(0.2), {"▁a"}, "1"},
                      {"abab", ln(0.1), {"▁ab", "▁ab"}, "2"}};
    model_ = std::const_pointer_cast<AcousticModel>(
        test::identity_model(quickstart().config.vocabulary));
    model_->tokenizer = quickstart().tokenizer;
  }

  static const Checkpoint& quickstart() {
    static const Checkpoint model = load_checkpoint("models/quickstart/quickstart-rnnt.nemo");
    return model;
  }

  /// Returns emissions in which the tokens of the words are likely.
  std::vector<float> emissions(int64_t frames, uint32_t seed) const {
    const int64_t columns = quickstart().config.vocabulary + 1;
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> cost(0, 6);
    std::vector<float> lp(static_cast<size_t>(frames * columns), -30.0f);
    std::set<int64_t> used = {columns - 1};
    for (const char* piece : {"▁a", "▁ab", "ack", "ft", "a"})
      for (int32_t id = 0; id < quickstart().tokenizer->size(); ++id)
        if (quickstart().tokenizer->piece(id) == piece) used.insert(id);
    EXPECT_EQ(used.size(), 6U);
    for (int64_t t = 0; t < frames; ++t)
      for (const int64_t column : used)
        lp[static_cast<size_t>(t * columns + column)] = -cost(random);
    return lp;
  }

  std::vector<SpelledPhrase> phrases() const {
    auto all = spelled_phrases(words_, *quickstart().tokenizer);
    SpelledPhrase phrase{"ab aft", {}, static_cast<float>(0.7 * std::log(10.0))};
    const auto tokens =
        common_lexicon(*quickstart().tokenizer, {lexicon_, arpa_}, &dropped_).at("ab_aft").front();
    phrase.words = {{"ab", {tokens[0]}}, {"aft", {tokens[1], tokens[2]}}};
    all.push_back(phrase);
    return all;
  }

  std::filesystem::path lexicon_, arpa_;
  AddedWordOptions words_;
  std::shared_ptr<AcousticModel> model_;
  mutable int64_t dropped_ = 0;
};

class AddedWordsOracle : public AddedWordsTest, public testing::WithParamInterface<Topology> {};

INSTANTIATE_TEST_SUITE_P(Topologies, AddedWordsOracle,
                         testing::Values(Topology::normal, Topology::compact));

TEST_P(AddedWordsOracle, EqualsAGraphThatWasBuiltWithTheWords) {
  const Tokenizer& tokenizer = *quickstart().tokenizer;
  const WfstGraph built = build_graph(tokenizer, {lexicon_, arpa_, GetParam()}).graph;
  const WfstGraph plain =
      build_graph(tokenizer, {"tests/data/words.lexicon", "tests/data/words.arpa", GetParam()})
          .graph;
  const WfstGraph with = with_phrases(plain, phrases(), "test");
  const int64_t columns = plain.view().columns;
  ViterbiSearch expected_search(built.view(), kWide, kMany), search(with.view(), kWide, kMany);
  std::map<std::string, int> seen;
  for (const int64_t frames : {0, 1, 2, 5, 9, 14}) {
    for (uint32_t seed = 0; seed < 6; ++seed) {
      const auto lp = emissions(frames, 100 * seed + static_cast<uint32_t>(frames));
      const WfstPath expected = expected_search.run(lp.data(), frames, columns);
      const WfstPath found = search.run(lp.data(), frames, columns);
      ASSERT_TRUE(found.reached_final);
      // Costs of the built graph's arcs were rounded to multiples of 2^-10.
      EXPECT_NEAR(found.cost, expected.cost, 2e-3 * static_cast<double>(1 + frames));
      std::string text = text_of(built, expected.words);
      for (size_t at = 0; (at = text.find("ab_aft", at)) != text.npos;) text[at + 2] = ' ';
      EXPECT_EQ(text_of(with, found.words), text);
      EXPECT_EQ(found.tokens, expected.tokens);
      // In the other topology, a repeated token has several frames to choose from, so frames may
      // differ.
      if (GetParam() == Topology::normal) {
        EXPECT_EQ(found.token_frames, expected.token_frames);
      }
      for (const int32_t id : expected.words) ++seen[std::string(built.word(id))];
    }
  }
  for (const char* added : {"backa", "alpha", "abab", "ab_aft"}) EXPECT_GT(seen[added], 0) << added;
  for (const char* own : {"a", "ab"}) EXPECT_GT(seen[own], 0) << own;
}

TEST_P(AddedWordsOracle, DecodersAndStreamsAgree) {
  const Tokenizer& tokenizer = *quickstart().tokenizer;
  WfstOptions o;
  o.graph = path("words.tlg");
  build_graph(tokenizer, {"tests/data/words.lexicon", "tests/data/words.arpa", GetParam()})
      .graph.write(o.graph);
  o.acoustic_scale = 1;
  o.beam = 1000;
  o.words = words_;
  // The tokenizer spells this phrase.
  o.words->phrases.push_back({"ab a", 1.5, {}, "3"});
  CtcWfstCpu decoder(o);
  decoder.prepare(model_, {});
  CtcLexiconCpuOptions lexicon;
  lexicon.lexicon = "tests/data/words.lexicon";
  lexicon.lm = "tests/data/words.arpa";
  lexicon.acoustic_scale = 1;
  lexicon.beam = 1000;
  lexicon.beam_size = 100000;
  lexicon.words = o.words;
  CtcLexiconCpu prefix(lexicon);
  prefix.prepare(model_, {});

  constexpr int64_t kFrames = 13, kRows = 6;
  const int64_t columns = quickstart().config.vocabulary + 1;
  EncodedBatch batch;
  batch.frames = at::tensor(emissions(kRows * kFrames, 5)).reshape({kRows, kFrames, columns});
  batch.lengths_host = {13, 13, 12, 9, 1, 0};
  batch.lengths = at::tensor(batch.lengths_host, at::kLong);
  const auto found = decoder.decode(batch).to_host();
  if (GetParam() == Topology::normal) {
    const auto others = prefix.decode(batch).to_host();
    for (size_t b = 0; b < kRows; ++b) {
      EXPECT_NEAR(found[b].score, others[b].score, 0.05) << b;
      EXPECT_EQ(found[b].tokens, others[b].tokens) << b;
      std::string text, other;
      for (const FoundWord& w : *found[b].words) text += w.text + " ";
      for (const FoundWord& w : *others[b].words) other += w.text + " ";
      EXPECT_EQ(text, other) << b;
    }
  }
  const auto streams = decoder.streams({});
  std::vector<int64_t> numbers;
  for (int64_t b = 0; b < kRows; ++b) numbers.push_back(streams->open());
  const at::Tensor projected = streams->project(batch.frames);
  for (int64_t frame = 0; frame < kFrames; frame += 4) {
    EncodedBatch pieces;
    pieces.frames = projected.narrow(1, frame, std::min<int64_t>(4, kFrames - frame));
    for (const int64_t length : batch.lengths_host)
      pieces.lengths_host.push_back(std::clamp<int64_t>(length - frame, 0, pieces.frames.size(1)));
    streams->push(numbers, pieces);
  }
  for (size_t b = 0; b < kRows; ++b) {
    const Hypothesis whole = streams->finish(numbers[b]);
    EXPECT_EQ(whole.words, found[b].words) << b;
    EXPECT_EQ(whole.frames, found[b].frames) << b;
    EXPECT_EQ(whole.score, found[b].score) << b;
  }
}

TEST_F(AddedWordsTest, FilesHavePhrasesCostsAndTokens) {
  const auto path = write("words.txt", "ab  a\n\nalpha\t2.5\nbacka\t\tack ▁a\r\n");
  const auto read = read_added_phrases(path);
  ASSERT_EQ(read.size(), 3U);
  EXPECT_EQ(read[0].text, "ab a");
  EXPECT_EQ(read[1].cost, 2.5);
  EXPECT_EQ(read[2].tokens, (std::vector<std::string>{"ack", "▁a"}));
  EXPECT_EQ(read[2].where, path.string() + ":4");
  words_ = {path, {}, 7};
  const auto spelled = spelled_phrases(words_, *quickstart().tokenizer);
  EXPECT_EQ(spelled[0].words.size(), 2U);
  EXPECT_EQ(spelled[0].cost, 7);
  EXPECT_EQ(spelled[1].cost, 2.5F);
  EXPECT_EQ(spelled[2].words[0].tokens.size(), 2U);
}

TEST_F(AddedWordsTest, BadPhrasesAreRefusedWithTheirPlace) {
  const auto refused = [&](const std::string& line) -> std::string {
    try {
      spelled_phrases({write("words.txt", "alpha\n" + line + "\n"), {}, 7},
                      *quickstart().tokenizer);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  for (const auto& [line, complaint] : std::vector<std::pair<std::string, std::string>>{
           {"beta\t-1", "the cost of 'beta' is '-1'"},
           {"beta\tnan", "the cost of 'beta' is 'nan'"},
           {"beta\t1001", "the cost of 'beta' is '1001'"},
           {"beta\t1 2", "the cost of 'beta' is '1 2'"},
           {" \t1", "the phrase is empty"},
           {"beta\t1\t▁b zz9", "has the token 'zz9', which the tokenizer lacks"},
           {"beta gamma\t1\t▁b", "has several words, and tokens of its own"},
           {"be日ta", "the model's tokenizer cannot spell 'be日ta'"}}) {
    const std::string error = refused(line);
    EXPECT_NE(error.find(complaint), std::string::npos) << line << ": " << error;
    EXPECT_NE(error.find("words.txt:2"), std::string::npos) << error;
  }
  EXPECT_EQ(refused("beta\t1"), "");
  EXPECT_THROW(spelled_phrases({}, *quickstart().tokenizer), UserError);
  const auto parsed = [](const char* json) {
    const nlohmann::json value = nlohmann::json::parse(json);
    return added_word_options().fill(value, "words");
  };
  const char* good = R"({"phrases": ["ab a", {"phrase": "b", "cost": 2, "tokens": ["▁a"]}]})";
  EXPECT_EQ(parsed(good).phrases[1].cost, 2);
  EXPECT_EQ(added_word_options().resolved(parsed(good)).at("phrases"),
            nlohmann::json::parse(good).at("phrases"));
  for (const char* bad :
       {R"({"phrases": [""]})", R"({"phrases": [{"phrase": "b", "cost": -2}]})",
        R"({"phrases": [{"phrase": "b", "weight": 2}]})", R"({"phrases": [3]})", R"({"cost": -1})",
        R"({"phrases": [{"phrase": "b", "cost": "2"}]})", R"({"phrases": [{"cost": 2}]})"})
    EXPECT_THROW(parsed(bad), UserError) << bad;
}

TEST(AddedWords, NeedAGraphOfAKnownTopology) {
  EXPECT_HAS(
      test::user_error([] {
        with_phrases(test::two_token_graph(Topology::normal_riva), {word("x", {0}, 1)}, "g.tlg");
      }),
      "g.tlg: has the topology 'normal_riva', which takes no added words; make it with `rtfx "
      "graph build --topology compact`");
  EXPECT_THROW(with_phrases(test::random_graph(5, 1), {word("x", {0}, 1)}, "test"), UserError);
}

}  // namespace
}  // namespace rtfx
