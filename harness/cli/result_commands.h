// The subcommands that work on finished runs: compare, gate, export, diff-runs, rescore.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

namespace rtfx {

/// Holds the arguments of the subcommands; it must outlive the parsing.
class ResultCommands {
 public:
  /// `code`: where a subcommand leaves its exit code.
  ResultCommands(CLI::App& app, int& code);
  ~ResultCommands();

 private:
  struct Arguments;
  std::unique_ptr<Arguments> arguments_;
};

}  // namespace rtfx
