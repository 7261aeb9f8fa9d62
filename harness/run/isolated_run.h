// `isolate: true`: each group of cases in a child process. A crash, a kill or a lost GPU costs the
// case that was running one record, of kind "failure"; a new child goes on with the others.
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

/// Exit codes of a child: it has recorded a failure and cannot use its GPU any more; a case does
/// not come back within its limit.
constexpr int kDeviceLost = 3, kCaseOverdue = 4;

/// The task that the parent gives to a child on its command line.
struct ChildTask {
  struct Ended {
    std::string stage, message;
    bool recorded = false;  // by the child that it ended, or by a later one
  };

  int64_t group = -1;                  // number in the plan; -1: not a child
  std::map<std::string, Ended> ended;  // decoders that ended earlier children, by id

  bool is_child() const { return group >= 0; }
  bool takes(int64_t number) const { return !is_child() || number == group; }

  /// Converts the task to arguments of `rtfx run`, and back from the values of --ended.
  std::vector<std::string> arguments() const;
  void add_ended(const std::string& value);
};

/// Runs this program itself with these arguments, of which one is --child, and passes an interrupt
/// on to it. Returns why the child did not come to its end; empty where it did. Throws UserError
/// where the child refuses `config`, and Interrupted.
std::string run_child(const Config& config, std::vector<std::string> arguments);

/// The arguments of a child that reads the same configuration: "rtfx", the command, the file and
/// the overrides.
std::vector<std::string> child_arguments(const Config& config, const std::string& command);

/// The parent: runs the plan in children that read the same configuration. False after an
/// interrupt.
bool measure_isolated(const Config& config, Journal::Mode mode);

/// measure_isolated(), then prints the table of all records and returns an ExitCode.
int run_isolated(const Config& config, Journal::Mode mode);

/// In a child: tells the parent what this process is at.
void report_stage(const Arm* arm, const char* stage);

/// In a child: tells the parent `code`, and ends this process without destructors. The parent takes
/// an end that was not told for a crash.
[[noreturn]] void end_child(int code);

/// In a child, after it has recorded a failure: an error of a CUDA kernel stays with the process,
/// so that it ends here with kDeviceLost. Waits for the device.
void require_device(c10::Device device);

}  // namespace rtfx
