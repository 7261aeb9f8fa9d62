#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "algorithms/decoders/wfst/ctc_wfst_cpu/ctc_wfst_cpu.h"
#include "algorithms/shared/wfst/grammar.h"
#include "algorithms/shared/wfst/graph_builder.h"
#include "algorithms/shared/wfst/token_graph.h"
#include "algorithms/shared/wfst/word_boosting.h"
#include "base/files.h"
#include "models/load_checkpoint.h"
#include "models/tokenizers/nemo_tokenizers.h"
#include "tests/support/own_path.h"
#include "tests/support/user_error.h"
#include "tests/support/wfst_cases.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using test::Words;

const char* const kLexicon = "tests/data/words.lexicon";
const char* const kArpa = "tests/data/words.arpa";

const Tokenizer& tokenizer() {
  static const auto loaded = load_checkpoint("models/quickstart/quickstart-rnnt.nemo").tokenizer;
  return *loaded;
}

const BuiltGraph& built(Topology topology) {
  static const BuiltGraph normal = build_graph(tokenizer(), {kLexicon, kArpa, Topology::normal});
  static const BuiltGraph compact = build_graph(tokenizer(), {kLexicon, kArpa, Topology::compact});
  return topology == Topology::normal ? normal : compact;
}

std::filesystem::path write_file(const std::string& name, const std::string& text) {
  const auto path = test::own_path(name);
  std::ofstream(path) << text;
  return path;
}

TEST(WfstTopology, HasAsManyArcsAsTheFormulas) {
  for (const int32_t v : {1, 2, 7}) {
    for (const int32_t d : {1, 3}) {
      const auto normal = token_transducer(Topology::normal, {v, d});
      const auto compact = token_transducer(Topology::compact, {v, d});
      EXPECT_EQ(normal.arcs.size(), 1 + 3 * v + v * (v - 1) + d * (v + 1));
      EXPECT_EQ(compact.arcs.size(), 1 + 3 * v + d);
      EXPECT_EQ(token_transducer(Topology::tokens, {v, d}).arcs.size(), v + d);
      const auto riva = token_transducer(Topology::normal_riva, {v, d});
      EXPECT_EQ(riva.arcs.size(), 1 + 3 * v + v * (v - 1) + d * v);
      EXPECT_EQ(riva.finals.size(), v + 1);
      EXPECT_EQ(normal.finals.size(), v + 1);
      EXPECT_EQ(compact.finals.size(), 1);
    }
  }
  EXPECT_HAS(test::user_error([] { parse_topology("compat", "--topology"); }), "compact");
}

TEST(WfstLexicon, MarksHomographsAndPrefixes) {
  // Words 1 and 3 have the same spelling, which also begins word 2. Word 4 stands by itself.
  const auto l =
      lexicon_transducer({{"a", {{5}}}, {"b", {{5, 6}}}, {"c", {{5}}}, {"d", {{6}}}}, 10);
  EXPECT_EQ(l.labels.disambiguation, 3);
  EXPECT_EQ(l.backoff_word, 5);
  std::vector<int32_t> symbols;
  for (const auto& arc : l.arcs.arcs)
    if (arc.input > l.labels.blank()) symbols.push_back(arc.input - l.labels.symbol(0));
  EXPECT_EQ(symbols, Words({0, 1, 2}));
  for (const auto& arc : l.arcs.arcs) EXPECT_EQ(arc.output != 0, arc.from == 0);
}

TEST(WfstLexicon, NamesTheLineOfAWordThatCannotBeSpelled) {
  const auto path = write_file("bad.lexicon",
                               "ab \xE2\x96\x81"
                               "ab\n\na \xE2\x96\x81"
                               "a qq!\n");
  int64_t dropped = 0;
  const auto read = [&](bool drop) {
    return read_lexicon(path, tokenizer(), {"a", "ab"}, drop, &dropped);
  };
  const std::string message = test::user_error([&] { read(false); });
  EXPECT_NE(message.find("bad.lexicon:3"), std::string::npos) << message;
  EXPECT_NE(message.find("'qq!'"), std::string::npos) << message;
  EXPECT_EQ(read(true).size(), 1);
  EXPECT_EQ(dropped, 1);
}

TEST(WfstGraph, OfTokensHasEveryWordAndTheCostsOfTheLanguageModel) {
  const BuiltGraph built = build_graph(tokenizer(), {kLexicon, kArpa, Topology::tokens});
  const TokenGraph graph(built.graph, 64, at::kCPU, "test");
  int64_t dropped = 0;
  const Lexicon lexicon = common_lexicon(tokenizer(), {kLexicon, kArpa}, &dropped);
  const auto path_of = [&](const std::vector<std::string>& words) {
    std::vector<int32_t> tokens;
    for (const std::string& word : words)
      tokens.insert(tokens.end(), lexicon.at(word).front().begin(), lexicon.at(word).front().end());
    return graph.words(tokens, std::vector<int32_t>(tokens.size()));
  };
  const auto texts = [&](const WfstPath& path) {
    std::vector<std::string> words;
    for (const int32_t word : path.words) words.emplace_back(built.graph.word(word));
    return words;
  };
  for (const auto& [word, spellings] : lexicon) {
    const WfstPath path = path_of({word});
    EXPECT_TRUE(path.alive && path.reached_final) << word;
    EXPECT_EQ(texts(path), std::vector<std::string>{word});
  }
  const double ln10 = std::log(10.0);
  const WfstPath seen = path_of({"a", "ab"});
  EXPECT_EQ(texts(seen), (std::vector<std::string>{"a", "ab"}));
  // The n-grams are <s> a, <s> a ab, and a ab </s>. Minimising the graph rounded costs to 2^-10.
  EXPECT_NEAR(seen.cost, (0.3 + 0.1 + 0.2) * ln10, 0.02);
  const WfstPath backed_off = path_of({"aback", "aback"});
  EXPECT_EQ(texts(backed_off), (std::vector<std::string>{"aback", "aback"}));
  // The path is <s> aback, back-off, aback, back-off, </s>.
  EXPECT_NEAR(backed_off.cost, (0.6 + 0.1 + 1.3 + 0.1 + 0.9) * ln10, 0.02);
}

TEST(WfstGraph, IsTheSameWithAByteOrderMark) {
  const auto marked = [](const char* name, const char* file) {
    return write_file(name, "\xEF\xBB\xBF" + read_text(file));
  };
  const auto lexicon = marked("bom.lexicon", kLexicon), arpa = marked("bom.arpa", kArpa);
  const BuiltGraph found = build_graph(tokenizer(), {lexicon, arpa, Topology::compact});
  const GraphView& view = found.graph.view();
  EXPECT_EQ(found.words, built(Topology::compact).words);
  EXPECT_EQ(view.states, built(Topology::compact).graph.view().states);
  EXPECT_EQ(view.arc_count, built(Topology::compact).graph.view().arc_count);
}

TEST(WfstLexicon, MayHaveKaldisProbabilities) {
  const auto letters = character_tokenizer({"a", "b", "1", "0.5"});
  int64_t dropped = 0;
  const auto read = [&](const std::string& text) {
    return read_lexicon(write_file("lexiconp.txt", text), *letters, {"x", "y"}, false, &dropped);
  };
  const Lexicon lexicon = read("x 1.0 a b\nx 0.25\tb\ny 1 a\n");
  EXPECT_EQ(lexicon, (Lexicon{{"x", {{0, 1}, {1}}}, {"y", {{0}}}}));
  EXPECT_EQ(lexicon.cost("x", {0, 1}), 0);
  EXPECT_NEAR(lexicon.cost("x", {1}), std::log(4.0), 1e-6);
  const auto l = lexicon_transducer(lexicon, 4);
  std::vector<float> costs;
  for (const auto& arc : l.arcs.arcs)
    if (arc.output > 0 && arc.output < 3) costs.push_back(arc.cost);
  EXPECT_EQ(costs, (std::vector<float>{0, lexicon.cost("x", {1}), 0}));
  // These tokens look like numbers.
  EXPECT_EQ(read("x 1 a\ny a b\n"), (Lexicon{{"x", {{2, 0}}}, {"y", {{0, 1}}}}));
  EXPECT_EQ(read("x 1 a\ny 1 b\n"), (Lexicon{{"x", {{2, 0}}}, {"y", {{2, 1}}}}));
  for (const char* wrong : {"1.5", "0", "0.0", "-0.5", "nan", "inf"}) {
    const std::string message =
        test::user_error([&] { read(fmt::format("x 0.25 a\ny {} b\n", wrong)); });
    EXPECT_HAS(
        message,
        fmt::format("lexiconp.txt:2: the probability of 'y' is {}; it must be above 0", wrong));
  }
}

TEST(WfstLexicon, NamesTheLineThatLacksAProbability) {
  const auto letters = character_tokenizer({"a", "b", "0.5"});
  int64_t dropped = 0;
  const auto read = [&](const std::string& text) {
    return read_lexicon(write_file("missing.lexicon", text), *letters, {"x", "y"}, true, &dropped);
  };
  for (const char* line : {"y a b", "y a", "y 0.25", "y"}) {
    EXPECT_HAS(test::user_error([&] { read(fmt::format("x 0.25 a\nx 0.75 b\n\n{}\n", line)); }),
               "missing.lexicon:4: has no probability before its tokens, and most lines have one");
  }
  // Here the number is a token.
  EXPECT_EQ(read("x 0.5 a\nx 0.5 b\ny a\n"), (Lexicon{{"x", {{2, 0}, {2, 1}}}, {"y", {{0}}}}));
}

TEST(WfstLexicon, CountsTheWordsThatAreNotWanted) {
  const auto letters = character_tokenizer({"a", "b"});
  const auto path = write_file("more.lexicon", "x a\nz b\nz a\ny b\nw a\n");
  int64_t dropped = 0, unwanted = 0;
  EXPECT_EQ(read_lexicon(path, *letters, {"x", "y"}, false, &dropped, &unwanted).size(), 2);
  EXPECT_EQ(unwanted, 2);
}

TEST(WfstLexicon, SymbolsAreNoWords) {
  const auto letters = character_tokenizer({"a", "b"});
  int64_t dropped = 0;
  const auto read = [&](const std::string& text) {
    return read_lexicon(write_file("symbols.lexicon", text), *letters, {"#", "#1a", "x"}, false,
                        &dropped);
  };
  EXPECT_HAS(test::user_error([&] { read("x a\n<eps> b\n"); }),
             "symbols.lexicon:2: '<eps>' is no word: it is the name of the empty label");
  for (const char* symbol : {"#0", "#1", "#12"}) {
    EXPECT_HAS(test::user_error([&] { read(fmt::format("{} a\n", symbol)); }),
               fmt::format("symbols.lexicon:1: '{}' is no word: it is the name of a disambiguation",
                           symbol));
  }
  EXPECT_EQ(read("# a\n#1a b\n"), (Lexicon{{"#", {{0}}}, {"#1a", {{1}}}}));
}

TEST(WfstGrammar, NgramsThatAreThereTwiceAreRefused) {
  const auto arpa = [](const std::string& ones, const std::string& twos) {
    return write_file("twice.arpa", "\\data\\\nngram 1=3\nngram 2=2\n\n\\1-grams:\n" + ones +
                                        "\n\\2-grams:\n" + twos + "\n\\end\\\n");
  };
  const auto label = [](std::string_view word) { return word == "a" ? 1 : word == "b" ? 2 : 0; };
  int64_t dropped = 0;
  const auto grammar = [&](const std::filesystem::path& path) {
    return test::user_error([&] { grammar_transducer(path, label, 3, &dropped); });
  };
  const std::string ones = "-1 a -1\n-1 b -1\n-1 </s>\n";
  EXPECT_EQ(grammar(arpa(ones, "-1 a b\n-1 b a\n")), "");
  EXPECT_HAS(grammar(arpa(ones, "-1 a b\n-2 a b\n")), "twice.arpa:12: the n-gram is there twice");
  EXPECT_HAS(grammar(arpa("-1 a -1\n-2 a -1\n-1 </s>\n", "-1 a </s>\n-1 a a\n")),
             "twice.arpa:7: the n-gram is there twice");
  // These n-grams are of words that the lexicon lacks, and of symbols.
  const auto words = arpa("-1 c\n-1 <s>\n-1 <s>\n", "-1 c c\n-1 c <s>\n");
  EXPECT_HAS(test::user_error([&] { arpa_words(words); }),
             "twice.arpa:8: the n-gram is there twice");
}

TEST(WfstGrammar, NeedsAnEndOfTheText) {
  const auto grammar = [](const char* end) {
    const auto path = write_file("end.arpa", fmt::format("\\data\\\nngram 1=2\n\n\\1-grams:\n-1 a\n"
                                                         "{}\n\n\\end\\\n",
                                                         end));
    int64_t dropped = 0;
    return test::user_error([&] {
      grammar_transducer(
          path, [](auto) { return 1; }, 2, &dropped);
    });
  };
  EXPECT_EQ(grammar("-1 </s>"), "");
  EXPECT_HAS(grammar("-99 <s>"), "end.arpa: has no </s> of a probability above 0");
  EXPECT_HAS(grammar("-inf </s>"), "end.arpa: has no </s> of a probability above 0");
}

TEST(WfstGrammar, IsNoPipe) {
  const auto pipe = test::own_path("arpa");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string message = test::user_error([&] { arpa_words(pipe); });
  std::filesystem::remove(pipe);
  EXPECT_HAS(message, "is a pipe or device, and it must be read twice");
}

TEST(WfstLexicon, FilesAreUtf8) {
  const auto letters = character_tokenizer({"a", "b"});
  int64_t dropped = 0;
  const auto lexicon = write_file("latin1.lexicon", "ab a b\ncaf\xe9 a b\n");
  const std::string problem = ":2: is not UTF-8: byte 4 is 0xe9; save it as UTF-8";
  EXPECT_HAS(test::user_error([&] { read_lexicon(lexicon, *letters, {"ab"}, false, &dropped); }),
             "latin1.lexicon" + problem);
  const auto arpa = write_file("latin1.arpa", "\\data\\\nngram 1=1\n\\1-grams:\n-1 caf\xe9\n");
  EXPECT_HAS(test::user_error([&] { arpa_words(arpa); }),
             "latin1.arpa:4: is not UTF-8: byte 7 is 0xe9");
}

TEST(WfstLexicon, LeavesUnknownOutWhereTheTokenizerHasNoPieceForIt) {
  const auto path = write_file("letters.lexicon", "ab\ta b\n");
  const std::vector<std::string> wanted = {"<unk>", "ab"};
  int64_t dropped = 0;
  const auto letters = character_tokenizer({"a", "b"});
  const Lexicon lexicon = read_lexicon(path, *letters, wanted, false, &dropped);
  EXPECT_EQ(lexicon, (Lexicon{{"ab", {{0, 1}}}}));
  EXPECT_EQ(dropped, 0);
}

/// Returns -ln P of a sentence of tests/data/words.arpa. The values (log10) were looked up by hand.
double sentence_cost(const Words& sentence) {
  static const std::map<Words, double> log10 = {
      // The words are <unk> 1, a 2, ab 3, aback 4 and abaft 5.
      {{}, -0.30103 - 0.9},            // </s> after back-off from <s>
      {{2}, -0.3 - 0.25 - 0.4 - 0.9},  // <s> a, back-off twice, </s>
      {{3}, -0.30103 - 1.1 - 0.5},     // back-off, ab, ab </s>
      {{2, 3}, -0.3 - 0.1 - 0.2},      // three tri-grams
      {{4}, -0.6 - 0.1 - 0.9},         // <s> aback, back-off, </s>
      {{5}, -0.30103 - 1.5 - 0.9},    {{1}, -0.30103 - 2.0 - 0.9},
  };
  return -log10.at(sentence) * std::log(10.0);
}

TEST(WfstGrammar, HasAStateForEachHistoryThatGoesOn) {
  int64_t dropped = 0;
  const auto id = [](std::string_view word) {
    const std::vector<std::string_view> words = {"<unk>", "a", "ab", "aback", "abaft"};
    return static_cast<int32_t>(std::find(words.begin(), words.end(), word) - words.begin()) + 1;
  };
  const auto g = grammar_transducer(kArpa, id, 6, &dropped);
  EXPECT_EQ(dropped, 0);
  // The states are "", <s>, a, ab, aback, <s> a, and a ab. All of them but "" back off.
  EXPECT_EQ(g.states, 7);
  EXPECT_EQ(std::count_if(g.arcs.begin(), g.arcs.end(), [](const auto& a) { return a.input == 6; }),
            6);
  EXPECT_EQ(g.arcs.size(), 6 + 5 + 5 + 1);  // back-off, and words of 1-, 2-, 3-grams
  EXPECT_EQ(g.finals.size(), 3);            // after "", ab, a ab
  // No n-gram begins with "a abaft", so its arc leads to "" and holds both back-off weights.
  EXPECT_TRUE(std::any_of(g.arcs.begin(), g.arcs.end(), [&](const auto& a) {
    return a.input == id("abaft") && std::abs(a.cost - (0.9 + 0.35) * std::log(10.0)) < 1e-5;
  }));
}

TEST(WfstGraph, EverySentenceHasTheProbabilityOfTheLanguageModel) {
  const std::map<Words, Words> pieces = [] {
    int64_t dropped = 0;
    const Lexicon lexicon = read_lexicon(kLexicon, tokenizer(), arpa_words(kArpa), false, &dropped);
    std::map<Words, Words> spelled;
    int32_t id = 0;
    for (const auto& [word, spellings] : lexicon) spelled[{++id}] = spellings.front();
    spelled[{}] = {};
    spelled[{2, 3}] = spelled.at({2});
    for (const int32_t token : spelled.at({3})) spelled[{2, 3}].push_back(token);
    return spelled;
  }();
  for (const Topology topology : {Topology::normal, Topology::compact}) {
    const WfstGraph& graph = built(topology).graph;
    for (const Words& sentence : std::vector<Words>{{}, {1}, {2}, {3}, {2, 3}, {4}, {5}}) {
      for (const int64_t padding : {0, 2}) {
        // Each token has one frame and a blank behind it, and nothing else is possible.
        const int64_t columns = graph.view().columns;
        std::vector<int32_t> labels(static_cast<size_t>(padding), columns - 1);
        for (const int32_t token : pieces.at(sentence)) {
          labels.push_back(token);
          labels.push_back(static_cast<int32_t>(columns) - 1);
        }
        std::vector<float> lp(labels.size() * static_cast<size_t>(columns),
                              -std::numeric_limits<float>::infinity());
        for (size_t t = 0; t < labels.size(); ++t)
          lp[t * static_cast<size_t>(columns) + static_cast<size_t>(labels[t])] = 0;
        ViterbiSearch search(graph.view(), 1e6f, 1 << 20);
        const WfstPath path = search.run(lp.data(), static_cast<int64_t>(labels.size()), columns);
        ASSERT_TRUE(path.reached_final);
        EXPECT_EQ(path.words, sentence);
        EXPECT_EQ(path.tokens, pieces.at(sentence));
        // Each arc's cost was rounded to a multiple of 2^-10.
        EXPECT_NEAR(path.cost, sentence_cost(sentence), 4e-3) << topology_name(topology);
      }
    }
  }
}

TEST(WfstGraph, ReportsWhatWasBuilt) {
  const BuiltGraph& b = built(Topology::compact);
  EXPECT_EQ(b.words, 5);
  EXPECT_EQ(b.unwanted_words, 1);  // the lexicon's "unspoken"
  EXPECT_EQ(b.graph.words(), 5);
  EXPECT_EQ(b.graph.word(4), "aback");
  EXPECT_EQ(b.graph.topology(), "compact");
  EXPECT_EQ(b.graph.tokenizer(), tokenizer_checksum(tokenizer()));
  ASSERT_EQ(b.stages.size(), 6);
  EXPECT_EQ(b.stages.back().name, "TLG");
  EXPECT_EQ(b.stages.back().arcs, b.graph.view().arc_count);
  EXPECT_GT(b.stages.back().peak_bytes, 1 << 20);
}

TEST(WfstGraph, ComesBackFromItsFile) {
  const WfstGraph& graph = built(Topology::compact).graph;
  const auto path = test::own_path("graph.tlg");
  graph.write(path);
  const WfstGraph mapped = WfstGraph::map(path);
  const GraphView &a = graph.view(), &b = mapped.view();
  EXPECT_EQ(mapped.bytes(), static_cast<int64_t>(std::filesystem::file_size(path)));
  EXPECT_EQ(std::tuple(a.states, a.start, a.columns, a.emitting_arcs, a.arc_count),
            std::tuple(b.states, b.start, b.columns, b.emitting_arcs, b.arc_count));
  EXPECT_TRUE(std::equal(a.arcs, a.arcs + a.arc_count, b.arcs));
  EXPECT_TRUE(std::equal(a.final_cost, a.final_cost + a.states, b.final_cost));
  EXPECT_EQ(mapped.word(5), "abaft");
}

TEST(WfstGraph, RefusesADamagedFile) {
  const auto path = test::own_path("damaged.tlg");
  const auto damage = [&](size_t at, char value) {
    built(Topology::compact).graph.write(path);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(value);
    file.close();
    return test::user_error([&] { WfstGraph::map(path); });
  };
  EXPECT_NE(damage(0, 'x').find("no decoding graph"), std::string::npos);
  EXPECT_NE(damage(8, 9).find("version 9"), std::string::npos);
  EXPECT_NE(damage(12, 1).find("size"), std::string::npos);
  EXPECT_NE(damage(1000, '!').find("checksum"), std::string::npos);
  std::filesystem::resize_file(path, 100);
  EXPECT_HAS(test::user_error([&] { WfstGraph::map(path); }), "no decoding graph");
  EXPECT_HAS(test::user_error([&] { WfstGraph::map(path.string() + "?"); }), "no such file");
}

TEST(WfstGraph, RefusesWhatASearchCouldNotStand) {
  const auto error = [](const TransducerArcs& t) {
    return test::user_error(
        [&] { WfstGraph::from(t, 2, {"w"}, "none", std::string(64, '0'), "here"); });
  };
  TransducerArcs t;
  t.states = 3;
  t.finals = {{2, 0.0f}};
  t.add(0, 1, 1, 1);
  t.add(1, 2, 0, 0);
  EXPECT_EQ(error(t), "");
  EXPECT_NE(error({}).find("no start state"), std::string::npos);
  const auto with = [&](int32_t from, int32_t to, int32_t input, int32_t output, float cost) {
    TransducerArcs more = t;
    more.add(from, to, input, output, cost);
    return error(more);
  };
  EXPECT_NE(with(2, 1, 0, 0, 0).find("cycle"), std::string::npos);
  EXPECT_NE(with(1, 2, 4, 0, 0).find("label"), std::string::npos);
  EXPECT_NE(with(1, 2, 1, 2, 0).find("word"), std::string::npos);
  EXPECT_NE(with(1, 2, 1, 0, std::nanf("")).find("finite"), std::string::npos);
}

TEST(WfstGraph, WordsOfTheSameTextAreOneBoostedWord) {
  TransducerArcs t;
  t.states = 2;
  t.finals = {{1, 0.0f}};
  t.add(0, 1, 1, 1);
  t.add(0, 1, 2, 2);
  const auto graph = WfstGraph::from(t, 2, {"w", "w"}, "none", std::string(64, '0'), "here");
  int64_t unknown = 0;
  EXPECT_EQ(word_costs(graph, {{"w", 2}, {"v", 1}}, &unknown), (std::vector<float>{0, -2, -2}));
  EXPECT_EQ(unknown, 1);
}

TEST(WfstGraph, ALanguageModelWithoutTheLexiconsWordsIsAnError) {
  const auto arpa =
      write_file("other.arpa", "\\data\\\nngram 1=2\n\n\\1-grams:\n-1 zebra\n-1 </s>\n\n\\end\\\n");
  const auto message = test::user_error([&] {
    build_graph(tokenizer(), {kLexicon, arpa, Topology::compact});
  });
  EXPECT_NE(message.find("none of its words"), std::string::npos) << message;
  const auto none =
      write_file("none.arpa", "\\data\\\nngram 1=1\n\n\\1-grams:\n-1 </s>\n\n\\end\\\n");
  EXPECT_HAS(test::user_error([&] { arpa_words(none); }), "no words");
}

}  // namespace
}  // namespace rtfx
