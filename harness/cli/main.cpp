#include <csignal>

#include "harness/cli/commands.h"
#include "harness/machine/sudden_end.h"

[[gnu::section(".preinit_array"),
  gnu::used]] void (*const before_libraries)(int, char**, char**) = rtfx::make_waits_passive;

int main(int argc, char** argv) {
  rtfx::name_crashes();
  std::signal(SIGXFSZ, SIG_IGN);  // A limit of file sizes becomes an error of write(2).
  return rtfx::run_command_line(argc, argv);
}
