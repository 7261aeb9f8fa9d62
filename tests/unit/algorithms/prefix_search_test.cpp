#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "algorithms/decoders/wfst/ctc_lexicon_cpu/ctc_lexicon_cpu.h"
#include "algorithms/decoders/wfst/ctc_wfst_cpu/ctc_wfst_cpu.h"
#include "algorithms/shared/wfst/grammar.h"
#include "algorithms/shared/wfst/graph_builder.h"
#include "models/load_checkpoint.h"
#include "tests/support/beam_cases.h"
#include "tests/support/wfst_cases.h"

namespace rtfx {
namespace {

using test::Words;

constexpr PrefixSearchLimits kWide = {1e6f, 1 << 20, 1 << 20};

struct SmallLexicon {
  const char* lexicon_file = "tests/data/words.lexicon";
  const char* arpa = "tests/data/words.arpa";
  std::shared_ptr<const Tokenizer> tokenizer =
      load_checkpoint("models/quickstart/quickstart-rnnt.nemo").tokenizer;
  int64_t dropped = 0;
  Lexicon lexicon = read_lexicon(lexicon_file, *tokenizer, arpa_words(arpa), false, &dropped);
  int32_t backoff = static_cast<int32_t>(lexicon.size()) + 1;
  WordLm lm{grammar_transducer(arpa, word_labels(lexicon), backoff, &dropped), backoff};
  LexiconTree tree{lexicon, lm};
};

const SmallLexicon& small() {
  static const SmallLexicon lexicon;
  return lexicon;
}

TEST(WordLm, TheLongestHistoryThatHasTheWordDecides) {
  // The words are <unk> 1, a 2, ab 3, aback 4 and abaft 5.
  const WordLm& lm = small().lm;
  const auto log10 = [](float cost) { return -cost / std::log(10.0f); };
  const auto a = lm.next(lm.start(), 2);
  EXPECT_NEAR(log10(a->cost), -0.3, 1e-5);
  EXPECT_NEAR(log10(lm.next(a->state, 3)->cost), -0.1, 1e-5);                // <s> a ab
  EXPECT_NEAR(log10(lm.next(a->state, 5)->cost), -0.25 - 0.9 - 0.35, 1e-5);  // a abaft, and to ""
  EXPECT_NEAR(log10(lm.next(a->state, 4)->cost), -0.25 - 0.4 - 1.3, 1e-5);   // aback
  EXPECT_NEAR(log10(lm.final_cost(lm.start())), -0.30103 - 0.9, 1e-5);
  EXPECT_FALSE(lm.next(lm.start(), 6));
}

TEST(PrefixSearch, FindsTheBestPathOfTheGraph) {
  const BuiltGraph graph =
      build_graph(*small().tokenizer, {small().lexicon_file, small().arpa, Topology::normal});
  const GraphView& view = graph.graph.view();
  std::vector<int32_t> used = {view.columns - 1};
  for (const auto& [word, spellings] : small().lexicon)
    for (const auto& spelling : spellings)
      used.insert(used.end(), spelling.begin(), spelling.end());
  ViterbiSearch viterbi(view, 1e6f, 1 << 20);
  PrefixSearch search(small().tree, small().lm, kWide);
  std::mt19937 random(1);
  std::uniform_real_distribution<float> cost(0, 6);
  size_t words = 0;
  for (const int64_t frames : {0, 1, 2, 5, 9, 14}) {
    for (int i = 0; i < 5; ++i) {
      std::vector<float> lp(static_cast<size_t>(frames * view.columns), -30.0f);
      for (int64_t t = 0; t < frames; ++t)
        for (const int32_t column : used)
          lp[static_cast<size_t>(t * view.columns + column)] = -cost(random);
      const WfstPath expected = viterbi.run(lp.data(), frames, view.columns);
      const WfstPath found = search.run(lp.data(), frames, view.columns);
      ASSERT_TRUE(found.reached_final);
      // Costs of the graph's arcs were rounded to multiples of 2^-10.
      EXPECT_NEAR(found.cost, expected.cost, 2e-3 * static_cast<double>(1 + frames));
      EXPECT_EQ(found.words, expected.words);
      EXPECT_EQ(found.tokens, expected.tokens);
      words += found.words.size();
    }
  }
  EXPECT_GT(words, 30u);
}

TEST(PrefixSearch, RepeatsTheLastTokenOfAWord) {
  // Word 2, "a", lasts three frames. The search must find it once, not three times.
  const int32_t columns = 1025, piece = small().lexicon.at("a").front().front();
  std::vector<float> lp(3 * columns, -20.0f);
  for (int t = 0; t < 3; ++t) lp[static_cast<size_t>(t * columns + piece)] = 0;
  PrefixSearch search(small().tree, small().lm, {});
  const WfstPath path = search.run(lp.data(), 3, columns);
  EXPECT_EQ(path.words, Words({2}));
  EXPECT_EQ(path.tokens, Words({piece}));
  EXPECT_EQ(path.token_frames, Words({0}));
}

TEST(CtcLexiconCpu, RowsThatEndWithinAWordAreCountedAndReturned) {
  const auto model = std::const_pointer_cast<AcousticModel>(test::identity_model(1024));
  model->tokenizer = small().tokenizer;
  CtcLexiconCpuOptions options;
  options.lexicon = small().lexicon_file;
  options.lm = small().arpa;
  CtcLexiconCpu decoder(options);
  decoder.prepare(model, {});
  const std::vector<int32_t>& abaft = small().lexicon.at("abaft").front();
  ASSERT_EQ(abaft.size(), 3U);
  const auto decode = [&](const std::vector<std::vector<int32_t>>& rows) {
    const auto count = static_cast<int64_t>(rows.size());
    EncodedBatch batch;
    batch.frames = at::zeros({count, 3, 1025});
    for (int64_t b = 0; b < count; ++b) {
      const auto& row = rows[static_cast<size_t>(b)];
      batch.lengths_host.push_back(std::ssize(row));
      for (int64_t t = 0; t < std::ssize(row); ++t)
        batch.frames[b][t][row[static_cast<size_t>(t)]] = 30;
    }
    batch.lengths = at::tensor(batch.lengths_host, at::kLong);
    if (count > 2) batch.frames[2][1].fill_(std::nan(""));
    return decoder.decode(batch).to_host();
  };
  const std::vector<int32_t> part(abaft.begin(), abaft.end() - 1);
  const auto found = decode({abaft, part, part, {}});
  EXPECT_EQ(found[0].tokens, abaft);
  EXPECT_EQ(found[1].tokens, part);
  EXPECT_TRUE(found[1].words->empty());
  EXPECT_TRUE(found[2].nan);
  EXPECT_EQ(decoder.counters().at("not_final"), 1);
  decode({abaft});
  EXPECT_EQ(decoder.counters().at("not_final"), 0) << "the count is that of the last batch";
}

TEST(PrefixSearch, ImpossibleFramesEndTheSearch) {
  std::vector<float> lp(2 * 1025, -1.0f);
  std::fill(lp.begin() + 1025, lp.end(), std::nanf(""));
  PrefixSearch search(small().tree, small().lm, {});
  EXPECT_FALSE(search.run(lp.data(), 2, 1025).alive);
  EXPECT_TRUE(search.run(lp.data(), 1, 1025).alive);
}

}  // namespace
}  // namespace rtfx
