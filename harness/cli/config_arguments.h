// The arguments of every command that takes a configuration.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/config/config.h"
#include "harness/results/journal.h"

namespace rtfx {

struct ConfigArguments {
  std::string file, device, output;
  std::vector<std::string> overrides;
  std::optional<int64_t> threads;
  bool sync_debug = false;

  void add_to(CLI::App& app);
  /// All but the configuration itself.
  void add_overrides_to(CLI::App& app);
  /// All overrides as "key=value", with those of --device, --threads and --output.
  std::vector<std::string> all_overrides() const;
  /// Reads the configuration and makes the files that its key "prepare" lists. Throws UserError.
  Document read() const;
  /// read() and parse_config().
  Config load() const;
};

struct JournalMode {
  bool resume = false, force = false;

  void add_to(CLI::App& app);
  Journal::Mode mode() const;
};

}  // namespace rtfx
