#include "harness/commands.h"

int main(int argc, char** argv) { return rtfx::run_command_line(argc, argv); }
