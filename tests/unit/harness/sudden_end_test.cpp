// Tests ends of the program that nothing can catch.
#include "harness/machine/sudden_end.h"

#include <gtest/gtest.h>

#include <csignal>

#include "base/error.h"

namespace rtfx {
namespace {

TEST(SuddenEnd, ABusErrorNamesItsCausesAndWhatWasUnderWay) {
  const auto end = [](const char* what, const char* remedy) {
    name_crashes();
    set_under_way(what, remedy);
    std::raise(SIGBUS);
  };
  EXPECT_EXIT(end("case x, decode", "what was recorded is kept"), testing::ExitedWithCode(kFailed),
              "rtfx: error: case x, decode: a mapped file was shortened, or shared memory is full "
              "\\(signal 7\\); what was recorded is kept\n");
  EXPECT_EXIT(end("", ""), testing::ExitedWithCode(kFailed),
              "rtfx: error: a mapped file was shortened, or shared memory is full");
}

}  // namespace
}  // namespace rtfx
