#include "harness/report/python_script.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/files.h"
#include "base/process.h"

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

/// Returns whether the program is part of the installed Python package.
bool in_wheel() { return std::filesystem::exists(own_program().parent_path() / "../__init__.py"); }

}  // namespace

std::filesystem::path project_file(const std::string& name) {
  for (const std::filesystem::path& folder :
       {own_program().parent_path() / "..", std::filesystem::path(RTFX_SOURCE_DIR)}) {
    if (std::filesystem::exists(folder / name)) return (folder / name).lexically_normal();
  }
  throw UserError(name, "is not beside the program or in its source folder", "keep them together");
}

void run_script(const std::string& what, const std::string& script,
                const std::vector<std::string>& arguments, const std::string& input) {
  std::vector<std::string> words = {project_file(script).string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const Descriptor file(memfd_create("rtfx", MFD_CLOEXEC));
  write_input(file.number, input);
  std::fflush(stdout);  // our own output comes first
  setenv("RTFX_ERROR_STATUS", std::to_string(kToldStatus).c_str(), /*overwrite=*/1);
  setenv("RTFX_BIN", own_program().c_str(), /*overwrite=*/1);
  const int code = run_program(python(), std::move(words), {.in = file.number});
  if (code == 0) return;
  if (code == kToldStatus)
    throw UserError(what, fmt::format("{} could not do this", script), "see the line above");
  throw UserError(
      what, fmt::format("{} failed", script),
      fmt::format("it needs Python with matplotlib, jinja2 and scipy ({})",
                  in_wheel() ? "pip install 'rtfx[report]'" : "`make setup`, or RTFX_PYTHON"));
}

}  // namespace rtfx
