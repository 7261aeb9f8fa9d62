// Timelines of other programs: exports of Nsight Systems, and trace files for a browser.
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

// Reads a session of Nsight Systems, as `nsys export --type sqlite` writes it: the ranges of
// base/nvtx.h and what CUDA did meanwhile. Only `rtfx profile` marks each case so that its rounds
// are found: in a round of `rtfx run`, decoders share the encoder's regions. Versions 2022.4 to
// 2025.3 of its schema: tables are made only where there is something in them, and columns have
// come with time.

struct NsightCase {
  std::string name;                 // model/dataset/decoder/b16/fp32
  std::vector<LoggedRange> ranges;  // as a RangeLog that waits behind phases has them
  std::vector<Span> laps;           // its rounds, without those of the warm-up
  Activity activity;                // from the first lap to the end of the last
};

struct NsightSession {
  std::string product;        // "NVIDIA Nsight Systems 2023.4.4.54"
  std::string started;        // of the capture, UTC; empty where it is not known
  std::string gpu;            // its name or "unknown GPU"; empty where nothing ran on one
  bool whole_graphs = false;  // runs of CUDA graphs are on record as a whole
  std::vector<NsightCase> cases;
};

/// The error for a session without a round of a case, such as one whose case failed early.
class NoRounds : public UserError {
 public:
  using UserError::UserError;
};

/// Throws UserError for what is no such file, and NoRounds.
NsightSession read_nsight_session(const std::filesystem::path& file);

// A timeline for chrome://tracing and ui.perfetto.dev: JSON trace events.

class TraceFile {
 public:
  /// Every case may fill limit / cases events.
  TraceFile(int64_t limit, size_t cases);

  /// A process of the case's name with the tracks regions, calls of each thread, kernels and copies
  /// of each stream, as far as they begin before `until`. Over the limit, what begins late is left
  /// out, regions last of all.
  void add_case(const std::string& name, const std::vector<LoggedRange>& ranges,
                const Activity& activity, int64_t until = std::numeric_limits<int64_t>::max());

  /// Throws UserError where the file cannot be written.
  void write(const std::filesystem::path& path) const;

  int64_t events() const { return written_; }
  int64_t left_out() const;
  /// "20 events, 3 late ones left out: --trace-limit; open it in ui.perfetto.dev".
  std::string summary() const;

 private:
  struct Event {
    Span time;
    int64_t track;
    const std::string* name;
    uint64_t bytes = 0;  // of a copy
  };
  void add_metadata(const std::string& what, int64_t track, const std::string& value);
  void add(const std::string& line);

  int64_t budget_;
  int64_t process_ = 0, written_ = 0;
  std::vector<int64_t> left_out_;  // by case
  int64_t origin_ = 0;             // begin of the first case
  std::string text_;
};

}  // namespace rtfx
