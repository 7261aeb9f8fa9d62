// `rtfx verify`: a journal that somebody else has made, checked on this machine.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/results/gate.h"

namespace rtfx {

struct VerifyOptions {
  int64_t sample = 5;                  // cases that are run again
  std::optional<int64_t> seed;         // of what is drawn; none: any
  int64_t rounds = 5;                  // of the rerun
  std::string only;                    // of cases with this in their name
  std::string device;                  // empty: the kind that the journal was measured on
  std::vector<std::string> overrides;  // of the journal's configuration: "models.0.path=m.nemo"
  std::filesystem::path output;        // folder of the rerun's journal
};

struct Verification {
  std::filesystem::path journal;
  int64_t seed = 0;
  size_t cases = 0;                  // of the journal
  size_t checked = 0, sound = 0;     // cases that claim a result; those whose records show no fault
  std::vector<std::string> sampled;  // names, in the journal's order
  std::vector<std::pair<std::string, std::string>> left_out;  // name, and why it is not run again
  std::vector<GateRow> rows;  // case by case: check_records() of all cases; compare_claims() and
                              // `caching` of the sampled ones
  std::exception_ptr not_repeated;  // a UserError that says why no case was run again; else null
};

/// Reads a journal and judges what it shows by itself, and whether it has all cases of its
/// configurations. Then draws cases at random, runs them as the journal's configuration says, with
/// fewer rounds, and compares. Controls, failed cases and those of several processes are not drawn,
/// nor is what needs a GPU where the device is a CPU. Last, audits each of them for caching.
///
/// Where no case can be run again, `not_repeated` is the error, and the rows are those of the
/// records alone. It names all models, data and files that the drawn cases need and this machine
/// lacks, each with its place in the configuration. Throws UserError for a file that is no journal,
/// and Interrupted.
Verification verify(const std::filesystem::path& journal, const VerifyOptions& options);

/// The rows as print_gate() has them, what was drawn, and how many rows of each kind agree.
void print_verification(const Verification& verification);

}  // namespace rtfx
