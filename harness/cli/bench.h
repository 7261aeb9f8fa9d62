// `rtfx bench`: compares decoders without a configuration file. Each combination of its lists is a
// case.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/config/config.h"

namespace rtfx {

struct BenchOptions {
  std::vector<std::string> models, data, plugins;
  /// Such as "label_looping[window=1,8,max_symbols=5]"; several are separated by commas.
  std::vector<std::string> decoders;
  std::vector<int64_t> batches = {1};
  std::vector<std::string> dtypes = {"fp32"};
  int64_t rounds = 5, warmup = 1, limit = 0, threads = 0;
  std::string device = "auto", output = "runs/bench";
  bool resume = false, print_config = false;
};

/// Returns the decoders of `text` as a configuration has them. `text` is like
/// "label_looping[window=1,8,max_symbols=5]", and commas separate several decoders. Each option may
/// also have a bracket of its own. Throws UserError for brackets that do not close, and for an
/// unknown decoder.
nlohmann::json bench_decoders(const std::string& text);

/// Returns the configuration of the options. Its paths are relative to the working folder. Throws
/// UserError.
nlohmann::json bench_document(const BenchOptions& options);

/// Reads and checks the configuration of the arguments. Throws UserError.
Config bench_config(const BenchOptions& options);

}  // namespace rtfx
