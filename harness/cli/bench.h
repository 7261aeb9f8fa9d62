// `rtfx bench`: decoders compared without a configuration file. Lists multiply.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/config/config.h"

namespace rtfx {

struct BenchOptions {
  std::vector<std::string> models, data, plugins;
  std::vector<std::string> decoders;  // "label_looping[window=1,8,max_symbols=5]", comma-separated
  std::vector<int64_t> batches = {1};
  std::vector<std::string> dtypes = {"fp32"};
  int64_t rounds = 5, warmup = 1, limit = 0, threads = 0;
  std::string device = "auto", output = "runs/bench";
  bool resume = false, print_config = false;
};

/// "label_looping[window=1,8,max_symbols=5]" as a configuration has it, several separated by
/// commas. Options may also have a bracket each. Throws UserError for brackets that do not close
/// and for an unknown decoder.
nlohmann::json bench_decoders(const std::string& text);

/// The configuration that the options stand for; its paths are relative to the working folder.
/// Throws UserError.
nlohmann::json bench_document(const BenchOptions& options);

/// The configuration that the arguments stand for, read and checked. Throws UserError.
Config bench_config(const BenchOptions& options);

}  // namespace rtfx
