#include <fcntl.h>
#include <unistd.h>

#include <csignal>

#include "harness/cli/commands.h"
#include "harness/machine/sudden_end.h"

[[gnu::section(".preinit_array"),
  gnu::used]] void (*const before_libraries)(int, char**, char**) = rtfx::make_waits_passive;

namespace {

/// Opens /dev/null for each standard stream that is closed, as `2>&-` does. Otherwise a journal
/// would get the stream's number, and all messages with it. Reading and writing still fail.
void open_standard_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    // The lowest free number is that of the closed stream.
    [[maybe_unused]] const int opened =
        open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  rtfx::name_crashes();
  std::signal(SIGXFSZ, SIG_IGN);  // a limit of file sizes becomes an error of write(2)
  return rtfx::run_command_line(argc, argv);
}
