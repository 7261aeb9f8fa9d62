// Describes a command line as data, and writes completion scripts and the manual page from it.
#pragma once

#include <string>
#include <vector>

namespace rtfx {

struct OptionHelp {
  /// Such as "-o", "--output"; a positional argument has one without dashes.
  std::vector<std::string> names;
  std::string value;                // such as "FILE"; empty for a flag
  std::string help, default_value;  // empty: none
  /// Values to choose from; without them, a file if `value` is FILE, FOLDER or RUN.
  std::vector<std::string> words;
  bool positional = false, required = false;
};

struct CommandHelp {
  std::string name, help;
  std::vector<OptionHelp> options;
  std::vector<CommandHelp> commands;
};

/// `program` has its commands, and those have theirs.
std::string bash_completion(const CommandHelp& program);
std::string zsh_completion(const CommandHelp& program);
std::string fish_completion(const CommandHelp& program);
/// Returns the page in roff, for `man`. `version` is one line.
std::string manual_page(const CommandHelp& program, const std::string& version);

}  // namespace rtfx
