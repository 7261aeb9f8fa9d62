// Tests graphs of OpenFst 1.7.9 (tests/data/README.md), and the complaints about damaged ones.
#include <gtest/gtest.h>

#include <tuple>

#include "algorithms/shared/wfst/graph.h"
#include "algorithms/shared/wfst/import_graph.h"
#include "models/tokenizers/nemo_tokenizers.h"
#include "tests/mutations/mutator.h"
#include "tests/support/gzip.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using test::user_error;

std::vector<GraphArc> graph_arcs(const WfstGraph& graph) {
  const GraphView& view = graph.view();
  return {view.arcs, view.arcs + view.arc_count};
}

class OpenFstFile : public test::TempFolder {
 protected:
  /// Returns the complaint about tests/data/<name> in which `bytes` stand at `at`.
  std::string after(const std::string& name, size_t at, const std::string& bytes) const {
    std::string changed = file_bytes("tests/data/" + name);
    changed.replace(at, bytes.size(), bytes);
    return complaint(changed);
  }

  std::string complaint(const std::string& bytes) const {
    return user_error([&] { read_openfst(write("changed.fst", bytes)); });
  }
};

TEST_F(OpenFstFile, AllFormsAreTheSameGraph) {
  for (const char* name : {"vector", "const", "aligned"}) {
    const TransducerArcs graph = read_openfst("tests/data/" + std::string(name) + ".fst");
    EXPECT_EQ(graph.states, 3);
    EXPECT_EQ(graph.start, 0);
    EXPECT_EQ(graph.finals, (std::vector<std::pair<int32_t, float>>{{1, 0.25F}, {2, 0.0F}}));
    const std::vector<std::tuple<int, int, int, int, float>> expected = {
        {0, 1, 1, 1, 0.5F},  {0, 0, 3, 0, 0},     {0, 2, 0, 0, 1.5F},
        {1, 1, 1, 0, 0.25F}, {1, 2, 2, 2, 0.75F}, {2, 2, 3, 0, 0}};
    ASSERT_EQ(graph.arcs.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const auto& arc = graph.arcs[i];
      EXPECT_EQ(std::tuple(arc.from, arc.to, arc.input, arc.output, arc.cost), expected[i]) << name;
    }
  }
}

TEST_F(OpenFstFile, OtherFilesAreRefused) {
  const std::string whole = file_bytes("tests/data/vector.fst");
  EXPECT_HAS(complaint("no graph"), "is no file of OpenFst");
  EXPECT_HAS(complaint(whole.substr(0, 40)), "ends too early");
  EXPECT_HAS(complaint(whole.substr(0, whole.size() - 1)), "size that its header says");
  EXPECT_HAS(after("vector.fst", 8, "Vector"), "is of type 'Vector'");
  EXPECT_HAS(after("vector.fst", 18, "log     "), "has arcs of type 'log     '");
  EXPECT_HAS(after("vector.fst", 42, "\3"), "starts out of bounds");
  EXPECT_HAS(after("vector.fst", 50, std::string(8, '\x7f')), "size that its header says");
  EXPECT_HAS(after("vector.fst", 78, std::string("\xff\xff\xff\xff", 4)), "negative label");
  EXPECT_HAS(after("vector.fst", 90, "\3"), "has an arc to a state that is not there");
  EXPECT_HAS(after("const.fst", 0x41, "x"), "table of symbols");
}

TEST_F(OpenFstFile, BlankMustBeTheLastLabelUnlessItIsSaidToBeTheFirst) {
  const auto tokenizer = character_tokenizer({"a", "b"});
  const auto words = write("words.txt", "<eps> 0\nA 1\nAB 2\n");
  // This is the graph of vector.fst, with blank as label 1.
  const std::string last =
      "0 1 1 1 0.5\n0 0 3 0\n0 2 0 0 1.5\n1 1 1 0 0.25\n1 2 2 2 0.75\n"
      "2 2 3 0\n1 0.25\n2\n";
  const std::string first =
      "0 1 2 1 0.5\n0 0 1 0\n0 2 0 0 1.5\n1 1 2 0 0.25\n1 2 3 2 0.75\n"
      "2 2 1 0\n1 0.25\n2\n";
  const auto import = [&](const std::string& text, std::optional<BlankLabel> blank = {}) {
    return import_graph(*tokenizer, write("g.txt", text), words, blank);
  };
  const auto expected = graph_arcs(import_graph(*tokenizer, "tests/data/vector.fst", words));
  EXPECT_EQ(graph_arcs(import(last)), expected);
  EXPECT_EQ(graph_arcs(import(last, BlankLabel::last)), expected);
  EXPECT_EQ(graph_arcs(import(first, BlankLabel::first)), expected);
  EXPECT_HAS(user_error([&] { import(first); }), "give --blank first");
  EXPECT_HAS(user_error([&] { import("0 1 1 1\n1\n"); }), "should be blank for the 2 tokens");
  EXPECT_EQ(import("0 1 1 1\n1\n", BlankLabel::last).view().arc_count, 1);
  // The label behind the tokens and blank must not become blank.
  for (const BlankLabel blank : {BlankLabel::last, BlankLabel::first}) {
    EXPECT_EQ(import("0 1 3 1\n1\n", blank).view().arc_count, 1);
    EXPECT_HAS(
        user_error([&] { import("0 1 4 1\n1\n", blank); }),
        "g.txt: has the label 4, which is none of the 2 tokens, nor blank; give the tokenizer");
  }
  EXPECT_HAS(user_error([&] { import("0 1 3 1\n1\n", BlankLabel::none); }),
             "g.txt: has the label 3, which is none of the 2 tokens; leave out --blank none");
}

TEST_F(OpenFstFile, AnLgOfK2HasLabelZeroForNone) {
  const auto tokenizer = character_tokenizer({"a", "b"});
  const auto words = write("words.txt", "<eps> 0\nA 1\nB 2\n");
  const auto import = [&](const std::string& text) {
    return import_graph(*tokenizer, write("lg.txt", text), words, BlankLabel::none);
  };
  const WfstGraph att = import("0 1 1 1 0.75\n1 0 0 0\n0 0 2 2 0.5\n0 0.25\n");
  const WfstGraph k2 = import("0 1 1 1 -0.75\n1 0 0 0 0\n0 0 2 2 -0.5\n0 2 -1 -1 -0.25\n2\n");
  EXPECT_EQ(graph_arcs(k2), graph_arcs(att));
  EXPECT_EQ(k2.view().final_cost[0], 0.25F);
}

TEST_F(OpenFstFile, MayBeTextOrGzip) {
  const auto arcs_of = [](const TransducerArcs& graph) {
    std::vector<std::tuple<int, int, int, int, float>> arcs;
    for (const auto& a : graph.arcs) arcs.emplace_back(a.from, a.to, a.input, a.output, a.cost);
    return arcs;
  };
  const TransducerArcs whole = read_openfst("tests/data/vector.fst");
  const std::string text =
      "0\t1\t1\t1\t0.5\n0\t0\t3\t0\n0 2 0 0 1.5\n1 1 1 0 0.25\r\n"
      "1 2 2 2 0.75\n2 2 3 0\n1 0.25\n2\n0 Infinity\n";
  const auto packed = test::gzip(file_bytes("tests/data/vector.fst"));
  for (const auto& path : {write("g.txt", text), write("g.txt.gz", test::gzip(text)),
                           write("bom.txt", "\xEF\xBB\xBF" + text), write("g.fst.gz", packed)}) {
    const TransducerArcs graph = read_openfst(path);
    EXPECT_EQ(graph.states, 3) << path;
    EXPECT_EQ(graph.start, 0);
    EXPECT_EQ(graph.finals, whole.finals);
    EXPECT_EQ(arcs_of(graph), arcs_of(whole)) << path;
  }
  // In graphs of k2, label 0 is blank, tokens are 1 and 2, and -1 leads to the end.
  const TransducerArcs k2 = read_openfst(
      write("k2.txt", "0 0 0 0 0\n0 1 1 1 -0.5\n1 2 2 2 -0.75\n1 3 -1 -1 -0.25\n2 3 -1 -1 0\n3\n"));
  EXPECT_EQ(arcs_of(k2),
            (decltype(arcs_of(k2)){{0, 0, 1, 0, -0.0F}, {0, 1, 2, 1, 0.5F}, {1, 2, 3, 2, 0.75F}}));
  EXPECT_EQ(k2.finals, (std::vector<std::pair<int32_t, float>>{{1, 0.25F}, {2, -0.0F}}));
}

TEST_F(OpenFstFile, TextThatIsNoneNamesItsLine) {
  const auto error = [&](const std::string& text) { return complaint(text); };
  EXPECT_HAS(error("0 1 1 1\n0 1 x 1\n"), "changed.fst:2: has 'x' where a label should stand");
  EXPECT_HAS(error("0 1 5\n"), "changed.fst:1: is an arc without an output label");
  EXPECT_HAS(error("0 1 5 0.5\n"), "changed.fst:1: is an arc without an output label");
  EXPECT_HAS(error("0 1 1 1 0.5 7\n"), "more than five columns");
  EXPECT_HAS(error("0 2000000000 1 1\n"), "has states without arcs");
  EXPECT_HAS(error("0 1 -2 1\n"), "has a negative label");
  EXPECT_HAS(error("0 1 1 -1\n"), "has a negative label");
  EXPECT_HAS(error("0 1 2147483647 1\n1 2 -1 -1\n2\n"), "has a label out of bounds");
  EXPECT_HAS(error("0\n"), "has no arc");
}

TEST_F(OpenFstFile, AWordTableOfOneLineDoesNotFillTheMemory) {
  const auto tokenizer = character_tokenizer({"a", "b"});
  const auto import = [&](const std::string& words) {
    return user_error(
        [&] { import_graph(*tokenizer, "tests/data/vector.fst", write("words.txt", words)); });
  };
  EXPECT_EQ(import("<eps> 0\nA 1\nAB 2\n"), "");
  EXPECT_EQ(import("<eps> 0\n\nA 1\nAB 2\n \n"), "");  // empty lines say nothing
  EXPECT_HAS(import("A 200000000\n"), "words.txt:1: 'A 200000000' is no word and its id");
  EXPECT_HAS(import("A 1\n"), "words.txt: has no word with the id 2, which the graph has");
  EXPECT_HAS(import("A 2\n"), "words.txt: has no word with the id 1, which the graph has");
  EXPECT_HAS(import("<eps> 1\nAB 2\n"),
             "words.txt:1: '<eps>' is no word: it is the name of the empty label");
  EXPECT_HAS(import("<eps> 0\n#0 1\nAB 2\n"),
             "words.txt:2: '#0' is no word: it is the name of a disambiguation symbol");
  EXPECT_EQ(import("<eps> 0\nA 1\nAB 2\n#0 3\n#1 4\n"), "");
  EXPECT_HAS(import("<eps> 0\nA 1\n\xff 2\n"), "words.txt:3: is not UTF-8: byte 1 is 0xff");
  EXPECT_HAS(import("A 1\nAB 2\nB 2\n"), "words.txt:3: 'B' has the id 2, which 'AB' has already");
  EXPECT_HAS(import("New York 1\nAB 2\n"), "words.txt:1: 'New York 1' is no word and its id");
}

}  // namespace
}  // namespace rtfx
