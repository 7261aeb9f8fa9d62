// Tests of damaged decoding graphs and of their damaged sources. Each graph that can still be read
// is searched.
#include <cmath>
#include <cstring>

#include "algorithms/decoders/wfst/ctc_wfst_cpu/ctc_wfst_cpu.h"
#include "algorithms/shared/wfst/graph_builder.h"
#include "algorithms/shared/wfst/import_graph.h"
#include "algorithms/shared/wfst/wfst_options.h"
#include "base/sha256.h"
#include "models/tokenizers/nemo_tokenizers.h"
#include "tests/mutations/mutate.h"
#include "tests/support/wfst_cases.h"

namespace rtfx {
namespace {

const Tokenizer& tokenizer() {
  static const auto made = character_tokenizer({"a", "b", "c", "▁"});
  return *made;
}

constexpr const char* kLexicon = "one\ta b\ntwo\tb\nthree\ta c b\nfour\tc ▁ c\n";

void search(const WfstGraph& graph) {
  const GraphView& view = graph.view();
  if (view.columns > 64) return;  // prepare() refuses it: no model has so many
  const std::vector<float> lp(static_cast<size_t>(20 * view.columns), -1.5F);
  ViterbiSearch search(view, 8, 100);
  const WfstPath path = search.run(lp.data(), 20, view.columns);
  for (const int32_t word : path.words) graph.word(word);
  word_costs(graph, {{"one", 2.0F}});
}

std::string tlg() {
  const auto path = std::filesystem::path(::testing::TempDir()) / fmt::format("g{}", ::getpid());
  test::two_token_graph(Topology::compact).write(path);
  const std::string bytes = file_bytes(path);
  std::filesystem::remove(path);
  return bytes;
}

/// The checksum fits the damaged body, so that only checks of the values can refuse it.
TEST(GraphMutation, WithItsChecksumIsReadOrRefused) {
  constexpr size_t kChecksum = 144, kBody = 208;
  const auto use = [](const std::string& bytes) {
    const MemoryFile file(bytes);
    search(WfstGraph::map(file.path()));
  };
  EXPECT_GT(mutate(tlg(), {{0, kBody}}, 2'000, use).refused, scaled(1000));
  const Counts counts = mutate(tlg(), {{8, 56}}, 20'000, use, [](std::string& bytes) {
    if (bytes.size() < kBody) return;
    const std::string checksum = sha256(std::string_view(bytes).substr(kBody));
    std::memcpy(bytes.data() + kChecksum, checksum.data(), kBody - kChecksum);
  });
  EXPECT_GT(counts.read, scaled(300));
  EXPECT_GT(counts.refused, scaled(1000));
}

class OpenFstMutation : public ::testing::TestWithParam<const char*> {};

TEST_P(OpenFstMutation, IsReadOrRefused) {
  const auto two = character_tokenizer({"a", "b"});
  const MemoryFile words("<eps> 0\nA 1\nAB 2\n");
  const Counts counts = mutate(file_bytes(std::string("tests/data/") + GetParam() + ".fst"), {},
                               4'000, [&](const std::string& bytes) {
                                 const MemoryFile file(bytes);
                                 search(import_graph(*two, file.path(), words.path()));
                               });
  EXPECT_GT(counts.read, scaled(100));
  EXPECT_GT(counts.refused, scaled(1000));
}

INSTANTIATE_TEST_SUITE_P(Files, OpenFstMutation, ::testing::Values("vector", "const", "aligned"),
                         [](const auto& info) { return info.param; });

TEST(OpenFstMutation, AWordTableIsReadOrRefused) {
  const auto two = character_tokenizer({"a", "b"});
  mutate("<eps>\t0\nA\t1\nAB\t2\n", {}, 2'000, [&](const std::string& bytes) {
    const MemoryFile words(bytes);
    import_graph(*two, "tests/data/vector.fst", words.path());
  });
}

/// Returns a language model over the words of the lexicon.
std::string arpa() {
  return "\\data\\\nngram 1=6\nngram 2=5\nngram 3=2\n\n\\1-grams:\n-99\t<s>\t-0.3\n-0.9\t</s>\n"
         "-0.8\tone\t-0.4\n-1.1\ttwo\t-0.2\n-1.3\tthree\t-0.1\n-1.5\tfour\n\n\\2-grams:\n"
         "-0.3\t<s> one\t-0.25\n-0.6\t<s> three\n-0.4\tone two\t-0.15\n-0.9\tone four\t-0.35\n"
         "-0.5\ttwo </s>\n\n\\3-grams:\n-0.1\t<s> one two\n-0.2\tone two </s>\n\n\\end\\\n";
}

TEST(LexiconMutation, IsReadOrRefused) {
  const MemoryFile lm(arpa());
  for (const bool drop_unspelled : {false, true}) {
    const Counts counts = mutate(kLexicon, {}, 2'500, [&](const std::string& bytes) {
      const MemoryFile lexicon(bytes);
      search(
          build_graph(tokenizer(), {lexicon.path(), lm.path(), Topology::compact, drop_unspelled})
              .graph);
    });
    EXPECT_GT(counts.read, scaled(500));
    EXPECT_GT(counts.refused, drop_unspelled ? 0 : scaled(100));
  }
}

TEST(WordLmMutation, IsReadOrRefused) {
  const MemoryFile lexicon(kLexicon);
  const Counts counts = mutate(arpa(), {}, 2'000, [&](const std::string& bytes) {
    const MemoryFile lm(bytes);
    search(build_graph(tokenizer(), {lexicon.path(), lm.path()}).graph);
  });
  EXPECT_GT(counts.read, scaled(100));
  EXPECT_GT(counts.refused, scaled(1000));
}

TEST(BoostsMutation, IsReadOrRefused) {
  const Counts counts =
      mutate("one 4.5\ntwo\t-1e3\n\n  three 0.25\n", {}, 5'000, [](const std::string& bytes) {
        const MemoryFile file(bytes);
        for (const auto& [word, boost] : read_word_boosts(file.path()))
          ASSERT_TRUE(std::isfinite(boost));
      });
  EXPECT_GT(counts.read, scaled(1000));
  EXPECT_GT(counts.refused, scaled(1000));
}

}  // namespace
}  // namespace rtfx
