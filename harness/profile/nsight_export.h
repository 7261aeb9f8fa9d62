// Reads exports of Nsight Systems, and writes trace files for a browser.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "harness/profile/profile_figures.h"
#include "harness/profile/range_log.h"

namespace rtfx {

// Reads a session of Nsight Systems from the file of `nsys export --type sqlite`: the ranges of
// base/nvtx.h, and the work of CUDA in them. Only `rtfx profile` marks the rounds of each case,
// since decoders share the encoder's regions in a round of `rtfx run`. Versions 2022.4 to 2025.3 of
// the schema are supported. A table exists only if it has rows, and later versions have more
// columns.

struct NsightCase {
  std::string name;                 // model/dataset/decoder/b16/fp32
  std::vector<LoggedRange> ranges;  // as from a RangeLog that waits behind phases
  std::vector<Span> laps;           // the measured rounds of the case
  Activity activity;                // from the first lap to the end of the last
};

struct NsightSession {
  std::string product;        // "NVIDIA Nsight Systems 2023.4.4.54"
  std::string started;        // start of the capture in UTC; empty if unknown
  std::string gpu;            // name, or "unknown GPU"; empty if nothing ran on a GPU
  bool whole_graphs = false;  // each run of a CUDA graph is recorded as a whole
  std::vector<NsightCase> cases;
};

/// The error for a session that has no round of a case, for example because the case failed early.
class NoRounds : public UserError {
 public:
  using UserError::UserError;
};

/// Throws UserError if the file is not such an export, and NoRounds.
NsightSession read_nsight_session(const std::filesystem::path& file);

// Writes a timeline for chrome://tracing and ui.perfetto.dev, as JSON trace events.

class TraceFile {
 public:
  /// Each case may have limit / cases events.
  TraceFile(int64_t limit, size_t cases);

  /// Adds a process with the case's name. Its tracks are regions, calls of each thread, and kernels
  /// and copies of each stream. Takes only events that begin before `until`. Over the limit, it
  /// leaves out late events, regions last.
  void add_case(const std::string& name, const std::vector<LoggedRange>& ranges,
                const Activity& activity, int64_t until = std::numeric_limits<int64_t>::max());

  /// Throws UserError if the file cannot be written.
  void write(const std::filesystem::path& path) const;

  int64_t events() const { return written_; }
  int64_t left_out() const;
  /// Returns, for example, "20 events, 3 late ones left out: --trace-limit; open it in
  /// ui.perfetto.dev".
  std::string summary() const;

 private:
  struct Event {
    Span time;
    int64_t track;
    const std::string* name;
    uint64_t bytes = 0;  // size of a copy
  };
  void add_metadata(const std::string& what, int64_t track, const std::string& value);
  void add(const std::string& line);

  int64_t budget_;
  int64_t process_ = 0, written_ = 0;
  std::vector<int64_t> left_out_;  // indexed by case
  int64_t origin_ = 0;             // begin of the first case
  std::string text_;
};

}  // namespace rtfx
