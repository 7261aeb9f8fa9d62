// Tests the scores and states of a language model that the fused greedy kernels keep for each row,
// computed by threads of the CPU. They equal the model's own along random texts, with and without
// what biasing adds.
#include "algorithms/decoders/greedy/fused_looping/row_lm_view.h"

#include <gtest/gtest.h>

#include <atomic>

#include "algorithms/shared/ngram_lm/load_ngram_lm.h"
#include "models/checkpoint/tensor_data.h"
#include "tests/support/greedy_lm_cases.h"
#include "tests/support/threaded_block.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using namespace test;
using fused::kNever;
using fused::RowLmView;

class Row {
 public:
  Row(int64_t vocabulary, float alpha, const float* added)
      : bonus_(vocabulary, 7.0f), next_(vocabulary, 7), added_(added), alpha_(alpha) {}

  RowLmView view() { return {bonus_.data(), next_.data(), added_, alpha_}; }

  /// Brings the row into the state that find_state() gives, and returns this state.
  template <class FindState>
  int32_t change(const NgramLm& lm, const FindState& find_state) {
    const at::Tensor shorter = lm.shorter_contexts();
    const fused::LmContextTable table{data_of<int32_t>(shorter),
                                      static_cast<int32_t>(lm.order() - 1)};
    std::atomic<int32_t> state = -1;
    fused::LmContexts contexts;
    ThreadedBlock::Shared shared(3);
    std::vector<std::jthread> running;
    for (int32_t thread = 0; thread < 3; ++thread) {
      running.emplace_back([&, thread] {
        const ThreadedBlock block(shared, thread);
        const int32_t found = find_state();
        fused::find_contexts(block, lm.view(), table, found, contexts);
        fused::write_bonuses<2>(block, lm.view(), contexts, view());
        state = found;
      });
    }
    running.clear();
    return state;
  }

 private:
  std::vector<float> bonus_;
  std::vector<int32_t> next_;
  const float* added_;
  float alpha_;
};

class RowLm : public TempFolder {
 protected:
  /// Follows random texts. Returns the number of steps whose context had at least `long_context`
  /// tokens.
  int64_t follow(std::mt19937& random, const LmCase& given, int64_t vocabulary,
                 const std::vector<float>& added, int64_t texts, int32_t long_context = 2) {
    const NgramLm lm = load_ngram_lm(given.option["path"].get<std::string>(), vocabulary,
                                     {given.option["normalize_unk"].get<bool>()});
    const auto alpha = static_cast<float>(given.alpha);
    int64_t deep = 0;
    for (int64_t text = 0; text < texts && !HasFailure(); ++text) {
      Row row(vocabulary, alpha, added.empty() ? nullptr : added.data());
      at::Tensor states = lm.initial_states(1);
      const auto start = states.item<int32_t>();
      EXPECT_EQ(row.change(lm, [&] { return start; }), start);
      for (int step = 0; step < 12 && !HasFailure(); ++step) {
        const auto [scores, next] = lm.advance(states);
        for (int64_t k = 0; k < vocabulary; ++k) {
          const auto token = static_cast<size_t>(k);
          float expected = (scores[0][k] * given.alpha).item<float>();
          expected = std::max(expected, std::numeric_limits<float>::lowest());
          if (!added.empty()) expected += added[token];
          EXPECT_EQ(row.view().bonus[k], expected) << "token " << k << " step " << step;
          EXPECT_EQ(row.view().next[k], next[0][k].item<int32_t>()) << "token " << k;
        }
        deep += lm.arrays().context[states.item<int64_t>()].item<int32_t>() >= long_context;
        const auto token = static_cast<int32_t>(random() % std::min<int64_t>(vocabulary, 4));
        states = lm.next_states(states, at::full({1}, token, at::kLong));
        const int32_t state =
            row.change(lm, [&, before = row.view()] { return before.state_after(token); });
        EXPECT_EQ(state, states.item<int32_t>());
      }
    }
    return deep;
  }
};

TEST_F(RowLm, FollowsTheModel) {
  std::mt19937 random(31);
  int64_t deep = 0;
  for (int trial = 0; trial < 20 && !HasFailure(); ++trial) {
    const int64_t vocabulary = 1 + trial % 7;
    const LmCase lm = random_lm(random, vocabulary, path(std::to_string(trial) + ".arpa"));
    std::vector<float> added;
    for (int64_t k = 0; trial % 2 == 1 && k < vocabulary; ++k)
      added.push_back(random() % 4 == 0 ? kNever : 0.25f * static_cast<float>(random() % 9));
    deep += follow(random, lm, vocabulary, added, 6);
  }
  EXPECT_GT(deep, 200);
}

/// A state of the greatest order has as many contexts as the kernel has room for.
TEST_F(RowLm, FollowsTheLongestContexts) {
  std::mt19937 random(33);
  std::uniform_real_distribution<double> uniform(0, 1);
  const auto entry = [&] { return NgramTable::Entry{-3 * uniform(random), uniform(random) - 0.7}; };
  NgramTable table{kMaxLmOrder, 2, {}, {}};
  table.ngrams[{kStart}] = {0, -0.3};
  std::vector<NgramTable::Words> contexts = {{}};
  for (int n = 1; n <= kMaxLmOrder; ++n) {
    std::vector<NgramTable::Words> longer;
    for (NgramTable::Words words : contexts) {
      for (words.push_back(0); words.back() < 2; ++words.back()) {
        const bool possible = n == 1 || table.has({words.begin() + 1, words.end()});
        if (!possible || (n > 1 && uniform(random) < 0.05)) continue;
        table.ngrams[words] = n == kMaxLmOrder ? NgramTable::Entry{-uniform(random), 0} : entry();
        longer.push_back(words);
      }
    }
    contexts = longer;
  }
  const LmCase lm = written_lm(random, std::move(table), 0.5, path("long.arpa"));
  EXPECT_GT(follow(random, lm, 2, {}, 100, kMaxLmOrder - 1), 20);
}

TEST_F(RowLm, FollowsContextsOfManyTokens) {
  std::mt19937 random(32);
  const LmCase lm = wide_lm(random, 70, path("wide.arpa"));
  EXPECT_GT(follow(random, lm, 70, {}, 4), 20);
}

}  // namespace
}  // namespace rtfx
