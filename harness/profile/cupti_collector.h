// Collects what the GPU and the CUDA calls of this process do, through CUPTI's activity records.
//
// libcupti is loaded when a collector starts, never linked: the program runs without it.
#pragma once

#include <memory>
#include <string>

#include "harness/profile/profile_figures.h"

namespace rtfx {

/// Names of environment variables by which a profiler drives this process; empty without one.
std::string driving_profiler();

/// The records of a CUDA graph: each of its kernels, which separates them on the device and so
/// takes longer, or its run as a whole, as one "kernel".
enum class GraphTrace { node, graph };

class CuptiCollector {
 public:
  /// Starts collecting. Call it before anything initialises CUDA, or kernels that a graph starts on
  /// its own (bodies of conditional nodes) stay unseen. Null where it cannot be done; `problem`
  /// then says why in one line.
  static std::unique_ptr<CuptiCollector> start(GraphTrace graphs, std::string& problem);
  ~CuptiCollector();
  CuptiCollector(const CuptiCollector&) = delete;
  CuptiCollector& operator=(const CuptiCollector&) = delete;

  /// Version and file of the library, and what it would not do.
  const std::string& description() const { return description_; }

  /// Nanoseconds on the time line of the records.
  int64_t now() const;

  /// Forgets everything so far. The device must be idle, as for the next two.
  void begin();
  /// Takes over what CUPTI has buffered.
  void flush();
  /// Everything since begin().
  Activity end();

  /// Records of the last begin() .. end() that CUPTI dropped, and work without time stamps. If this
  /// is not 0, the figures are wrong.
  int64_t dropped() const;
  int64_t without_time() const;

 private:
  CuptiCollector() = default;

  struct State;
  std::unique_ptr<State> state_;
  std::string description_;
};

}  // namespace rtfx
