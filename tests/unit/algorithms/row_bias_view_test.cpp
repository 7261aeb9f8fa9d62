// Tests the phrase scores and states that fused kernels keep for each row, which threads of the CPU
// compute here. They equal those of the tables along random texts, for one tree and several, with
// and without masks.
#include "algorithms/decoders/greedy/fused_looping/row_bias_view.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "algorithms/shared/biasing/device_bias.h"
#include "algorithms/shared/ngram_lm/ngram_lm.h"
#include "tests/support/boost_cases.h"
#include "tests/support/threaded_block.h"

namespace rtfx {
namespace {

using namespace test;
using fused::kNever;
using fused::RowBiasView;

class Row {
 public:
  explicit Row(int64_t vocabulary)
      : vocabulary_(static_cast<int32_t>(vocabulary)),
        floats_(2 * vocabulary, 7.0f),  // shows values that nobody sets
        ints_(2 * vocabulary + 2, 7) {}

  RowBiasView view() {
    return {floats_.data(),
            floats_.data() + vocabulary_,
            ints_.data(),
            ints_.data() + vocabulary_,
            ints_.data() + 2 * vocabulary_,
            true};
  }
  void start(const NgramView& trees, int32_t root, int32_t state, const bool* forbidden) {
    by_threads([&](const auto& block) {
      fused::start_row(block, trees, root, state, forbidden, vocabulary_, view());
    });
  }
  /// Moves on by `token`, and returns the new state.
  int32_t follow(const NgramView& trees, int32_t root, int32_t token) {
    std::atomic<int32_t> state = -1;
    by_threads([&](const auto& block) {
      const RowBiasView row = view();
      state = fused::change_state<2>(block, trees, root, vocabulary_, row,
                                     [&] { return row.state_after(token, root); });
    });
    return state;
  }

 private:
  template <class Work>
  static void by_threads(const Work& work) {
    ThreadedBlock::Shared shared(3);
    std::vector<std::jthread> running;
    for (int32_t thread = 0; thread < 3; ++thread)
      running.emplace_back([&, thread] { work(ThreadedBlock(shared, thread)); });
  }

  int32_t vocabulary_;
  std::vector<float> floats_;
  std::vector<int32_t> ints_;
};

std::shared_ptr<const CompiledBias> random_bias(std::mt19937& random, int64_t vocabulary) {
  auto bias = std::make_shared<CompiledBias>();
  const int kind = static_cast<int>(random() % 4);
  if (kind != 0) {
    const PlainBoost boost = random_boost(random, std::min<int64_t>(vocabulary, 6), 8, 5);
    std::vector<PhraseTokens> phrases;
    for (const auto& [tokens, weight] : boost.phrases) phrases.push_back({tokens, weight});
    bias->tree = make_phrase_tree(
        phrases, {boost.scaling, boost.unknown, boost.scale, /*nemo=*/random() % 2 == 0});
  }
  if (kind % 2 == 0) bias->forbidden = at::rand({vocabulary}).lt(0.3);
  return bias;
}

TEST(RowBiasView, FollowsTheTables) {
  std::mt19937 random(23);
  at::manual_seed(23);
  int64_t inside = 0;
  for (int trial = 0; trial < 40 && !HasFailure(); ++trial) {
    const int64_t vocabulary = std::vector<int64_t>{2, 7, 32, 33, 70}[random() % 5];
    std::vector<std::shared_ptr<const CompiledBias>> biases = {nullptr};
    for (int i = 0; i < 3; ++i) biases.push_back(random_bias(random, vocabulary));
    DeviceBiasTables tables(vocabulary, at::kCPU);
    tables.load(biases);
    const DeviceBias rows = tables.rows(static_cast<int64_t>(biases.size()));
    if (!rows.has_models()) continue;
    const NgramView trees = rows.models->view();
    for (int64_t b = 0; b < rows.roots.size(0); ++b) {
      const auto root = rows.roots[b].item<int32_t>();
      const bool* forbidden =
          rows.forbidden.defined() ? rows.forbidden[b].const_data_ptr<bool>() : nullptr;
      Row row(vocabulary);
      row.start(trees, root, root, forbidden);
      int32_t state = root;
      for (int step = 0; step < 25 && !HasFailure(); ++step) {
        for (int32_t token = 0; token < vocabulary; ++token) {
          const bool never = forbidden != nullptr && forbidden[token];
          const Transition expected = look_up(trees, state, token);
          EXPECT_EQ(row.view().added[token], never ? kNever : expected.score)
              << state << ' ' << token;
          if (root == 0 || never) continue;
          EXPECT_EQ(row.view().state_after(token, root), std::max(expected.next, root));
        }
        inside += state != root;
        const auto token = static_cast<int32_t>(random() % std::min<int64_t>(vocabulary, 6));
        if (root == 0 || (forbidden != nullptr && forbidden[token])) continue;
        state = row.view().state_after(token, root);
        if (step % 5 == 4) {
          row = Row(vocabulary);  // starts as the next piece does
          row.start(trees, root, state, forbidden);
        } else {
          EXPECT_EQ(row.follow(trees, root, token), state);
        }
      }
    }
  }
  EXPECT_GT(inside, 300);
}

}  // namespace
}  // namespace rtfx
