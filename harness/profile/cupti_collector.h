// Collects what the GPU and the CUDA calls of this process do, through CUPTI's activity records.
//
// libcupti is loaded when a collector starts, never linked: the program runs without it.
#pragma once

#include <memory>
#include <string>

#include "harness/profile/profile_figures.h"

namespace rtfx {

/// Returns the names of environment variables by which another profiler drives this process. Empty
/// if there is none.
std::string driving_profiler();

/// How the kernels of a CUDA graph are recorded. `node` records each kernel, which separates the
/// kernels on the device and so takes longer. `graph` records the run as a whole, as one "kernel".
enum class GraphTrace { node, graph };

class CuptiCollector {
 public:
  /// Starts collecting. Must be called before anything initialises CUDA. Otherwise, kernels that a
  /// graph starts on its own (bodies of conditional nodes) are not recorded. Returns null if it
  /// cannot start; `problem` then says why in one line.
  static std::unique_ptr<CuptiCollector> start(GraphTrace graphs, std::string& problem);
  ~CuptiCollector();
  CuptiCollector(const CuptiCollector&) = delete;
  CuptiCollector& operator=(const CuptiCollector&) = delete;

  /// Returns the version and file of the library, and the kinds of records that it refused.
  const std::string& description() const { return description_; }

  /// Returns the time on the time line of the records, in nanoseconds.
  int64_t now() const;

  /// Discards all records so far. The device must be idle for this and the next two calls.
  void begin();
  /// Takes over the records that CUPTI has buffered.
  void flush();
  /// Returns all records since begin().
  Activity end();

  /// Returns the number of records that CUPTI dropped between the last begin() and end(), and of
  /// work without time stamps. If it is not 0, the figures are wrong.
  int64_t dropped() const;
  int64_t without_time() const;

 private:
  CuptiCollector() = default;

  struct State;
  std::unique_ptr<State> state_;
  std::string description_;
};

}  // namespace rtfx
