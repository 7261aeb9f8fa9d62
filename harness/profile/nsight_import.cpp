#include "harness/profile/nsight_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "base/exit_code.h"
#include "base/printable.h"
#include "harness/profile/nsight_export.h"
#include "harness/profile/profile_report.h"
#include "harness/profile/trace_file.h"
#include "harness/profile/undisturbed.h"
#include "harness/results/journal.h"

namespace rtfx {
namespace {

using nlohmann::json;

/// The fields in a name of the form model/dataset/decoder/b16/fp32. Any other name is the
/// decoder's.
json fields_of_name(const std::string& name) {
  std::vector<std::string> parts;
  std::stringstream rest(name);
  for (std::string part; std::getline(rest, part, '/');) parts.push_back(part);
  if (parts.size() != 5) parts = {"-", "-", name, "b0", "-"};
  const std::string& batch = parts[3];
  return {{"schema", 1},
          {"case", name},
          {"result_key", "imported"},
          {"model", {{"id", parts[0]}}},
          {"dataset", {{"id", parts[1]}, {"stand_in", nullptr}}},
          {"decoder", {{"id", parts[2]}, {"name", parts[2]}}},
          {"batch",
           {{"by", batch.starts_with("s") ? "seconds" : "count"},
            {"size", std::strtod(batch.c_str() + 1, nullptr)}}},
          {"dtype", parts[4]}};
}

class Importer {
 public:
  explicit Importer(const NsightImport& options) : options_(options) {}

  json provenance(const NsightSession& session, const std::string& file) const {
    for (const json& record : options_.recorded)
      if (record.value("kind", "") == "provenance") return record;
    json record = {{"kind", "provenance"},
                   {"schema", 1},
                   {"provenance_id", "imported"},
                   {"imported_from", file}};
    record["device"] = {{"type", session.gpu.empty() ? "cpu" : "cuda"}, {"name", session.gpu}};
    return record;
  }

  json record(const NsightSession& session, const NsightCase& one, const std::string& file) const {
    json record = fields_of_name(one.name);
    record["provenance_id"] = "imported";
    const bool with_gpu = !session.gpu.empty();
    record["device"] = with_gpu ? "cuda" : "cpu";
    for (const json& known : options_.recorded)
      if (known.value("kind", "") == "profile" && known["case"] == one.name) record = known;
    record["kind"] = "profile";
    record["started"] = session.started;
    record["laps"] = one.laps.size();
    record["gpu_figures"] = with_gpu ? json("nsight_systems") : json();
    record["graph_trace"] = with_gpu ? json(session.whole_graphs ? "graph" : "node") : json();
    record["collector"] = fmt::format("{} ({})", session.product, file);
    record["dropped_records"] = record["records_without_time"] = nullptr;
    record["valid"] = true;
    record["remarks"] = json::array();
    const FigureOptions figures{with_gpu, session.whole_graphs, static_cast<size_t>(options_.top)};
    record["regions"] =
        regions_json(one.ranges, one.laps, one.activity, figures, record["remarks"]);
    if (with_gpu && !options_.undisturbed.empty()) add_busy(record, options_.undisturbed);
    return record;
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
  std::vector<json> records;
  const auto append = [&](json record) {
    record["profiled"] = true;
    journal.append(record);
    records.push_back(std::move(record));
  };
  append(importer.provenance(sessions.front(), files.front().filename().string()));
  for (const json& record : options.recorded)
    if (record.value("kind", "") == "failure") append(record);
  for (size_t i = 0; i < sessions.size(); ++i) {
    for (const NsightCase& one : sessions[i].cases) {
      append(importer.record(sessions[i], one, files[i].filename().string()));
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

}  // namespace rtfx
