// Tests ctc_wfst_cpu through the interface of decoders: rows, marks, options, errors.
#include "algorithms/decoders/wfst/ctc_wfst_cpu/ctc_wfst_cpu.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <fstream>

#include "algorithms/decoder.h"
#include "algorithms/shared/wfst/graph_builder.h"
#include "base/error.h"
#include "models/load_checkpoint.h"
#include "models/tokenizers/nemo_tokenizers.h"
#include "tests/support/beam_cases.h"
#include "tests/support/own_path.h"
#include "tests/support/piece_cases.h"
#include "tests/support/wfst_cases.h"

namespace rtfx {
namespace {

using test::Words;

class CtcWfstCpuTest : public testing::Test {
 protected:
  std::filesystem::path file(const std::string& name) const { return folder_.path() / name; }

  WfstOptions options(const WfstGraph& graph) const {
    graph.write(file("words.tlg"));
    WfstOptions o;
    o.graph = file("words.tlg");
    o.acoustic_scale = 1;
    return o;
  }

  /// Returns a batch whose frames are the logits of two tokens and a blank.
  static EncodedBatch batch(const std::vector<float>& lp, int64_t frames,
                            std::vector<int64_t> lengths) {
    EncodedBatch b;
    const auto rows = static_cast<int64_t>(lengths.size());
    b.frames = at::tensor(lp).reshape({rows, frames, 3});
    b.lengths = at::tensor(lengths, at::kLong);
    b.lengths_host = std::move(lengths);
    return b;
  }

 private:
  test::OwnFolder folder_;
};

TEST_F(CtcWfstCpuTest, WritesTokensFramesAndScores) {
  CtcWfstCpu decoder(options(test::two_token_graph(Topology::normal)));
  decoder.prepare(test::identity_model(2), {});
  const auto lp = test::logs({{.6, .1, .3}, {.2, .1, .7}, {.1, .7, .2}, {.1, .3, .6}});
  const Hypothesis h = decoder.decode(batch(lp, 4, {4})).to_host()[0];
  EXPECT_EQ(h.tokens, Words({0, 1}));
  EXPECT_EQ(h.frames, Words({0, 2}));
  EXPECT_NEAR(h.score, -2.5350, 1e-4);
  ASSERT_TRUE(h.words.has_value());
  EXPECT_EQ(*h.words, (std::vector<FoundWord>{{"AB", 2}}));
  EXPECT_EQ(text_of(h, *character_tokenizer({"x", "y"})), "AB");
  EXPECT_FALSE(h.nan);
  EXPECT_GT(decoder.counters().at("scanned_arcs"), 0);
}

TEST_F(CtcWfstCpuTest, RowsDoNotDependOnOneAnother) {
  constexpr int64_t kFrames = 12, kRows = 9;
  WfstOptions o = options(test::random_graph(60, 5));
  o.beam = 4;
  CtcWfstCpu decoder(o);
  decoder.prepare(test::identity_model(2), {});
  std::vector<float> lp = test::random_emissions(kRows * kFrames, 3, 6);
  std::vector<int64_t> lengths = {12, 0, 1, 7, 12, 3, 5, 12, 9};
  lp[4 * kFrames * 3 + 4] = std::nanf("");
  const EncodedBatch all = batch(lp, kFrames, lengths);
  const auto together = decoder.decode(all).to_host();
  for (size_t b = 0; b < kRows; ++b) {
    EncodedBatch alone;
    const auto row = static_cast<int64_t>(b);
    // Frames behind the end of a row change nothing.
    alone.frames = all.frames.narrow(0, row, 1).clone();
    alone.frames.slice(1, lengths[b]).fill_(std::nan(""));
    alone.lengths = all.lengths.narrow(0, row, 1);
    alone.lengths_host = {lengths[b]};
    EXPECT_EQ(decoder.decode(alone).to_host()[0], together[b]) << b;
    EXPECT_EQ(together[b].nan, b == 4);
  }
  EXPECT_TRUE(together[4].tokens.empty());
}

TEST_F(CtcWfstCpuTest, BoostsWordsOfAllRowsOrOfOne) {
  const WfstGraph graph = test::two_token_graph(Topology::compact);
  std::ofstream(file("boost.txt")) << "A 2\n\nnever 5\n";
  WfstOptions o = options(graph);
  const auto lp = at::tensor(test::logs({{.6, .1, .3}, {.2, .1, .7}, {.1, .7, .2}, {.1, .3, .6}}))
                      .reshape({1, 4, 3})
                      .repeat({2, 1, 1});
  CtcWfstCpu plain(o);
  plain.prepare(test::identity_model(2), {});
  const auto paths =
      plain.search(lp, {4, 4}, {nullptr, plain.compile_bias({{{"A", 2, "test"}}, {}, ""})});
  EXPECT_EQ(paths[0].words, Words({2}));
  EXPECT_EQ(paths[1].words, Words({1, 1}));
  EXPECT_NEAR(paths[1].cost, 1.9809, 1e-4);
  o.boost = WordBoostOptions{file("boost.txt")};
  CtcWfstCpu boosted(o);
  boosted.prepare(test::identity_model(2), {});
  EXPECT_EQ(boosted.boosted_words(), (std::vector<std::string>{"A", "never"}));
  EXPECT_TRUE(plain.boosted_words().empty());
  for (const WfstPath& path : boosted.search(lp, {4, 4}))
    test::expect_same_path(path, paths[1], "option");
}

/// Rows of random emissions, and a decoder whose option boosts the word "two" by 1.
class CtcWfstCpuBiases : public CtcWfstCpuTest {
 protected:
  static constexpr int64_t kFrames = 12;

  CtcWfstCpu& prepared(int64_t nbest = 1, double scale = 1) {
    std::ofstream(file("boost.txt")) << "two\t1\n";
    WfstOptions o = options(graph_);
    o.beam = 6;
    o.nbest = nbest;
    o.boost = WordBoostOptions{file("boost.txt"), scale};
    decoder_.emplace(o);
    decoder_->prepare(test::identity_model(2), {});
    return *decoder_;
  }

  RowBiases biases() const {
    return {decoder_->compile_bias({{{"one", 2, "a"}}, {}, ""}), nullptr,
            decoder_->compile_bias({{{"one", -9, "b"}, {"two", 3, "c"}, {"two", 1, "d"}}, {}, ""})};
  }

  WfstGraph graph_ = test::random_graph(60, 5);
  std::vector<float> lp_ = test::random_emissions(3 * kFrames, 3, 6);
  std::optional<CtcWfstCpu> decoder_;
};

TEST_F(CtcWfstCpuBiases, HoldForTheirRowsAlone) {
  const std::vector<std::vector<float>> expected = {{0, -4, -2}, {0, 0, -2}, {0, 18, -6}};
  CtcWfstCpu& decoder = prepared(1, 2);
  EncodedBatch rows = batch(lp_, kFrames, {12, 12, 7});
  const auto without = decoder.decode(rows).to_host();
  rows.biases = biases();
  const auto with = decoder.decode(rows).to_host();
  EXPECT_EQ(with[1], without[1]);
  const at::Tensor emissions = rows.frames.log_softmax(2);
  const auto paths = decoder.search(emissions, rows.lengths_host, rows.biases);
  ViterbiSearch plain(graph_.view(), 6, 10000);
  for (size_t b = 0; b < 3; ++b) {
    const auto* lp = emissions.const_data_ptr<float>() + 3 * kFrames * static_cast<int64_t>(b);
    test::expect_same_path(paths[b], plain.run(lp, rows.lengths_host[b], 3, expected[b]),
                           std::to_string(b));
    EXPECT_EQ(with[b].score, static_cast<float>(-paths[b].cost));
  }
  EXPECT_NE(with[0].words, without[0].words);
  EXPECT_NE(with[2].words, without[2].words);
}

TEST_F(CtcWfstCpuBiases, HoldInListsAndLattices) {
  CtcWfstCpu& decoder = prepared(3);
  EncodedBatch rows = batch(lp_, kFrames, {12, 12, 7});
  rows.biases = biases();
  const auto lists = decoder.decode(rows).to_host();
  const auto lattices = decoder.lattices(rows);
  for (size_t b = 0; b < 3; ++b) {
    ASSERT_EQ(lists[b].nbest.size(), 3U);
    double cost = 0;
    for (const size_t i : best_arcs(lattices[b], {1, 1}))
      cost += lattices[b].arcs[i].graph_cost + lattices[b].arcs[i].acoustic_cost;
    EXPECT_NEAR(-lists[b].score, cost, 1e-4) << b;
  }
}

TEST_F(CtcWfstCpuBiases, HoldForStreams) {
  CtcWfstCpu& decoder = prepared();
  EncodedBatch rows = batch(lp_, kFrames, {12, 12, 12});
  rows.biases = biases();
  const auto whole = decoder.decode(rows).to_host();
  const auto streams = decoder.streams({});
  std::vector<int64_t> numbers;
  for (const auto& bias : rows.biases) {
    numbers.push_back(streams->open());
    streams->set_bias(numbers.back(), rows.biases[0]);  // which the next call replaces
    streams->set_bias(numbers.back(), bias);
  }
  const at::Tensor projected = streams->project(rows.frames);
  for (int64_t frame = 0; frame < kFrames; frame += 5) {
    const int64_t count = std::min<int64_t>(5, kFrames - frame);
    streams->push(numbers, {projected.narrow(1, frame, count), {}, {count, count, count}});
  }
  for (size_t b = 0; b < 3; ++b) {
    Hypothesis found = streams->finish(numbers[b]);
    EXPECT_EQ(found.words, whole[b].words) << b;
    EXPECT_EQ(found.tokens, whole[b].tokens) << b;
    EXPECT_EQ(found.score, whole[b].score) << b;
  }
}

TEST_F(CtcWfstCpuBiases, HoldInTheListsOfStreams) {
  prepared(3);
  nlohmann::json options = {{"graph", file("words.tlg").string()},
                            {"acoustic_scale", 1},
                            {"beam", 6},
                            {"nbest", 3},
                            {"boost", {{"path", file("boost.txt").string()}}}};
  const EncodedBatch rows = batch(lp_, kFrames, {12, 0, 7});
  for (uint32_t seed = 0; seed < 3; ++seed)
    test::random_pieces({"ctc_wfst_cpu", options, test::identity_model(2), true, biases(), rows},
                        seed);
  options["mbr"] = {{"scale", 0.1}, {"unit", "tokens"}};
  test::random_pieces({"ctc_wfst_cpu", options, test::identity_model(2), true, {}, rows}, 3);
}

TEST_F(CtcWfstCpuBiases, OfStreamsWithListsStayTheSameFromTheFirstFrameOn) {
  CtcWfstCpu& decoder = prepared(3);
  const auto streams = decoder.streams({});
  const int64_t stream = streams->open();
  const at::Tensor projected = streams->project(batch(lp_, kFrames, {12, 12, 12}).frames);
  const auto push = [&](int64_t frames) {
    streams->push({&stream, 1}, {projected.narrow(0, 0, 1), {}, {frames}});
  };
  streams->set_bias(stream, biases()[0]);
  push(0);
  streams->set_bias(stream, biases()[2]);
  push(4);
  EXPECT_THROW(streams->set_bias(stream, nullptr), UserError);
  EXPECT_THROW(streams->set_bias(stream + 1, nullptr), UserError);  // not open
  EXPECT_FALSE(streams->finish(stream).nbest.empty());
}

TEST_F(CtcWfstCpuBiases, AreRefusedWithTheirPlace) {
  const CtcWfstCpu& decoder = prepared();
  const auto refused = [&](const BiasRequest& request) -> std::string {
    try {
      decoder.compile_bias(request);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refused({{{"three", 2, "set.jsonl:3"}}, {}, ""}).find("set.jsonl:3: the graph has no"),
            std::string::npos);
  EXPECT_NE(refused({{{"one two", 2, "x"}}, {}, ""}).find("boost its words one by one"),
            std::string::npos);
  EXPECT_NE(refused({{{"one", std::nan(""), "x"}}, {}, ""}).find("finite"), std::string::npos);
  EXPECT_NE(refused({{}, {{"latin"}}, "set.jsonl:4"}).find("set.jsonl:4"), std::string::npos);
  EXPECT_EQ(refused({}), "");
  EXPECT_EQ(refused({{}, std::vector<std::string>(), "set.jsonl:4"}), "");
}

TEST_F(CtcWfstCpuTest, WordsOfTheListAreBoostedBesideThoseOfTheFile) {
  const WfstGraph graph = test::two_token_graph(Topology::compact);
  std::ofstream(file("boost.txt")) << "A 2\nB 1\n";
  WfstOptions o = options(graph);
  o.boost = WordBoostOptions{file("boost.txt"), 2, 8, {{"B", 3, "x"}, {"AB", 0, "y"}}};
  CtcWfstCpu decoder(o);
  decoder.prepare(test::identity_model(2), {});
  EXPECT_EQ(decoder.boosted_words(), (std::vector<std::string>{"A", "B", "B", "AB"}));
  const WordBoosting boosting(o.boost, graph);
  EXPECT_EQ(boosting.costs(), (std::vector<float>{0, -4, -16, -6}));
  // The larger of a word's two boosts counts, and words without a boost are not listed.
  o.boost =
      WordBoostOptions{file("boost.txt"), 2, 0, {{"A", 1, "x"}, {"B", 0.5, "y"}, {"AB", 0, "z"}}};
  const WordBoosting larger(o.boost, graph);
  EXPECT_EQ(larger.costs(), (std::vector<float>{0, -4, 0, -2}));
  EXPECT_EQ(larger.words(), (std::vector<std::string>{"A", "B", "A", "B"}));
  // A negative scale makes words less likely, and the larger boost of two still counts.
  o.boost = WordBoostOptions{
      file("boost.txt"), -1, 8, {{"A", 3, "x"}, {"A", 1, "y"}, {"AB", 2, "z"}, {"AB", 4, "z"}}};
  const WordBoosting negative(o.boost, graph);
  EXPECT_EQ(negative.costs(), (std::vector<float>{0, 3, 4, 1}));
  o.boost->phrases = {{"B", 0.5, "x"}};
  EXPECT_EQ(WordBoosting(o.boost, graph).costs(), (std::vector<float>{0, 2, 0, 1}));
  const auto bias = negative.compile({{{"B", 2, "a"}, {"B", 4, "b"}}, {}, ""});
  EXPECT_EQ(word_costs_of(*bias), (std::vector<std::pair<int32_t, float>>{{3, 4.0F}}));
  o.boost->phrases = {{"unheard", 1, "list/0"}};
  CtcWfstCpu unknown(o);
  EXPECT_THROW(unknown.prepare(test::identity_model(2), {}), UserError);
}

TEST_F(CtcWfstCpuTest, WordsAreThoseThatTheFileRaisesWhateverTheScale) {
  WfstOptions o = options(test::two_token_graph(Topology::compact));
  std::ofstream(file("boost.txt")) << "A 2\nB -2\nnothing 0\nsome 0.5\n";
  for (const double scale : {0.0, 3.0, -1.0}) {
    o.boost = WordBoostOptions{file("boost.txt"), scale};
    CtcWfstCpu decoder(o);
    EXPECT_TRUE(decoder.boosted_words().empty());  // not known before prepare()
    decoder.prepare(test::identity_model(2), {});
    EXPECT_EQ(decoder.boosted_words(), (std::vector<std::string>{"A", "some"})) << scale;
  }
}

TEST_F(CtcWfstCpuTest, ListsHaveTheBestPathFirst) {
  constexpr int64_t kFrames = 12;
  WfstOptions o = options(test::random_graph(60, 5));
  o.beam = 6;
  CtcWfstCpu plain(o);
  o.nbest = 4;
  CtcWfstCpu decoder(o);
  plain.prepare(test::identity_model(2), {});
  decoder.prepare(test::identity_model(2), {});
  std::vector<float> lp = test::random_emissions(3 * kFrames, 3, 6);
  lp[kFrames * 3 + 4] = std::nanf("");
  const EncodedBatch rows = batch(lp, kFrames, {12, 12, 7});
  const auto lists = decoder.decode(rows).to_host(), alone = plain.decode(rows).to_host();
  for (const size_t b : {0, 2}) {
    ASSERT_EQ(lists[b].nbest.size(), 4U) << b;
    EXPECT_EQ(lists[b].nbest[0].tokens, alone[b].tokens);
    EXPECT_EQ(lists[b].nbest[0].words, alone[b].words);
    EXPECT_EQ(lists[b].words, alone[b].words);
    EXPECT_EQ(lists[b].score, alone[b].score);
    for (size_t i = 1; i < 4; ++i) EXPECT_LE(lists[b].nbest[i].score, lists[b].nbest[i - 1].score);
  }
  EXPECT_TRUE(lists[1].nan);
  EXPECT_TRUE(lists[1].nbest.empty());
  EXPECT_EQ(decoder.counters(), plain.counters());
}

TEST_F(CtcWfstCpuTest, RowsWithoutAnEndAreCountedAndReturned) {
  WfstOptions o = options(test::one_word_graph());
  o.beam = 2;
  for (const int64_t nbest : {1, 3}) {
    o.nbest = nbest;
    CtcWfstCpu decoder(o);
    decoder.prepare(test::identity_model(2), {});
    const auto found = decoder.decode(test::one_word_rows()).to_host();
    EXPECT_EQ(found[0].tokens, Words({0, 1})) << nbest;
    EXPECT_EQ(found[1].tokens, Words({0})) << nbest;
    EXPECT_FALSE(found[1].nan) << nbest;
    EXPECT_TRUE(found[2].nan) << nbest;
    EXPECT_EQ(decoder.counters().at("not_final"), 1) << nbest;
  }
}

TEST_F(CtcWfstCpuTest, OfTwoBoostsOfAWordTheLargerCounts) {
  for (const char* lines : {"once 12\nonce 0.5\n", "once 0.5\nonce 12\n"}) {
    std::ofstream(file("boost.txt")) << lines;
    EXPECT_EQ(read_word_boosts(file("boost.txt")), (WordBoosts{{"once", 12.0F}}));
  }
}

TEST_F(CtcWfstCpuTest, NamesTheLineOfABadBoost) {
  for (const char* line : {"word", "word x", "word 1 2", "word nan"}) {
    std::ofstream(file("boost.txt")) << "good 1\n" << line << "\n";
    try {
      read_word_boosts(file("boost.txt"));
      ADD_FAILURE() << line;
    } catch (const UserError& error) {
      EXPECT_EQ(error.where(), file("boost.txt").string() + ":2");
    }
  }
}

TEST_F(CtcWfstCpuTest, RefusesAGraphOfAnotherTokenizer) {
  const auto quickstart = load_checkpoint("models/quickstart/quickstart-rnnt.nemo");
  const auto graph_of = [](const std::string& tokenizer, int32_t tokens) {
    TransducerArcs t;
    t.states = 1;
    t.finals = {{0, 0.0f}};
    t.add(0, 0, tokens + 1, 0);
    return WfstGraph::from(t, tokens, {"w"}, "none", tokenizer, "test");
  };
  const auto model =
      std::const_pointer_cast<AcousticModel>(test::identity_model(quickstart.config.vocabulary));
  model->tokenizer = quickstart.tokenizer;
  const auto refused = [&](const WfstGraph& graph) {
    CtcWfstCpu decoder(options(graph));
    try {
      decoder.prepare(model, {});
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find("another tokenizer"), std::string::npos);
      return true;
    }
    return false;
  };
  const auto vocabulary = static_cast<int32_t>(quickstart.config.vocabulary);
  const std::string checksum = tokenizer_checksum(*quickstart.tokenizer);
  EXPECT_FALSE(refused(graph_of(checksum, vocabulary)));
  EXPECT_TRUE(refused(graph_of(std::string(64, '0'), vocabulary)));
  EXPECT_TRUE(refused(graph_of(checksum, vocabulary - 1)));
}

TEST_F(CtcWfstCpuTest, HasTheThreadsOfItsOptionAndNoMoreThanLibTorch) {
  const WfstGraph graph = test::two_token_graph(Topology::normal);
  const int before = at::get_num_threads();
  at::set_num_threads(3);
  for (const auto& [asked, expected] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 3}, {1, 1}, {2, 2}, {16, 3}}) {
    WfstOptions o = options(graph);
    o.threads = asked;
    EXPECT_EQ(CtcWfstCpu(o).threads(), expected);
  }
  at::set_num_threads(before);
}

TEST_F(CtcWfstCpuTest, MustBeGivenAGraph) {
  EXPECT_THROW(make_decoder("ctc_wfst_cpu", nlohmann::json::object(), "/decoders/0"), UserError);
  EXPECT_THROW(make_decoder("ctc_wfst", {{"graph", "missing.tlg"}}, "/decoders/0"), UserError);
}

}  // namespace
}  // namespace rtfx
