// Graphs of OpenFst 1.7.9 (tests/data/README.md), and what is wrong with others.
#include <gtest/gtest.h>

#include <tuple>

#include "algorithms/shared/wfst/graph.h"
#include "algorithms/shared/wfst/graph_builder.h"
#include "models/tokenizers/nemo_tokenizers.h"
#include "tests/mutations/mutator.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using test::user_error;

class OpenFstFile : public test::TempFolder {
 protected:
  /// The complaint about tests/data/<name> with `bytes` at `at`.
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

TEST_F(OpenFstFile, AWordTableOfOneLineDoesNotFillTheMemory) {
  const auto tokenizer = character_tokenizer({"a", "b"});
  const auto import = [&](const std::string& words) {
    return user_error(
        [&] { import_graph(*tokenizer, "tests/data/vector.fst", write("words.txt", words)); });
  };
  EXPECT_EQ(import("<eps> 0\nA 1\nAB 2\n"), "(no UserError)");
  EXPECT_HAS(import("A 200000000\n"), "words.txt:1: 'A 200000000' is no word and its id");
  EXPECT_HAS(import("A 1\n"), "an arc to a state or of a word that is not there");
}

}  // namespace
}  // namespace rtfx
