// `rtfx profile import`: figures of sessions of Nsight Systems, as `rtfx profile` gives its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

namespace rtfx {

struct NsightImport {
  std::filesystem::path output;  // folder of profile.jsonl and trace.json
  int64_t top = 5;               // kernels listed of each region
  int64_t trace_limit = 200000;  // events in trace.json; 0: no such file
  /// Records of the process that was recorded, where they are at hand: what they say of a case goes
  /// before what its name says, and theirs is the provenance.
  std::vector<nlohmann::json> recorded = {};
  std::vector<nlohmann::json> undisturbed = {};  // as of undisturbed_laps()
};

/// Reads what `nsys export --type sqlite` makes of a session; writes <output>/profile.jsonl (an
/// earlier one is kept as profile.jsonl.N) and <output>/trace.json, prints a table. The figures are
/// those of `rtfx profile` by the same definitions: of the laps with the collector, which here is
/// Nsight Systems. Returns an ExitCode. Throws UserError before anything is written.
int import_nsight_sessions(const std::vector<std::filesystem::path>& files,
                           const NsightImport& options);

}  // namespace rtfx
