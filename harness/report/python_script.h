// Starts the Python scripts that come with the program.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace rtfx {

/// Returns a file or folder of the project, such as "plots/report.py". Looks in the folder above
/// the program's, and then in the source folder. Throws UserError if it does not exist.
std::filesystem::path project_file(const std::string& name);

/// Runs a script with the Python of RTFX_PYTHON, else that of the source folder's environment, else
/// python3. The script's output goes where this program's goes. `what` is the command, for errors.
/// `input` is the script's standard input. The script finds this program by RTFX_BIN. Throws
/// UserError if it fails.
void run_script(const std::string& what, const std::string& script,
                const std::vector<std::string>& arguments, const std::string& input = "");

}  // namespace rtfx
