#include "harness/report/reproduce.h"

#include <gtest/gtest.h>

#include <sstream>

#include "base/error.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

class Consent : public ::testing::Test {
 protected:
  Consent() : checkpoints_(2) {
    config_.device = "cpu";
    config_.dtypes = {"bf16"};
    checkpoints_[1].parameters = 1'100'000'000;
  }

  /// Returns the error, or an empty string if the run goes on.
  std::string refused(bool yes, std::istream* answers) const {
    const auto time = [] {
      Estimate estimate;
      estimate.low = 7200;
      estimate.high = 36000;
      return estimate;
    };
    try {
      require_consent(config_, checkpoints_, time, yes, answers);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }

  Config config_;
  std::vector<Checkpoint> checkpoints_;
};

TEST_F(Consent, WithoutATerminalALargeModelOnACpuIsRefusedWithTheRemedy) {
  EXPECT_EQ(
      refused(false, nullptr),
      "reproduce: a model of 1.1 billion parameters in bf16 would run on a CPU, for between 2 h "
      "0 min and 10 h 0 min; use a machine with a GPU, or --quick N for fewer utterances; "
      "--yes goes on");
  EXPECT_EQ(refused(true, nullptr), "");
}

TEST_F(Consent, ATerminalIsAsked) {
  std::istringstream yes("y\n"), no("\n"), end;
  EXPECT_EQ(refused(false, &yes), "");
  EXPECT_HAS(refused(false, &no), "not confirmed");
  EXPECT_HAS(refused(false, &end), "not confirmed");
}

TEST_F(Consent, SmallModelsAndGpusNeedNone) {
  config_.device = "cuda";
  EXPECT_EQ(refused(false, nullptr), "");
  config_.device = "cpu";
  checkpoints_[1].parameters = 100'000'000;
  EXPECT_EQ(refused(false, nullptr), "");
}

}  // namespace
}  // namespace rtfx
