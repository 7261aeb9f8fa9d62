#include "harness/profile/child_process.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

namespace rtfx {

std::vector<std::string> profile_arguments(const Config& config, int64_t laps,
                                           const std::string& only) {
  std::vector<std::string> arguments = {"profile", config.origins.file().string(), "--laps",
                                        std::to_string(laps)};
  for (const std::string& text : config.origins.overrides())
    arguments.insert(arguments.end(), {"--set", text});
  if (!only.empty()) arguments.insert(arguments.end(), {"--only", only});
  return arguments;
}

int run_program(const std::string& program, std::vector<std::string> arguments) {
  std::string name = program;
  std::vector<char*> argv = {name.data()};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t child = 0;
  const bool started =
      posix_spawn(&child, program.c_str(), &actions, nullptr, argv.data(), environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  if (!started) return -1;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

}  // namespace rtfx
