// `rtfx verify`: checks a journal of somebody else on this machine.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/results/verdict.h"

namespace rtfx {

struct VerifyOptions {
  int64_t sample = 5;                  // number of cases that are run again
  std::optional<int64_t> seed;         // seed of the drawing; none: a random seed
  int64_t rounds = 5;                  // rounds of each case that is run again
  std::string only;                    // draws only cases whose names contain this text
  std::string device;                  // empty: the kind that the journal was measured on
  std::vector<std::string> overrides;  // of the journal's configuration: "models.0.path=m.nemo"
  std::filesystem::path output;        // folder of the rerun's journal
};

struct Verification {
  std::filesystem::path journal;
  int64_t seed = 0;
  size_t cases = 0;  // cases of the journal
  /// Cases that claim a result, and cases among them whose records show no fault.
  size_t checked = 0, consistent = 0;
  std::vector<std::string> sampled;  // names, in the journal's order
  /// Name of a case, and why it is not run again.
  std::vector<std::pair<std::string, std::string>> left_out;
  /// Ordered by case: check_records() of all cases, and compare_claims() and `caching` of the
  /// sampled ones.
  std::vector<GateRow> rows;
  std::exception_ptr not_repeated;  // a UserError that says why no case was run again, or null
};

/// Checks a journal in four steps:
/// 1. It judges what the records show by themselves.
/// 2. It checks that the journal has all cases of its configurations.
/// 3. It draws cases at random, runs them as the journal's configuration says, with fewer rounds,
/// and compares. It does not draw controls, failed cases, cases of several processes, and, on a
/// CPU, cases that need a GPU.
/// 4. It audits each of the drawn cases for caching.
///
/// If no case can be run again, `not_repeated` holds the error, and the rows are those of the
/// records alone. The error names all models, data and files that the drawn cases need and this
/// machine lacks, each with its place in the configuration. Throws UserError for a file that is no
/// journal, and Interrupted.
Verification verify(const std::filesystem::path& journal, const VerifyOptions& options);

/// Prints the rows as print_gate() does, the drawn cases, and how many rows of each kind agree.
void print_verification(const Verification& verification);

}  // namespace rtfx
