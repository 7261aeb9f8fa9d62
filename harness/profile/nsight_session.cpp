#include "harness/profile/nsight_session.h"

#include <c10/cuda/CUDAFunctions.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/printable.h"
#include "base/process.h"
#include "base/terminal.h"
#include "harness/profile/child_process.h"
#include "harness/profile/nsight_export.h"
#include "harness/profile/profile_report.h"
#include "harness/results/journal.h"

namespace rtfx {

namespace {

/// Returns the record of a case with the fields in its name, which is like
/// model/dataset/decoder/b16/fp32. An option of the decoder may be a path. Any other name is taken
/// as the decoder's.
record::Profile profile_named(const std::string& name) {
  std::vector<std::string> parts;
  std::stringstream rest(name);
  for (std::string part; std::getline(rest, part, '/');) parts.push_back(part);
  if (parts.size() < 5 || parts[parts.size() - 2].empty()) parts = {"-", "-", name, "b0", "-"};
  const auto behind = parts.end() - 2;
  const std::string decoder = fmt::format("{}", fmt::join(parts.begin() + 2, behind, "/"));
  const std::string& batch = *behind;
  record::Profile profile;
  profile.schema = 1;
  profile.case_name = name;
  profile.result_key = "imported";
  profile.model.id = parts[0];
  profile.dataset.id = parts[1];
  profile.dataset.stand_in = Nullable<std::string>();
  profile.decoder.id = profile.decoder.name = decoder;
  profile.batch.by = batch.starts_with("s") ? "seconds" : "count";
  profile.batch.size = std::strtod(batch.c_str() + 1, nullptr);
  profile.dtype = parts.back();
  profile.valid = true;
  return profile;
}

class Importer {
 public:
  explicit Importer(const NsightImport& options) : options_(options) {}

  /// `gpu` is its name, or empty if nothing ran on one.
  record::Provenance provenance(const std::string& gpu, const std::string& file) const {
    for (const record::Any& record : options_.recorded) {
      if (const auto* known = std::get_if<record::Provenance>(&record)) return *known;
    }
    record::Provenance record;
    record.kind = "provenance";
    record.schema = 1;
    record.provenance_id = "imported";
    record.imported_from = file;
    record.device.emplace();
    record.device->type = gpu.empty() ? "cpu" : "cuda";
    record.device->name = gpu;
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
    std::vector<std::string> remarks;
    if (profile.remarks) remarks = *profile.remarks;
    const FigureOptions figures{with_gpu, session.whole_graphs, static_cast<size_t>(options_.top)};
    profile.regions = profiled_regions(one.ranges, one.laps, one.activity, figures, remarks);
    profile.remarks = std::move(remarks);
    if (with_gpu && !options_.undisturbed.empty()) add_busy(profile, options_.undisturbed);
    return profile;
  }

 private:
  const NsightImport& options_;
};

bool is_failure(const record::Any& record) {
  return std::holds_alternative<record::Failure>(record);
}

/// The sessions that have a round of a case, and the names of their files.
struct Sessions {
  std::vector<NsightSession> all;
  std::vector<std::string> files;
};

/// Throws NoRounds if no session has a round, unless the recorded process says why.
Sessions read_sessions(const std::vector<std::filesystem::path>& files,
                       const record::Records& recorded) {
  Sessions sessions;
  std::vector<NoRounds> left_out;
  for (const auto& file : files) {
    try {
      sessions.all.push_back(read_nsight_session(file));
      sessions.files.push_back(file.filename().string());
    } catch (const NoRounds& e) {
      left_out.push_back(e);
    }
  }
  const bool reason = std::ranges::any_of(recorded, is_failure);
  if (sessions.all.empty() && !left_out.empty() && !reason) throw left_out.front();
  for (const NoRounds& one : left_out) {
    print_message("rtfx: notice: {} is left out: it holds no round of a case\n",
                  printable(one.where()));
  }
  return sessions;
}

}  // namespace

int import_nsight_sessions(const std::vector<std::filesystem::path>& files,
                           const NsightImport& options) {
  const Sessions sessions = read_sessions(files, options.recorded);
  size_t cases = 0;
  for (const NsightSession& session : sessions.all) cases += session.cases.size();
  const Importer importer(options);
  TraceFile trace(options.trace_limit, cases);
  Journal journal(options.output, Journal::Mode::force, "profile.jsonl", /*resumable=*/false);
  record::Records records;
  const auto append = [&](record::Any record) {
    record::common_fields(record).profiled = true;
    journal.append(record);
    records.push_back(std::move(record));
  };
  append(sessions.all.empty()
             ? importer.provenance("", "")
             : importer.provenance(sessions.all.front().gpu, sessions.files.front()));
  for (const record::Any& record : options.recorded) {
    if (is_failure(record)) append(record);
  }
  for (size_t i = 0; i < sessions.all.size(); ++i) {
    for (const NsightCase& one : sessions.all[i].cases) {
      append(importer.profile(sessions.all[i], one, sessions.files[i]));
      trace.add_case(one.name, one.ranges, one.activity, one.laps.front().end);
    }
  }
  print_profile(records);
  fmt::print("\nrecords: {}\n", printable(journal.path().string()));
  if (options.trace_limit > 0) {
    const auto path = options.output / "trace.json";
    trace.write(path);
    fmt::print("timeline: {} ({})\n", printable(path.string()), trace.summary());
  }
  std::fflush(stdout);
  return kOk;
}

namespace {

using std::filesystem::path;

// The places where Nsight Systems' own installer, a CUDA toolkit and Debian put it. The copy of
// Nsight Compute comes last, since it records but cannot make a report.
constexpr const char* kPlaces[] = {"/opt/nvidia/nsight-systems*/*/bin/nsys",
                                   "/opt/nvidia/nsight-systems*/*/target-linux-x64/nsys",
                                   "/usr/local/cuda*/bin/nsys",
                                   "/usr/lib/nsight-systems/bin/nsys",
                                   "/opt/nvidia/nsight-compute/*/host/target-linux-x64/nsys",
                                   "/usr/local/cuda*/nsight-compute-*/host/target-linux-x64/nsys"};

/// Returns the files <report>.<ending>, <report>.1.<ending>, <report>.2.<ending>, ..., since a
/// session may have several. If `ending` is empty, returns files with any ending. It lists the
/// folder, since a folder's name may have characters of a pattern.
std::vector<path> made(const path& report, const std::string& ending) {
  const std::string begin = report.filename().string() + ".";
  std::vector<path> files;
  std::error_code error;  // the folder may not exist yet
  for (const auto& entry : std::filesystem::directory_iterator(report.parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    const bool ends = ending.empty() || name.ends_with("." + ending);
    if (name.starts_with(begin) && ends) files.push_back(entry.path());
  }
  std::ranges::sort(
      files, {}, [](const path& file) { return std::pair(file.string().size(), file.string()); });
  return files;
}

/// Returns <output>/nsys, or nsys-2, ... if there are reports of that name.
path new_report(const path& output) {
  for (int number = 1;; ++number) {
    path report = output / (number == 1 ? "nsys" : fmt::format("nsys-{}", number));
    if (made(report, "").empty()) return report;
  }
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
  require_case(config, options.only);
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
    print_message("rtfx: notice: first {} laps without a collector\n", options.laps);
    undisturbed = undisturbed_laps(config, options.laps, options.only, problem);
  }
  print_message("rtfx: notice: {}\n", printable(shell_line(nsys.string(), arguments)));
  const int code = run_program(nsys.string(), arguments, {.out = STDERR_FILENO});
  const path journal = output / kRecorded;
  record::Records recorded;
  if (std::filesystem::exists(journal)) recorded = read_journal(journal);
  std::filesystem::remove(journal);

  const std::vector<path> databases = made(report, "sqlite"), reports = made(report, "nsys-rep");
  if (const std::vector<path> raw = made(report, "qdstrm");
      databases.empty() && (!raw.empty() || std::ranges::none_of(recorded, is_failure))) {
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
  if (!problem.empty()) print_message("rtfx: notice: {}\n", problem);
  return code != 0 ? kFailed : imported;
}

}  // namespace rtfx
