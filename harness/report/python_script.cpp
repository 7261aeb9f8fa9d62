#include "harness/report/python_script.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/files.h"

namespace rtfx {
namespace {

/// Returns the Python of scripts, which need the packages of this project's environment. The
/// decoder `python` needs the Python of the program's LibTorch
/// (algorithms/decoders/python/interpreter.cpp).
std::string python() {
  if (const char* chosen = std::getenv("RTFX_PYTHON")) return chosen;
  const std::filesystem::path own = std::filesystem::path(RTFX_SOURCE_DIR) / ".venv/bin/python";
  return std::filesystem::exists(own) ? own.string() : "python3";
}

/// Writes the input of a script into an empty file, and goes back to its beginning. Throws
/// UserError where that fails, also for the negative `descriptor` of a file that could not be made.
void write_input(int descriptor, const std::string& input) {
  int error = descriptor < 0 ? errno : write_all(descriptor, input);
  if (error == 0 && lseek(descriptor, 0, SEEK_SET) < 0) error = errno;
  if (error != 0)
    throw UserError("the input of a script", std::strerror(error),
                    "check the free memory and the limit of open files");
}

/// Exit status of a script that has printed a line about its error.
constexpr int kToldStatus = 3;

/// The command line of a script, which finds this program by RTFX_BIN.
class Command {
 public:
  Command(const std::string& script, const std::vector<std::string>& arguments)
      : words_{python(), project_file(script).string()} {
    words_.insert(words_.end(), arguments.begin(), arguments.end());
    for (std::string& word : words_) pointers_.push_back(word.data());
    pointers_.push_back(nullptr);
    std::fflush(stdout);  // our own output comes first
    setenv("RTFX_ERROR_STATUS", std::to_string(kToldStatus).c_str(), /*overwrite=*/1);
    setenv("RTFX_BIN", std::filesystem::read_symlink("/proc/self/exe").c_str(), /*overwrite=*/1);
  }

  const char* program() const { return pointers_.front(); }
  char* const* arguments() const { return pointers_.data(); }

 private:
  std::vector<std::string> words_;
  std::vector<char*> pointers_;
};

/// Returns whether the program is part of the installed Python package.
bool in_wheel() {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  return std::filesystem::exists(program.parent_path() / "../__init__.py");
}

}  // namespace

std::filesystem::path project_file(const std::string& name) {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  for (const std::filesystem::path& folder :
       {program.parent_path() / "..", std::filesystem::path(RTFX_SOURCE_DIR)}) {
    if (std::filesystem::exists(folder / name)) return (folder / name).lexically_normal();
  }
  throw UserError(name, "is not beside the program or in its source folder", "keep them together");
}

void run_script(const std::string& what, const std::string& script,
                const std::vector<std::string>& arguments, const std::string& input) {
  Command command(script, arguments);
  const Descriptor file(memfd_create("rtfx", MFD_CLOEXEC));
  write_input(file.number, input);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, file.number, STDIN_FILENO);
  pid_t child = 0;
  int status = 0;
  const bool started =
      posix_spawnp(&child, command.program(), &actions, nullptr, command.arguments(), environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  if (started && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
      WEXITSTATUS(status) == 0) {
    return;
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == kToldStatus)
    throw UserError(what, fmt::format("{} could not do this", script), "see the line above");
  throw UserError(
      what, fmt::format("{} failed", script),
      fmt::format("it needs Python with matplotlib, jinja2 and scipy ({})",
                  in_wheel() ? "pip install 'rtfx[report]'" : "`make setup`, or RTFX_PYTHON"));
}

}  // namespace rtfx
