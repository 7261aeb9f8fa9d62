// Tests the check of samples, which names the first one that no model can compute with.
#include "base/samples.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace rtfx {
namespace {

TEST(Samples, TheFirstUnsoundOneIsNamed) {
  require_valid_samples({}, "clip", "leave it out");
  require_valid_samples(std::vector<float>{-1e12F, 0, 1e12F}, "clip", "leave it out");
  for (const auto& [value, text] : {std::pair(std::numeric_limits<float>::quiet_NaN(), "NaN"),
                                    {-std::numeric_limits<float>::infinity(), "infinite"},
                                    {-2e12F, "-2e+12"}}) {
    const std::vector<float> samples = {0, value, value};
    try {
      require_valid_samples(samples, "clip", "leave it out", 100);
      ADD_FAILURE() << text;
    } catch (const UserError& error) {
      EXPECT_EQ(error.what(), std::string("clip: sample 101 is ") + text + "; leave it out");
    }
  }
}

}  // namespace
}  // namespace rtfx
