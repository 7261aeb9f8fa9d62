#include "harness/profile/nsys_session.h"

#include <c10/cuda/CUDAFunctions.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/exit_code.h"
#include "base/find_program.h"
#include "base/printable.h"
#include "harness/profile/child_process.h"
#include "harness/profile/nsight_import.h"
#include "harness/profile/undisturbed.h"
#include "harness/results/journal.h"

namespace rtfx {
namespace {

using nlohmann::json;
using std::filesystem::path;

// Places of Nsight Systems' own installer, of a CUDA toolkit and of Debian. The copy that Nsight
// Compute brings comes last: it records, but cannot make a report.
constexpr const char* kPlaces[] = {"/opt/nvidia/nsight-systems*/*/bin/nsys",
                                   "/opt/nvidia/nsight-systems*/*/target-linux-x64/nsys",
                                   "/usr/local/cuda*/bin/nsys",
                                   "/usr/lib/nsight-systems/bin/nsys",
                                   "/opt/nvidia/nsight-compute/*/host/target-linux-x64/nsys",
                                   "/usr/local/cuda*/nsight-compute-*/host/target-linux-x64/nsys"};

/// <output>/nsys, or nsys-2, ... where there are reports of that name.
path new_report(const path& output) {
  for (int number = 1;; ++number) {
    path report = output / (number == 1 ? "nsys" : fmt::format("nsys-{}", number));
    if (files_like(report.string() + ".*").empty()) return report;
  }
}

/// <report>.<ending> or <report>.1.<ending>, <report>.2.<ending>, ...: a session may have several.
std::vector<path> made(const path& report, const std::string& ending) {
  std::vector<path> files = files_like(report.string() + "." + ending);
  const std::vector<path> numbered = files_like(report.string() + ".*." + ending);
  files.insert(files.end(), numbered.begin(), numbered.end());
  std::ranges::stable_sort(files, {}, [](const path& file) { return file.string().size(); });
  return files;
}

std::string shell_line(const std::string& program, const std::vector<std::string>& arguments) {
  std::string line = for_shell(program);
  for (const std::string& argument : arguments) line += " " + for_shell(argument);
  return line;
}

}  // namespace

path find_nsys() { return find_program("nsys", kPlaces); }

std::vector<std::string> nsys_arguments(const Config& config, const ProfileOptions& options,
                                        bool with_gpu, const path& report) {
  std::vector<std::string> arguments = {"profile",       "--sample=none",   "--cpuctxsw=none",
                                        "--stats=false", "--export=sqlite", "-o",
                                        report.string()};
  if (with_gpu) {
    const char* graphs = options.graphs == GraphTrace::node ? "node" : "graph";
    arguments.insert(arguments.end(),
                     {"--trace=cuda,nvtx", fmt::format("--cuda-graph-trace={}", graphs),
                      "--capture-range=cudaProfilerApi", "--capture-range-end=repeat"});
  } else {
    arguments.emplace_back("--trace=nvtx");
  }
  arguments.push_back(own_program());
  const std::vector<std::string> own = profile_arguments(config, options.laps, options.only);
  arguments.insert(arguments.end(), own.begin(), own.end());
  arguments.emplace_back("--recorded");
  return arguments;
}

int record_nsys_session(const Config& config, const ProfileOptions& options) {
  const path output = config.output, report = new_report(output);
  const bool with_gpu = config.device != "cpu" && c10::cuda::device_count() > 0;
  const std::vector<std::string> arguments = nsys_arguments(config, options, with_gpu, report);
  const path nsys = find_nsys();
  if (nsys.empty()) {
    throw UserError("--nsys", "there is no Nsight Systems on this machine (no program nsys)",
                    "install it, or run elsewhere: " + shell_line("nsys", arguments));
  }
  std::string problem;
  std::vector<json> undisturbed;
  if (with_gpu) {
    fmt::print(stderr, "rtfx: notice: first {} laps without a collector\n", options.laps);
    undisturbed = undisturbed_laps(config, options.laps, options.only, problem);
  }
  fmt::print(stderr, "rtfx: notice: {}\n", printable(shell_line(nsys.string(), arguments)));
  const int code = run_program(nsys.string(), arguments);
  const path journal = output / kRecorded;
  std::vector<json> recorded;
  if (std::filesystem::exists(journal)) recorded = read_journal(journal);
  std::filesystem::remove(journal);

  const std::vector<path> databases = made(report, "sqlite"), reports = made(report, "nsys-rep");
  if (databases.empty()) {
    const std::vector<path> raw = made(report, "qdstrm");
    if (raw.empty()) {
      throw UserError(nsys.string(), fmt::format("has recorded nothing (exit code {})", code),
                      "what it says is above");
    }
    throw UserError(raw.front().string(),
                    "was recorded, but this nsys makes no report of it: its importer is missing",
                    "open it in Nsight Systems of the same version, or install all of that");
  }
  const int imported = import_nsight_sessions(
      databases, {output, options.top, options.trace_limit, recorded, undisturbed});
  for (const path& file : reports)
    fmt::print("session: {} (open it in Nsight Systems: nsys-ui)\n", printable(file.string()));
  if (!problem.empty()) fmt::print(stderr, "rtfx: notice: {}\n", problem);
  return code != 0 ? kFailed : imported;
}

}  // namespace rtfx
