// Tests transducer_wfst against its rule in plain loops over texts and sets of graph states. Its
// scores are also compared with all alignments and all paths of a graph.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "algorithms/gpu/host_read.h"
#include "algorithms/shared/wfst/token_graph.h"
#include "tests/support/monotonic_cases.h"
#include "tests/support/piece_cases.h"
#include "tests/support/token_graph_cases.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using namespace test;

constexpr char kName[] = "transducer_wfst";
constexpr double kNone = PlainGraph::kNone;
const std::vector<std::string> kWords = {"", "one", "two"};

std::string printed(const std::vector<FoundWord>& words) {
  std::string text;
  for (const FoundWord& word : words) text += fmt::format("{} {}, ", word.text, word.frame);
  return text;
}

/// Prints the words of a path with their frames. Words before the first token have its frame.
std::string printed(const EveryTokenPath::PlacedWords& words, const std::vector<int32_t>& frames) {
  std::vector<FoundWord> placed;
  for (const auto& [word, tokens] : words) {
    const auto token = static_cast<size_t>(std::max(1, tokens) - 1);
    placed.push_back({kWords[static_cast<size_t>(word)], frames.empty() ? 0 : frames[token]});
  }
  return printed(placed);
}

struct Weights {
  double alpha = 0.7, beta = 0.2, eps = 1e-2;
  bool full = true;

  nlohmann::json options() const {
    return {{"alpha", alpha},
            {"beta", beta},
            {"blank_eps", eps},
            {"blank_scoring", full ? "lm_weighted_full" : "no_score"}};
  }
};

/// Fuses `next` with a graph. Only tokens that the graph has may follow, and only the `max_tokens`
/// likeliest ones.
NextOf fused(const NextOf& next, const PlainGraph& graph, const Weights& w, size_t max_tokens) {
  return [&next, &graph, w, max_tokens](size_t frame, const Text& text) {
    Next n = next(frame, text);
    const size_t tokens = n.labels.size() - 1;
    std::vector<size_t> order(tokens);
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return n.labels[a] > n.labels[b]; });
    double& blank = n.labels.back();
    const double rest = w.full ? w.alpha * std::log1p(-std::min(std::exp(blank), 1 - w.eps)) : 0;
    const double before = graph.cost(text);
    for (size_t rank = 0; rank < tokens; ++rank) {
      Text longer = text;
      longer.push_back(static_cast<int32_t>(order[rank]));
      const double cost = rank < max_tokens ? graph.cost(longer) : kNone;
      double& score = n.labels[order[rank]];
      score = cost == kNone ? -kNone : score + rest - w.alpha * (cost - before) + w.beta;
    }
    if (w.full) blank *= 1 + w.alpha;
    return n;
  };
}

/// Adds the cost of the end of each text. Texts without an end are dropped, unless all lack one.
void end_texts(std::vector<Entry>& list, const PlainGraph& graph, double alpha) {
  std::vector<Entry> final_ones;
  for (Entry entry : list) {
    const double end = graph.final_cost(entry.text);
    if (end == kNone) continue;
    entry.score -= alpha * (end - graph.cost(entry.text));
    final_ones.push_back(entry);
  }
  if (!final_ones.empty()) list = final_ones;
}

/// The parameter says whether the model is TDT.
class TransducerWfst : public TempFolder, public testing::WithParamInterface<bool> {
 protected:
  static constexpr int64_t kVocabulary = 8;

  std::string file_of(const WfstGraph& graph) const {
    graph.write(path("graph.tlg"));
    return path("graph.tlg").string();
  }
};

TEST_P(TransducerWfst, FollowsItsRuleInPlainLoops) {
  std::mt19937 random(GetParam() ? 3 : 5);
  int64_t lists = 0, none_final = 0;
  for (int trial = 0; trial < 10 && !HasFailure(); ++trial) {
    const BeamCase c =
        random_beam_case(random, GetParam(), kVocabulary, kVocabulary, {5, 0, 9, 1, 7, 2});
    const WfstGraph graph = random_token_graph(random, 7, kVocabulary, kVocabulary, false);
    const std::string file = file_of(graph);
    Weights weights;
    weights.full = trial % 2 == 0;
    for (const size_t beam : {1, 3, 6}) {
      const size_t states = beam == 1 ? 64 : beam == 3 ? 1 : 3, max_tokens = beam == 6 ? 4 : 8;
      nlohmann::json options = {
          {"graph", file},        {"beam_size", beam},
          {"nbest", 8},           {"score_norm", beam != 3},
          {"max_states", states}, {"max_tokens", max_tokens == 8 ? 0 : max_tokens}};
      options.update(weights.options());
      const auto found = run(kName, options, c);
      const PlainGraph plain(graph, states);
      for (size_t b = 0; b < c.rows.size(); ++b) {
        const NextOf next = next_of(c.model, c.rows[b]);
        const NextOf scores = fused(next, plain, weights, max_tokens);
        auto expected = plain_search(c.model, c.rows[b].size(), beam, {scores, scores}, false);
        ++lists;
        none_final += std::ranges::none_of(
            expected, [&](const Entry& entry) { return plain.final_cost(entry.text) < kNone; });
        end_texts(expected, plain, weights.alpha);
        if (beam > 1)
          expect_list(
              found[b], expected, beam != 3,
              options.dump() + " trial " + std::to_string(trial) + " row " + std::to_string(b));
        else
          EXPECT_EQ(found[b].tokens, expected.front().text) << options.dump() << " row " << b;
      }
    }
  }
  EXPECT_GT(none_final, 0);
  EXPECT_LT(none_final, lists / 2);
}

TEST_P(TransducerWfst, FindsTheSumsOverAllAlignmentsAndTheBestOfAllPaths) {
  constexpr int64_t kBeam = 80;
  std::mt19937 random(GetParam() ? 15 : 17);
  int64_t texts = 0, unique = 0;
  for (int trial = 0; trial < 6 && !HasFailure(); ++trial) {
    const BeamCase c = random_beam_case(random, GetParam(), kBeam, 2, {3, 2});
    const WfstGraph graph = random_token_graph(random, 5, kBeam, 2, true);
    Weights weights;
    weights.full = false;
    nlohmann::json options = {{"graph", file_of(graph)}, {"beam_size", kBeam},
                              {"nbest", kBeam},          {"max_states", 100},
                              {"max_tokens", 0},         {"score_norm", false}};
    options.update(weights.options());
    const auto found = run(kName, options, c);
    for (size_t b = 0; b < c.rows.size(); ++b) {
      std::map<Text, double> totals, expected;
      sum_alignments(next_of(c.model, c.rows[b]), c, c.rows[b].size(), 0, {}, 0, totals);
      for (const auto& [text, total] : totals) {
        const EveryTokenPath paths(graph, text);
        if (paths.best() == kNone) continue;
        expected[text] =
            total - weights.alpha * paths.best() + weights.beta * static_cast<double>(text.size());
        const auto entry = std::ranges::find_if(
            found[b].nbest, [&, key = text](const Hypothesis& h) { return h.tokens == key; });
        ASSERT_NE(entry, found[b].nbest.end()) << testing::PrintToString(text);
        EXPECT_NEAR(entry->score, expected[text], 5e-5) << testing::PrintToString(text);
        std::set<std::string> possible;
        for (const auto& path : paths.words()) possible.insert(printed(path, entry->frames));
        EXPECT_TRUE(possible.contains(printed(*entry->words))) << testing::PrintToString(text);
        unique += possible.size() == 1 && !entry->words->empty();
        ++texts;
      }
      if (expected.empty()) continue;
      EXPECT_EQ(found[b].nbest.size(), expected.size());
      const auto best =
          std::ranges::max_element(expected, {}, [](const auto& scored) { return scored.second; });
      EXPECT_EQ(found[b].tokens, best->first);
    }
  }
  EXPECT_GT(texts, 20);
  EXPECT_GT(unique, texts / 2);
}

TEST_P(TransducerWfst, StreamsGiveTheResultsOfWholeUtterances) {
  std::mt19937 random(7);
  const ModelConfig config = GetParam() ? small_config() : with_durations(small_config(), {});
  const auto model = random_model(config, GetParam() ? 1 : 2);
  const auto vocabulary = static_cast<int32_t>(config.vocabulary);
  for (uint32_t seed = 0; seed < 4 && !HasFailure(); ++seed) {
    const std::string file = file_of(random_token_graph(random, 30, vocabulary, vocabulary, false));
    random_pieces({kName, {{"graph", file}, {"nbest", 4}}, model}, seed);
    random_pieces({kName,
                   {{"graph", file},
                    {"beam_size", 3},
                    {"nbest", 2},
                    {"score_norm", false},
                    {"max_states", 2},
                    {"max_tokens", 5}},
                   model},
                  seed);
  }
  wrong_pushes({kName, {{"graph", path("graph.tlg").string()}}, model});
}

TEST_P(TransducerWfst, DeclaresItsWaitsAndMarksARowWithANan) {
  std::mt19937 random(9);
  BeamCase c = random_beam_case(random, GetParam(), kVocabulary, kVocabulary, {4, 6, 5});
  const WfstGraph graph = random_token_graph(random, 7, kVocabulary, kVocabulary, false);
  const nlohmann::json options = {{"graph", file_of(graph)}, {"nbest", 3}};
  const auto clean = run(kName, options, c);
  c.rows[1][2][3] = std::numeric_limits<double>::quiet_NaN();
  const auto decoder = make_decoder(kName, options, "");
  decoder->prepare(build(c.model), {});
  Hypotheses result;
  forbid_undeclared_syncs([&] { result = decoder->decode(batch_of(c.rows, c.model.columns())); });
  const auto rows = result.to_host();
  EXPECT_TRUE(rows[1].nan);
  EXPECT_EQ(rows[1].words, std::nullopt);
  EXPECT_EQ(rows[0], clean[0]);
  EXPECT_EQ(rows[2], clean[2]);
  EXPECT_GT(decoder->counters().at("host_reads"), decoder->counters().at("outer_iters"));
}

INSTANTIATE_TEST_SUITE_P(Heads, TransducerWfst, testing::Bool(),
                         [](const auto& info) { return info.param ? "Tdt" : "Rnnt"; });

using TransducerWfstInput = TempFolder;

TEST_F(TransducerWfstInput, RowsWithoutAnEndAreCountedAndReturned) {
  TransducerArcs arcs;  // the text must begin with token 0, and end with token 1
  arcs.states = 2;
  arcs.add(0, 0, 1, 1, 0);
  arcs.add(0, 1, 2, 2, 0);
  arcs.finals.emplace_back(1, 0.0f);
  WfstGraph::from(arcs, 3, {"one", "two"}, "tokens", std::string(64, '0'), "test")
      .write(path("g.tlg"));
  const TableModel model{3, {}, Table(4, std::vector<double>(4, 0)), {}};
  const Table ends = {{9, 0, 0, 0}, {0, 9, 0, 0}}, goes_on = {{9, 0, 0, 0}, {9, 0, 0, 0}};
  const auto decoder =
      make_decoder(kName, {{"graph", path("g.tlg").string()}, {"beam_size", 1}}, "");
  decoder->prepare(build(model), {});
  const auto rows = decoder->decode(batch_of({ends, goes_on, {}}, 4)).to_host();
  EXPECT_EQ(rows[0].words, (std::vector<FoundWord>{{"one", 0}, {"two", 1}}));
  EXPECT_EQ(rows[1].words, (std::vector<FoundWord>{{"one", 0}, {"one", 1}}));
  EXPECT_EQ(rows[2].words, std::vector<FoundWord>());
  EXPECT_EQ(decoder->counters().at("not_final"), 2);
}

TEST_F(TransducerWfstInput, ModelsAndGraphsThatCannotBeSearchedAreRefused) {
  const TableModel rnnt{3, {}, Table(4, std::vector<double>(4, 0)), {}};
  TableModel blanks{3, {}, Table(4, std::vector<double>(5, 0)), {}};
  blanks.blanks = {2, 1};
  const auto refusal = [&](const TransducerArcs& arcs, const char* topology, int32_t tokens,
                           const std::shared_ptr<const AcousticModel>& model) {
    WfstGraph::from(arcs, tokens, {"one"}, topology, std::string(64, '0'), "test")
        .write(path("g.tlg"));
    return user_error([&] {
      make_decoder(kName, {{"graph", path("g.tlg").string()}, {"beam_size", 2}}, "")
          ->prepare(model, {});
    });
  };
  TransducerArcs arcs;
  arcs.states = 1;
  arcs.finals.emplace_back(0, 0.0f);
  arcs.add(0, 0, 1, 1, 0);
  EXPECT_EQ(refusal(arcs, "tokens", 3, build(rnnt)), "");
  EXPECT_HAS(refusal(arcs, "tokens", 3, build(blanks)), "multiblank");
  EXPECT_HAS(refusal(arcs, "tokens", 3, identity_model(3)), "ctc");
  EXPECT_HAS(refusal(arcs, "tokens", 2, build(rnnt)), "another tokenizer");
  EXPECT_HAS(refusal(arcs, "compact", 3, build(rnnt)), "--topology tokens");
  TransducerArcs blank = arcs;
  blank.add(0, 0, 4, 0, 0);
  EXPECT_HAS(refusal(blank, "tokens", 3, build(rnnt)), "own blanks");
  TransducerArcs stuck = arcs;
  stuck.start = stuck.states++;
  EXPECT_HAS(refusal(stuck, "tokens", 3, build(rnnt)), "a start that leads nowhere");
  TransducerArcs none = arcs;
  none.arcs.clear();
  EXPECT_HAS(refusal(none, "tokens", 3, build(rnnt)), "no arc with a token");
  TransducerArcs many = arcs;
  for (int i = 0; i < 64; ++i) many.add(0, 0, 1, 1, static_cast<float>(i));
  EXPECT_HAS(refusal(many, "tokens", 3, build(rnnt)), "65 arcs of one token");
  TransducerArcs chain = arcs;
  for (int i = 0; i < 300; ++i) {
    chain.add(chain.states - 1, chain.states, 0, 0, 0);
    chain.finals.emplace_back(chain.states++, 0.0f);
  }
  EXPECT_HAS(refusal(chain, "tokens", 3, build(rnnt)), "300 others follow without a token");
  EXPECT_HAS(user_error([&] {
               make_decoder(kName, {{"graph", "x"}, {"max_states", 0}}, "o");
             }),
             "o/max_states");
  EXPECT_HAS(user_error([&] {
               make_decoder(kName, {{"graph", "x"}, {"alpha", -1}}, "o");
             }),
             "o/alpha");
  EXPECT_HAS(user_error([&] {
               make_decoder(kName, {{"graph", "absent.tlg"}}, "")->prepare(build(rnnt), {});
             }),
             "absent.tlg");
}

TEST_F(TransducerWfstInput, ASearchOfCtcRefusesAGraphOfTokens) {
  TransducerArcs arcs;
  arcs.states = 1;
  arcs.finals.emplace_back(0, 0.0f);
  arcs.add(0, 0, 1, 1, 0);
  WfstGraph::from(arcs, 3, {"one"}, "tokens", std::string(64, '0'), "test").write(path("g.tlg"));
  EXPECT_HAS(user_error([&] {
               make_decoder("ctc_wfst_cpu", {{"graph", path("g.tlg").string()}}, "")
                   ->prepare(identity_model(3), {});
             }),
             "search it with transducer_wfst");
}

}  // namespace
}  // namespace rtfx
