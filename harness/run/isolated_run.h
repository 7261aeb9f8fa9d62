// Runs each group of cases in a child process (`isolate: true`). If a child crashes, is killed or
// loses its GPU, the case that was running gets a record of kind "failure". A new child continues
// with the other cases.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/config/config.h"
#include "harness/results/journal.h"

namespace rtfx {

struct Arm;

/// Exit codes of a child. kDeviceLost: it has recorded a failure and can no longer use its GPU.
/// kCaseOverdue: a case has exceeded its limit.
constexpr int kDeviceLost = 3, kCaseOverdue = 4;

/// The task that the parent gives to a child on its command line.
struct ChildTask {
  struct Ended {
    std::string stage, message;
    bool recorded = false;  // The child itself or a later one has recorded the failure.
  };

  int64_t group = -1;                  // number in the plan; -1: not a child
  std::map<std::string, Ended> ended;  // decoders that ended earlier children, by id

  bool is_child() const { return group >= 0; }
  bool takes(int64_t number) const { return !is_child() || number == group; }

  /// Converts the task to arguments of `rtfx run`, and back from the values of --ended.
  std::vector<std::string> arguments() const;
  void add_ended(const std::string& value);
};

/// Runs this program as a child with `arguments`, one of which is --child, and passes interrupts on
/// to it. Returns why the child ended early, or an empty text. Throws UserError if the child
/// refuses `config`, and Interrupted.
std::string run_child(const Config& config, std::vector<std::string> arguments);

/// Returns the arguments of a child that reads the same configuration: "rtfx", the command, the
/// configuration's file and the overrides.
std::vector<std::string> child_arguments(const Config& config, const std::string& command);

/// Runs in the parent: executes the plan in children that read the same configuration. Returns
/// false after an interrupt.
bool measure_isolated(const Config& config, Journal::Mode mode);

/// Does likewise, prints the table of the plan's cases, and returns an ExitCode.
int run_isolated(const Config& config, Journal::Mode mode);

/// Runs in a child: tells the parent which stage of which arm begins.
void report_stage(const Arm* arm, const char* stage);

/// Runs in a child: tells the parent `code`, and ends this process without destructors. The parent
/// takes any other end for a crash.
[[noreturn]] void end_child(int code);

/// Runs in a child that has recorded a failure. An error of a CUDA kernel makes the GPU unusable
/// for the whole process; then this ends the process with kDeviceLost. Waits for the device.
void require_device(c10::Device device);

}  // namespace rtfx
