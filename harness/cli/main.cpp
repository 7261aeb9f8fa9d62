#include <unistd.h>

#include <csignal>
#include <cstring>

#include "harness/cli/commands.h"

namespace {

/// Weights and graphs are mapped files: reading behind the end of one that was shortened meanwhile
/// raises SIGBUS. Only functions that a signal handler may call are called here.
extern "C" void report_lost_file(int) {
  constexpr const char* kText =
      "rtfx: error: a model or graph file was shortened while it was in use; replace files by "
      "moving new ones over them\n";
  if (::write(STDERR_FILENO, kText, std::strlen(kText)) < 0) ::_exit(2);
  ::_exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGBUS, &report_lost_file);
  return rtfx::run_command_line(argc, argv);
}
