#include "base/process.h"

#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>

namespace rtfx {

std::filesystem::path own_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

int run_program(const std::string& program, std::vector<std::string> arguments,
                const ProgramFiles& files) {
  std::string name = program;
  std::vector<char*> argv = {name.data()};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, files.in, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, files.out, STDOUT_FILENO);
  pid_t child = 0;
  const bool started =
      posix_spawnp(&child, program.c_str(), &actions, nullptr, argv.data(), environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  if (!started) return -1;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace rtfx
