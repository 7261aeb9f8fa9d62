// Tests interrupts that come while a child process starts. The child's program would be these
// tests, which would write their list to a file.
#include "harness/run/isolated_run.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "speech/runtime/stages.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

class RunChild : public test::TempFolder {
 protected:
  /// Ends the process with 0 if an interrupt ended run_child() and its child. It ends with 2 if the
  /// child went on, and with 1 if no interrupt came.
  [[noreturn]] void run_until_interrupted() const {
    const std::filesystem::path written = path("list.xml");
    try {
      run_child({}, {"rtfx", "--gtest_list_tests", "--gtest_output=xml:" + written.string()});
    } catch (const Interrupted&) {
      std::_Exit(std::filesystem::exists(written) ? 2 : 0);
    }
    std::_Exit(1);
  }
};

TEST_F(RunChild, AnInterruptBeforeItsStartIsNotLost) {
  const auto interrupt_first = [&] {
    const InterruptWatch watch;
    std::raise(SIGINT);
    run_until_interrupted();
  };
  EXPECT_EXIT(interrupt_first(), testing::ExitedWithCode(0), "");
}

TEST_F(RunChild, AnInterruptWithinItsStartIsNotLost) {
  const auto interrupt_within = [&] {
    const InterruptWatch watch;
    // The interrupt comes after fork(), and is passed on before the child has reached its program.
    pthread_atfork(
        nullptr, [] { std::raise(SIGTERM); },
        [] { std::this_thread::sleep_for(std::chrono::milliseconds(500)); });
    run_until_interrupted();
  };
  EXPECT_EXIT(interrupt_within(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace rtfx
