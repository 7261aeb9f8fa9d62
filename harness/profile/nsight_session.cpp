#include "harness/profile/nsight_session.h"

#include <c10/cuda/CUDAFunctions.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "base/error.h"
#include "base/files.h"
#include "base/printable.h"
#include "harness/profile/child_process.h"
#include "harness/profile/nsight_export.h"
#include "harness/profile/profile_report.h"
#include "harness/results/journal.h"

namespace rtfx {

namespace {

/// The record of a case with the fields in its name of the form model/dataset/decoder/b16/fp32. Any
/// other name is the decoder's.
record::Profile profile_named(const std::string& name) {
  std::vector<std::string> parts;
  std::stringstream rest(name);
  for (std::string part; std::getline(rest, part, '/');) parts.push_back(part);
  if (parts.size() != 5) parts = {"-", "-", name, "b0", "-"};
  const std::string& batch = parts[3];
  record::Profile profile;
  profile.schema = 1;
  profile.case_name = name;
  profile.result_key = "imported";
  profile.model.id = parts[0];
  profile.dataset.id = parts[1];
  profile.dataset.stand_in = Nullable<std::string>();
  profile.decoder.id = profile.decoder.name = parts[2];
  profile.batch.by = batch.starts_with("s") ? "seconds" : "count";
  profile.batch.size = std::strtod(batch.c_str() + 1, nullptr);
  profile.dtype = parts[4];
  return profile;
}

class Importer {
 public:
  explicit Importer(const NsightImport& options) : options_(options) {}

  record::Provenance provenance(const NsightSession& session, const std::string& file) const {
    for (const record::Any& record : options_.recorded) {
      if (const auto* known = std::get_if<record::Provenance>(&record)) return *known;
    }
    record::Provenance record;
    record.kind = "provenance";
    record.schema = 1;
    record.provenance_id = "imported";
    record.imported_from = file;
    record.device.emplace();
    record.device->type = session.gpu.empty() ? "cpu" : "cuda";
    record.device->name = session.gpu;
    return record;
  }

  record::Profile profile(const NsightSession& session, const NsightCase& one,
                          const std::string& file) const {
    record::Profile profile = profile_named(one.name);
    profile.provenance_id = "imported";
    const bool with_gpu = !session.gpu.empty();
    profile.device = with_gpu ? "cuda" : "cpu";
    for (const record::Any& record : options_.recorded) {
      const auto* known = std::get_if<record::Profile>(&record);
      if (known != nullptr && known->case_name == one.name) profile = *known;
    }
    using Text = Nullable<std::string>;
    profile.kind = "profile";
    profile.started = session.started;
    profile.laps = static_cast<int64_t>(one.laps.size());
    profile.gpu_figures = with_gpu ? Text("nsight_systems") : std::nullopt;
    profile.graph_trace = with_gpu ? Text(session.whole_graphs ? "graph" : "node") : std::nullopt;
    profile.collector = Text(fmt::format("{} ({})", session.product, file));
    profile.dropped_records = profile.records_without_time = Nullable<int64_t>();
    profile.valid = true;
    std::vector<std::string> remarks;
    const FigureOptions figures{with_gpu, session.whole_graphs, static_cast<size_t>(options_.top)};
    profile.regions = profiled_regions(one.ranges, one.laps, one.activity, figures, remarks);
    profile.remarks = std::move(remarks);
    if (with_gpu && !options_.undisturbed.empty()) add_busy(profile, options_.undisturbed);
    return profile;
  }

 private:
  const NsightImport& options_;
};

}  // namespace

int import_nsight_sessions(const std::vector<std::filesystem::path>& files,
                           const NsightImport& options) {
  std::vector<NsightSession> sessions;
  size_t cases = 0;
  for (const auto& file : files) {
    sessions.push_back(read_nsight_session(file));
    cases += sessions.back().cases.size();
  }
  const Importer importer(options);
  TraceFile trace(options.trace_limit, cases);
  Journal journal(options.output, Journal::Mode::force, "profile.jsonl");
  record::Records records;
  const auto append = [&](record::Any record) {
    record::head(record).profiled = true;
    journal.append(record);
    records.push_back(std::move(record));
  };
  append(importer.provenance(sessions.front(), files.front().filename().string()));
  for (const record::Any& record : options.recorded) {
    if (std::holds_alternative<record::Failure>(record)) append(record);
  }
  for (size_t i = 0; i < sessions.size(); ++i) {
    for (const NsightCase& one : sessions[i].cases) {
      append(importer.profile(sessions[i], one, files[i].filename().string()));
      trace.add_case(one.name, one.ranges, one.activity, one.laps.front().end);
    }
  }
  print_profile(records);
  fmt::print("\nrecords: {}\n", printable(journal.path().string()));
  if (options.trace_limit > 0) {
    const auto path = options.output / "trace.json";
    trace.write(path);
    fmt::print("timeline: {} ({} events; open it in ui.perfetto.dev)\n", printable(path.string()),
               trace.events());
  }
  std::fflush(stdout);
  return kOk;
}

namespace {

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
  std::vector<record::Profile> undisturbed;
  if (with_gpu) {
    fmt::print(stderr, "rtfx: notice: first {} laps without a collector\n", options.laps);
    undisturbed = undisturbed_laps(config, options.laps, options.only, problem);
  }
  fmt::print(stderr, "rtfx: notice: {}\n", printable(shell_line(nsys.string(), arguments)));
  const int code = run_program(nsys.string(), arguments);
  const path journal = output / kRecorded;
  record::Records recorded;
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
