#include "harness/cli/commands.h"
#include "harness/machine/sudden_end.h"

int main(int argc, char** argv) {
  rtfx::name_crashes();
  return rtfx::run_command_line(argc, argv);
}
