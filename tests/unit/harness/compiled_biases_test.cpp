// Tests the biases that utterances of a dataset ask for.
#include "harness/run/compiled_biases.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "harness/scoring/normalize.h"
#include "tests/support/boost_cases.h"
#include "tests/support/small_model.h"

namespace rtfx {
namespace {

TEST(CompiledBiases, UtterancesThatAskForTheSameShareIt) {
  const auto decoder = make_decoder("label_looping", {{"boost", {{"phrases", {"ab"}}}}}, "");
  decoder->prepare(test::with_letters(test::random_model(test::small_config(), 1)), {});
  std::vector<Utterance> utterances(4);
  for (const size_t i : {1, 3}) utterances[i].boost = {{"cd", 2, "test"}};
  const CompiledBiases all = compile_biases(*decoder, utterances, find_normalizer("none", "test"));
  ASSERT_EQ(all.boosted.size(), 4U);
  EXPECT_EQ(all.biases[0], nullptr);
  ASSERT_NE(all.biases[1], nullptr);
  EXPECT_EQ(all.biases[1], all.biases[3]);
  EXPECT_EQ(all.boosted[0], all.boosted[2]);
  EXPECT_EQ(all.boosted[1], all.boosted[3]);
  EXPECT_EQ(all.boosted[0]->words, std::set<std::string>{"ab"});
  EXPECT_EQ(all.boosted[1]->words, (std::set<std::string>{"ab", "cd"}));
}

}  // namespace
}  // namespace rtfx
