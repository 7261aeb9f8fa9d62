// Starts the Python scripts that come with the program.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace rtfx {

/// A file or folder of the project, such as "plots/report.py": in the folder above the program's,
/// or else in the source folder. Throws UserError where there is none.
std::filesystem::path project_file(const std::string& name);

/// Runs a script, its output being ours, with the Python of RTFX_PYTHON, or of the source folder's
/// environment, or python3. `what`: the command, for errors; `input`: what the script reads as its
/// standard input. It finds this program by RTFX_BIN. Throws UserError where it fails.
void run_script(const std::string& what, const std::string& script,
                const std::vector<std::string>& arguments, const std::string& input = "");

}  // namespace rtfx
