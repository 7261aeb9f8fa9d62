// The margin of a decision, on tables where it can be read off.
#include "algorithms/shared/transducer/margin.h"

#include <gtest/gtest.h>

#include "tests/support/table_model.h"

namespace rtfx {
namespace {

TEST(DecisionMargin, IsTheSmallestOnTheWayToTheToken) {
  // Tokens 0, 1; blank 2. Predictions change nothing until token 0 was said, then favour blank
  // by 3.
  const test::TableModel model{2, {}, {{0, 0, 4}, {0, 0, 0}, {0, 0, 0}}, {}};
  const test::Table frames = {{0, 0, 5}, {0, 0, 2}, {4, 0, 1}, {0, 0, 1}};
  const auto built = test::build(model);
  const Hypothesis baseline = test::oracle(model, frames, 10);
  ASSERT_EQ(baseline.tokens, std::vector<int32_t>{0});
  const at::Tensor encoded = test::to_tensor(frames);
  EXPECT_EQ(decision_margin(*built, encoded, baseline, 0), 2.0);  // frames 0..2: 5, 2, 3
  // After the token: frame 2 offers 4 against blank's 1 + 4, frame 3 blank's 5 against 0.
  EXPECT_EQ(decision_margin(*built, encoded, baseline, 1), 1.0);
}

TEST(DecisionMargin, CountsDurations) {
  const test::TableModel model{1, {0, 1}, {{0, 0, 0, 0}, {0, 0, 0, 0}}, {}};
  const test::Table frames = {{0, 9, 0, 0.5}};
  const Hypothesis baseline = test::oracle(model, frames, 10);
  EXPECT_EQ(decision_margin(*test::build(model), test::to_tensor(frames), baseline, 0), 0.5);
}

}  // namespace
}  // namespace rtfx
