// Every test begins with the same random numbers, whether it runs alone or after others. LibTorch
// seeds its default generators randomly, so that a tolerance could be too small in rare runs.
#include <ATen/Context.h>
#include <gtest/gtest.h>

namespace {

class Seed : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo& /*test*/) override { at::manual_seed(1); }
};

[[maybe_unused]] const bool kSeeded = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new Seed);  // the list owns it
  return true;
}();

}  // namespace
