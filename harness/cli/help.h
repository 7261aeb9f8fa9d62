// A command line as data, and what is written from it: completion scripts and the manual page.
#pragma once

#include <string>
#include <vector>

namespace rtfx {

struct OptionHelp {
  std::vector<std::string> names;   // "-o", "--output"; one without dashes for a positional
  std::string value;                // "FILE"; empty for a flag
  std::string help, default_value;  // empty: none
  std::vector<std::string> words;   // values to choose among; with none, a file where `value` is
                                    // FILE, FOLDER or RUN
  bool positional = false, required = false;
};

struct CommandHelp {
  std::string name, help;
  std::vector<OptionHelp> options;
  std::vector<CommandHelp> commands;
};

/// `program`: with its commands, and theirs.
std::string bash_completion(const CommandHelp& program);
std::string zsh_completion(const CommandHelp& program);
std::string fish_completion(const CommandHelp& program);
/// In roff, for `man`. `version`: one line.
std::string manual_page(const CommandHelp& program, const std::string& version);

}  // namespace rtfx
