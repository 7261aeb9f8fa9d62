#include "base/error.h"

#include <gtest/gtest.h>

namespace rtfx {
namespace {

const std::vector<std::string> kDecoders = {"ctc_greedy", "frame_looping", "label_looping", "null"};

TEST(UserErrorTest, ReadsWhereProblemRemedy) {
  const UserError error("a.json:3", "is wrong", "write it again");
  EXPECT_STREQ(error.what(), "a.json:3: is wrong; write it again");
  EXPECT_EQ(error.where(), "a.json:3");
}

TEST(UserErrorTest, LeavesOutWhatIsEmpty) {
  EXPECT_STREQ(UserError("here", "is wrong").what(), "here: is wrong");
  EXPECT_STREQ(UserError("", "is wrong", "mend it").what(), "is wrong; mend it");
}

TEST(NearestTest, FindsTheClosestName) {
  EXPECT_EQ(nearest("label_loping", kDecoders), "label_looping");
  EXPECT_EQ(nearest("frame_looping", kDecoders), "frame_looping");
  EXPECT_EQ(nearest("nul", kDecoders), "null");
}

TEST(NearestTest, IsEmptyWhenNoneIsClose) {
  EXPECT_EQ(nearest("beam_search", kDecoders), "");
  EXPECT_EQ(nearest("x", {}), "");
}

TEST(NearestTest, TheDistanceMayBeAThirdOfTheLengthAndAtLeastTwo) {
  const std::vector<std::string> allowed = {"abcdefghi"};
  EXPECT_EQ(nearest("abcdefxyz", allowed), "abcdefghi");
  EXPECT_EQ(nearest("abcdexxyz", allowed), "");
  const std::vector<std::string> two = {"ab"};
  EXPECT_EQ(nearest("xy", two), "ab");
  EXPECT_EQ(nearest("xyz", two), "");
}

TEST(NearestTest, ATieGoesToTheFirst) {
  const std::vector<std::string> allowed = {"cat", "bat"};
  EXPECT_EQ(nearest("rat", allowed), "cat");
}

TEST(UnknownNameTest, NamesTheGuessAndTheAllowed) {
  EXPECT_STREQ(unknown_name("/decoders/0", "decoder", "nul", kDecoders).what(),
               "/decoders/0: unknown decoder 'nul'; did you mean 'null'? "
               "allowed: ctc_greedy, frame_looping, label_looping, null");
  EXPECT_STREQ(unknown_name("", "decoder", "beam_search", kDecoders).what(),
               "unknown decoder 'beam_search'; "
               "allowed: ctc_greedy, frame_looping, label_looping, null");
}

TEST(CheckTest, ThrowsLogicErrorWithItsPlace) {
  EXPECT_NO_THROW(RTFX_CHECK(1 + 1 == 2, "arithmetic"));
  try {
    RTFX_CHECK(1 + 1 == 3, "arithmetic");
    FAIL() << "did not throw";
  } catch (const std::logic_error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("error_test.cpp:"), std::string::npos) << message;
    EXPECT_NE(message.find("arithmetic (1 + 1 == 3)"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace rtfx
