#include "harness/report/export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "harness/results/conclusion.h"
#include "harness/results/stand_in.h"
#include "harness/results/tuned.h"

namespace rtfx {

namespace {

using Replacements = std::map<char, std::string_view>;

std::string replaced(std::string_view text, const Replacements& replacements) {
  std::string out;
  for (const char c : printable(text)) {
    const auto found = replacements.find(c);
    if (found == replacements.end()) {
      out += c;
    } else {
      out += found->second;
    }
  }
  return out;
}

}  // namespace

std::string latex_text(std::string_view text) {
  static const Replacements replacements = {{'\\', "\\textbackslash{}"},
                                            {'{', "\\{"},
                                            {'}', "\\}"},
                                            {'$', "\\$"},
                                            {'&', "\\&"},
                                            {'#', "\\#"},
                                            {'%', "\\%"},
                                            {'_', "\\_"},
                                            {'^', "\\textasciicircum{}"},
                                            {'~', "\\textasciitilde{}"},
                                            {'<', "\\textless{}"},
                                            {'>', "\\textgreater{}"},
                                            {'|', "\\textbar{}"},
                                            {'[', "{[}"},
                                            {']', "{]}"},
                                            {'*', "{*}"}};
  std::string out = replaced(text, replacements);
  for (size_t at = 0; (at = out.find("±", at)) != std::string::npos;) out.replace(at, 2, "$\\pm$");
  return out;
}

std::string markdown_text(std::string_view text) {
  static const Replacements replacements = {
      {'\\', "\\\\"}, {'`', "\\`"},  {'*', "\\*"}, {'_', "\\_"}, {'[', "\\["},
      {']', "\\]"},   {'|', "\\|"},  {'$', "\\$"}, {'~', "\\~"}, {'!', "\\!"},
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}};
  return replaced(text, replacements);
}

std::string xml_text(std::string_view text) {
  static const Replacements replacements = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&apos;"}};
  return replaced(text, replacements);
}

std::string csv_text(std::string_view text) {
  std::string field = printable(text);
  if (!field.empty() && std::string_view("=+-@").find(field.front()) != std::string::npos)
    field.insert(0, "'");
  if (field.find_first_of(",\"") == std::string::npos) return field;
  std::string quoted = "\"";
  for (const char c : field) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

const std::vector<std::string>& export_formats() {
  static const std::vector<std::string> formats = {
      "gbench", "bmf",      "github-action", "prometheus",
      "csv",    "markdown", "latex",         kOpenAsrLeaderboard};
  return formats;
}

namespace {

record::Build build_of(const record::Provenance& provenance) {
  return provenance.rtfx.value_or(record::Build());
}

/// Says that `rtfx tune` chose weights of the case; empty if it did not.
std::string tuned_text(const std::vector<TunedSearch>& searches, const CaseResult& c) {
  for (const TunedSearch& search : searches)
    if (search.chosen && search.is_for(c)) return search.sentence;
  return "";
}

std::string device_name(const record::Provenance& provenance, const std::string& unknown) {
  return provenance.device ? provenance.device->name.value_or(unknown) : unknown;
}

}  // namespace

void require_measurement(const ResultSet& results) {
  for (const CaseResult* c : results.all()) {
    for (const record::Provenance* provenance : c->provenances()) {
      const record::Build build = build_of(*provenance);
      if (build.build_type.value_or("Release") == "Release" && build.sanitizer != true) continue;
      throw UserError(results.journal.string(), "comes from a build that is not for measuring",
                      "use the preset 'release'");
    }
  }
}

namespace {

/// Throws UserError for a chosen metric that the list would leave out.
void require_direction(const std::vector<Metric>& chosen, bool smaller_is_better) {
  for (const Metric& metric : chosen) {
    if (metric.direction == (smaller_is_better ? -1 : 1)) continue;
    const std::string where = fmt::format("--metric {}", metric.key);
    if (metric.direction == 0)
      throw UserError(where, "is neither better nor worse where it is larger",
                      "choose another format: --to github-action lists what can get worse");
    throw UserError(
        where, fmt::format("is better where it is {}", smaller_is_better ? "larger" : "smaller"),
        smaller_is_better ? "list it without --smaller-is-better, in another file"
                          : "list it with --smaller-is-better, in another file");
  }
}

}  // namespace

std::string export_results(const ResultSet& results, const std::string& format,
                           const ExportOptions& options) {
  require_measurement(results);
  std::vector<Metric> chosen;
  for (const std::string& key : options.metrics) {
    // Formats such as Prometheus' forbid a second one.
    if (std::ranges::any_of(chosen, [&](const Metric& metric) { return key == metric.key; }))
      continue;
    chosen.push_back(find_metric(key, "--metric"));
    chosen.back().in_tables = true;  // a metric that was named must be shown
  }
  if (format == "github-action") require_direction(chosen, options.smaller_is_better);
  if (chosen.empty()) chosen = metrics();
  if (format == "github-action")
    return export_github_action(results, chosen, options.smaller_is_better);
  if (options.smaller_is_better)
    throw UserError("--smaller-is-better", "is for --to github-action alone", "leave it out");
  using Writer = std::string (*)(const ResultSet&, const std::vector<Metric>&);
  static const std::map<std::string, Writer> writers = {
      {"gbench", export_gbench}, {"bmf", export_bmf},           {"prometheus", export_prometheus},
      {"csv", export_csv},       {"markdown", export_markdown}, {"latex", export_latex}};
  const auto writer = writers.find(format);
  if (format == kOpenAsrLeaderboard) {
    throw UserError("--to " + format, "writes a folder of files", "name it with --output FOLDER");
  }
  if (writer == writers.end()) throw unknown_name("--to", "format", format, export_formats());
  return writer->second(results, chosen);
}

// Writes the line of `rtfx summary`. It is written in parts, so that a long journal is in memory
// only once.

namespace {

class SummaryWriter {
 public:
  explicit SummaryWriter(const std::function<void(std::string_view)>& write) : write_(write) {}

  void text(std::string_view text) {
    text_ += text;
    flush(kPart);
  }
  void json(const nlohmann::json& value) {
    std::string line = to_line(value);
    line.pop_back();
    text(line);
  }
  void record(const auto& record) {
    record::write(record, text_);
    flush(kPart);
  }
  /// Writes the elements as a list, each by `one`.
  void list(const auto& elements, const auto& one) {
    text_ += '[';
    const char* separator = "";
    for (const auto& element : elements) {
      text_ += separator;
      separator = ",";
      one(element);
    }
    text_ += ']';
  }
  void flush(size_t most = 0) {
    if (text_.size() <= most) return;
    write_(text_);
    text_.clear();
  }

 private:
  static constexpr size_t kPart = size_t{1} << 20;

  const std::function<void(std::string_view)>& write_;
  std::string text_;
};

void write_case(const CaseResult& c, SummaryWriter& out) {
  nlohmann::json members = summary_json(c.summary);
  members["figures"] = figures_json(c);
  members["last"] = members["rounds"] = nullptr;  // written later, in their places
  char separator = '{';
  for (const auto& [name, value] : members.items()) {
    out.text(fmt::format("{}\"{}\":", separator, name));
    separator = ',';
    if (name == "last") {
      out.record(c.summary.last);
    } else if (name == "rounds") {
      out.list(c.rounds(), [&](const record::Round& round) { out.record(round); });
    } else {
      out.json(value);
    }
  }
  out.text("}");
}

}  // namespace

void write_summary(const ResultSet& results, const std::function<void(std::string_view)>& write) {
  SummaryWriter out(write);
  std::vector<const CaseResult*> cases, streams;
  for (const CaseResult& c : results.cases) cases.push_back(&c);
  for (const CaseResult& c : results.streams) {
    if (!c.sustained) streams.push_back(&c);
  }
  nlohmann::json meanings = nlohmann::json::object();
  for (const auto& [mark, meaning] : meanings_of(results)) meanings[mark] = meaning;
  const auto one = [&](const CaseResult* c) { write_case(*c, out); };
  out.text("{\"cases\":");
  out.list(cases, one);
  out.text(",\"mark_meanings\":");
  out.json(meanings);
  out.text(",\"metrics\":");
  out.json(metrics_json());
  out.text(",\"provenances\":");
  out.list(results.provenances, [&](const record::Provenance& p) { out.record(p); });
  out.text(",\"streams\":");
  out.list(streams, one);
  out.text(",\"tuned\":");
  out.json(tuned_sentences(results));
  out.text("}\n");
  out.flush();
}

// Exports to JSON: gbench, bmf, github-action.

namespace {

using ordered = nlohmann::ordered_json;

std::string with(std::string key, char separator) {
  std::replace(key.begin(), key.end(), '.', separator);
  return key;
}

std::string dump(const ordered& document) { return document.dump(2) + "\n"; }

/// Returns the context of the measurement: the standard keys that are known, and then strings. Each
/// file of Google Benchmark has `caches`, and Bencher's adapter requires it.
ordered gbench_context(const record::Provenance& provenance, const std::string& marks,
                       const std::string& tuned) {
  const record::Build build = build_of(provenance);
  ordered context = {{"date", provenance.started.value_or("")}};
  if (provenance.host_name) context["host_name"] = *provenance.host_name;
  context.update(ordered{{"executable", "rtfx"},
                         {"num_cpus", provenance.cpu ? provenance.cpu->cores.value_or(0) : 0},
                         {"caches", ordered::array()},
                         {"library_build_type", "release"},
                         {"json_schema_version", 1},
                         {"rtfx_version", build.version.value_or("")},
                         {"rtfx_revision", build.revision.value_or("")},
                         {"rtfx_config_hash", provenance.config_hash.value_or("")},
                         {"rtfx_device", device_name(provenance, "")},
                         {"rtfx_marks", marks}});
  if (!tuned.empty()) context["rtfx_tuned"] = tuned;
  return context;
}

/// Returns an entry without a time of its own, for a failure or a count. compare.py requires times
/// of each entry, and leaves aggregates out of its mean.
ordered gbench_timeless(const std::string& name, const char* aggregate) {
  return {{"name", name},
          {"run_name", name},
          {"run_type", "aggregate"},
          {"aggregate_name", aggregate},
          {"aggregate_unit", "time"},
          {"threads", 1},
          {"iterations", 0},
          {"real_time", 0.0},
          {"cpu_time", 0.0},
          {"time_unit", "ms"}};
}

/// Returns the milliseconds of a repetition: from samples to text, or the latency of a stream's
/// request.
std::optional<double> gbench_time(const record::Round& round) {
  if (const auto* run = std::get_if<record::Run>(&round)) return 1e3 * run->total_seconds;
  const record::Figures& metrics = record::metrics(round);
  const auto found = metrics.find("stream.total_ms");
  return found != metrics.end() && found->second ? std::optional<double>(*found->second)
                                                 : std::nullopt;
}

ordered gbench_round(const CaseResult& c, size_t index, const std::vector<Metric>& metrics) {
  const record::Round& round = c.rounds()[index];
  const auto* run = std::get_if<record::Run>(&round);
  const auto time = gbench_time(round);
  ordered entry = gbench_timeless(c.name(), "count");
  if (time) {
    entry = {{"name", c.name()},
             {"run_name", c.name()},
             {"run_type", "iteration"},
             {"repetitions", c.rounds().size()},
             {"repetition_index", index},
             {"threads", c.provenance().cpu ? c.provenance().cpu->threads.value_or(1) : 1},
             {"iterations", 1},
             {"real_time", *time},
             // compare.py requires it for every entry, and takes the difference of two zeros as
             // none.
             {"cpu_time", run == nullptr ? 0.0 : 1e3 * run->cpu_seconds.value_or(0.0)},
             {"time_unit", "ms"}};
  }
  if (!c.summary.marks().empty())
    entry["label"] = fmt::format("{}", fmt::join(c.summary.marks(), " "));
  if (record::is_suspect(round))
    entry["suspect"] = fmt::format("{}", fmt::join(*record::suspect_reasons(round), " "));
  for (const Metric& metric : metrics) {
    const auto value = value_in(metric, round);
    if (!value) continue;
    const std::string key = metric.key;
    entry[key == "rtfx.total" ? "items_per_second" : with(key, '_')] = *value;
  }
  return entry;
}

/// Returns "gpu: NVIDIA H200\n...", for the tool tip of a point.
std::string origin(const CaseResult& c) {
  const record::Build build = build_of(c.provenance());
  std::string text = fmt::format(
      "device: {}\nrtfx {} ({})\nrounds: {}\ngrade: {}", device_name(c.provenance(), "unknown"),
      build.version.value_or("?"), build.revision.value_or("?"), c.rounds().size(),
      c.summary.grade.empty() ? "-" : c.summary.grade);
  for (const std::string& mark : c.summary.marks()) text += "\n" + mark;
  for (const auto& [mark, meaning] : meanings_of_marks({c.summary}))
    text += "\n" + mark + ": " + meaning;
  return text;
}

}  // namespace

std::string export_gbench(const ResultSet& results, const std::vector<Metric>& metrics) {
  std::string marks;
  for (const auto& [mark, meaning] : meanings_of(results))
    marks += (marks.empty() ? "" : "; ") + mark + ": " + meaning;
  const std::string tuned = fmt::format("{}", fmt::join(tuned_sentences(results), " "));
  ordered document = {{"context", gbench_context(results.provenance, marks, tuned)},
                      {"benchmarks", ordered::array()}};
  for (const CaseResult* c : results.all()) {
    if (c->summary.failure) {
      ordered entry = gbench_timeless(c->name(), "failure");
      entry["error_occurred"] = true;
      entry["error_message"] = *c->summary.failure;
      document["benchmarks"].push_back(std::move(entry));
    }
    for (size_t i = 0; i < c->rounds().size(); ++i)
      document["benchmarks"].push_back(gbench_round(*c, i, metrics));
  }
  return dump(document);
}

std::string export_bmf(const ResultSet& results, const std::vector<Metric>& metrics) {
  ordered document = ordered::object();
  const std::vector<TunedSearch> searches = tuned_searches(results);
  for (const CaseResult* c : results.all()) {
    ordered measures = ordered::object();
    for (const Metric& metric : metrics) {
      const auto value = metric_interval(metric, *c);
      if (!value) continue;
      ordered entry = {{"value", value->estimate}};
      if (std::isfinite(value->low) && std::isfinite(value->high) && value->low < value->high) {
        entry["lower_value"] = value->low;
        entry["upper_value"] = value->high;
      }
      measures[with(metric.key, '-')] = std::move(entry);
    }
    if (measures.empty()) continue;
    // The names of these metrics say it, since the format holds only numbers.
    if (const auto share = c->summary.suspect_share())
      measures["suspect-round-share"] = {{"value", *share}};
    if (const auto share = c->summary.gaps()) measures["gap-share"] = {{"value", *share}};
    measures["noisy"] = {{"value", c->summary.noisy() ? 1 : 0}};
    if (!tuned_text(searches, *c).empty()) measures["tuned"] = {{"value", 1}};
    // The format has a place only for the name, and a series must not join one with the other.
    document[name_with_marks(c->name(), c->summary.stand_ins())] = std::move(measures);
  }
  return dump(document);
}

std::string export_github_action(const ResultSet& results, const std::vector<Metric>& metrics,
                                 bool smaller_is_better) {
  const int direction = smaller_is_better ? -1 : 1;
  ordered document = ordered::array();
  const std::vector<TunedSearch> searches = tuned_searches(results);
  for (const CaseResult* c : results.all()) {
    const std::string tuned = tuned_text(searches, *c);
    for (const Metric& metric : metrics) {
      const auto figure = figure_of(metric, *c);
      if (metric.direction != direction || !figure) continue;
      const bool share = *metric.unit == '\0';
      const double scale = share ? 100 : 1;
      ordered entry = {{"name", c->name() + " " + metric.key},
                       {"unit", share ? "%" : metric.unit},
                       {"value", scale * figure->interval.estimate}};
      if (figure->sd > 0) entry["range"] = fmt::format("± {:.3g}", scale * figure->sd);
      entry["extra"] = origin(*c) + (tuned.empty() ? "" : "\n" + tuned);
      document.push_back(std::move(entry));
    }
  }
  return dump(document);
}

// Exports to Prometheus' text format: a gauge for each metric and for each end of its interval.

namespace {

/// Prometheus requires base units, with their name at the end.
struct BaseUnit {
  const char* part;    // part of a metric's key that states the unit
  const char* suffix;  // suffix of the gauge's name
  double scale;
};

BaseUnit base_unit(const std::string& unit) {
  static const std::map<std::string, BaseUnit> units = {{"", {"", "_ratio", 1}},
                                                        {"x", {"", "_ratio", 1}},
                                                        {"ms", {"_ms", "_seconds", 1e-3}},
                                                        {"MiB", {"_mib", "_bytes", 1 << 20}}};
  const auto found = units.find(unit);
  return found == units.end() ? BaseUnit{"", "", 1} : found->second;
}

/// Returns rtfx_batch_p50_seconds for "batch_ms.p50", and rtfx_total_ratio for "rtfx.total".
std::string gauge_name(const Metric& metric) {
  std::string name = metric.key;
  const BaseUnit unit = base_unit(metric.unit);
  if (const size_t at = name.find(unit.part); *unit.part != '\0' && at != std::string::npos)
    name.erase(at, std::string(unit.part).size());
  std::ranges::replace(name, '.', '_');
  return (name.starts_with("rtfx_") ? "" : "rtfx_") + name + unit.suffix;
}

std::string label_value(const std::string& text) {
  std::string out;
  for (const char c : printable(text)) {
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

std::string labels(const CaseResult& c, const std::string& more = "") {
  const record::Case& about = c.about();
  const std::pair<const char*, std::string> pairs[] = {
      {"case", c.name()},
      {"model", about.model.id},
      {"dataset", about.dataset.id},
      {"decoder", c.decoder()},
      {"batch", fmt::format("{:g}", static_cast<double>(about.batch.size))},
      {"dtype", about.dtype},
      {"device", device_name(c.provenance(), "")}};
  std::string text;
  for (const auto& [name, value] : pairs)
    text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", name, label_value(value));
  return "{" + text + more + "}";
}

/// All samples of a gauge, with its heading; empty if there is none.
class Gauge {
 public:
  Gauge(std::string name, const std::string& help) : name_(std::move(name)), help_(help) {}

  void add(const std::string& labels, double value) {
    if (std::isfinite(value)) samples_ += fmt::format("{}{} {}\n", name_, labels, value);
  }
  std::string text() const {
    if (samples_.empty()) return "";
    return fmt::format("# HELP {0} {1}\n# TYPE {0} gauge\n{2}", name_, help_, samples_);
  }

 private:
  std::string name_, help_, samples_;
};

}  // namespace

std::string export_prometheus(const ResultSet& results, const std::vector<Metric>& metrics) {
  std::string text;
  for (const Metric& metric : metrics) {
    const std::string name = gauge_name(metric);
    const double scale = base_unit(metric.unit).scale;
    const std::string meaning = metric.meaning;
    Gauge mean(name, meaning);
    Gauge low(name + "_low", "Lower end of the 95 % interval: " + meaning);
    Gauge high(name + "_high", "Upper end of the 95 % interval: " + meaning);
    for (const CaseResult* c : results.all()) {
      const auto figure = figure_of(metric, *c);
      if (!figure) continue;
      mean.add(labels(*c), scale * figure->interval.estimate);
      low.add(labels(*c), scale * figure->interval.low);
      high.add(labels(*c), scale * figure->interval.high);
    }
    text += mean.text() + low.text() + high.text();
  }
  Gauge rounds("rtfx_rounds", "Measured rounds of the case");
  Gauge failed("rtfx_failed", "1 where the case failed");
  Gauge suspect("rtfx_suspect_ratio", "Share of the rounds that the machine disturbed");
  Gauge marked("rtfx_mark", "1 for what must be read with the case's figures");
  const std::vector<TunedSearch> searches = tuned_searches(results);
  for (const CaseResult* c : results.all()) {
    rounds.add(labels(*c), static_cast<double>(c->rounds().size()));
    failed.add(labels(*c), c->summary.failure ? 1 : 0);
    if (const auto share = c->summary.suspect_share()) suspect.add(labels(*c), *share);
    for (const std::string& mark : c->summary.marks())
      marked.add(labels(*c, fmt::format(",mark=\"{}\"", label_value(mark))), 1);
    if (!tuned_text(searches, *c).empty()) marked.add(labels(*c, ",mark=\"tuned\""), 1);
  }
  Gauge build("rtfx_build_info", "The rtfx that measured");
  const record::Build about = build_of(results.provenance);
  build.add(
      fmt::format("{{version=\"{}\",revision=\"{}\"}}", label_value(about.version.value_or("")),
                  label_value(about.revision.value_or(""))),
      1);
  return text + rounds.text() + failed.text() + suspect.text() + marked.text() + build.text();
}

// Exports to tables: csv, markdown, latex.

namespace {

using Row = std::vector<std::string>;

struct Table {
  Row head;
  std::vector<bool> is_number;  // indexed by column
  std::vector<Row> rows;
};

std::string batch_text(const CaseResult& c) {
  const record::Batch& batch = c.about().batch;
  return fmt::format("{:g}{}", static_cast<double>(batch.size), batch.by == "seconds" ? " s" : "");
}

std::string marks_text(const CaseResult& c) {
  return fmt::format("{}", fmt::join(c.summary.marks(), " "));
}

/// Returns the reasons of suspect rounds and how many have them, such as "cpu_wait 3 sw_power_cap
/// 1".
std::string reasons_text(const CaseResult& c) {
  std::string text;
  for (const auto& [reason, rounds] : c.summary.suspect_reasons())
    text += fmt::format("{}{} {}", text.empty() ? "" : " ", reason, rounds);
  return text;
}

/// Returns, for example, "exact" or "text ~ NOISY".
std::string judgement(const CaseResult& c) {
  const std::string grade = c.summary.grade_text(), marks = marks_text(c);
  return grade + (grade.empty() || marks.empty() ? "" : " ") + marks;
}

/// Returns the columns that identify the case of a row.
Row identity(const CaseResult& c) {
  const record::Case& about = c.about();
  return {about.model.id, about.dataset.id, c.decoder(),
          batch_text(c),  about.dtype,      device_name(c.provenance(), about.device)};
}

Table identity_table() {
  return {{"model", "dataset", "decoder", "batch", "dtype", "device"},
          {false, false, false, true, false, false},
          {}};
}

std::string joined(const Row& row, const std::string& separator) {
  return fmt::format("{}", fmt::join(row, separator));
}

std::string number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : ""; }

/// Returns the rounded figure. It has a deviation if there are several rounds, and not for a count
/// that all of them repeat.
std::string rounded(const Metric& metric, const std::optional<Figure>& figure) {
  if (!figure) return "";
  const double mean = figure->interval.estimate;
  if (*metric.unit == '\0') return fmt::format("{:.2f}", 100 * mean);
  const bool count = metric.change == Metric::Change::difference && mean == std::round(mean);
  const int digits = mean < 100 && !count ? 1 : 0;
  if (figure->rounds == 1 || (count && figure->sd == 0))
    return fmt::format("{:.{}f}", mean, digits);
  return fmt::format("{:.{}f} ± {:.{}f}", mean, digits, figure->sd, digits);
}

/// Returns the metrics of the table for people, or the chosen metrics. They are those that any case
/// has or that the gate judges.
std::vector<Metric> columns_of(const ResultSet& results, const std::vector<Metric>& metrics) {
  std::vector<Metric> columns;
  for (const Metric& metric : metrics) {
    const bool known = std::ranges::any_of(results.all(), [&](const CaseResult* c) {
      return !metric_values(metric, c->rounds()).empty();
    });
    const bool wanted = metric.tolerance && !results.cases.empty();
    if (metric.in_tables && (known || wanted)) columns.push_back(metric);
  }
  return columns;
}

/// Returns the table for people, with rounded figures.
Table readable(const ResultSet& results, const std::vector<Metric>& columns) {
  Table table = identity_table();
  for (const Metric& metric : columns) {
    table.head.push_back(*metric.unit == '\0' ? fmt::format("{} %", metric.key) : metric.key);
    table.is_number.push_back(true);
  }
  table.head.emplace_back("grade");
  table.is_number.push_back(false);
  for (const CaseResult* c : results.all()) {
    Row row = identity(*c);
    for (const Metric& metric : columns) row.push_back(rounded(metric, figure_of(metric, *c)));
    row.push_back(judgement(*c));
    table.rows.push_back(std::move(row));
  }
  return table;
}

/// Removes identity columns that are equal in every row, and says what they hold. The decoder
/// stays.
std::string take_constants(Table& table) {
  Row constants;
  for (size_t column = identity_table().head.size(); column-- > 0;) {
    if (table.head[column] == "decoder") continue;
    const std::string value = table.rows.front()[column];
    bool same = true;
    for (const Row& row : table.rows) same = same && row[column] == value;
    if (!same) continue;
    constants.insert(constants.begin(), table.head[column] + " " + value);
    const auto at = static_cast<std::ptrdiff_t>(column);
    table.head.erase(table.head.begin() + at);
    table.is_number.erase(table.is_number.begin() + at);
    for (Row& row : table.rows) row.erase(row.begin() + at);
  }
  return joined(constants, ", ");
}

std::string caption(const ResultSet& results, const std::vector<Metric>& columns,
                    const std::string& constants) {
  const record::Build build = build_of(results.provenance);
  std::string text = "RTFx: seconds of audio per second of work, mean ± sd over rounds.";
  if (!constants.empty()) text += " In all rows: " + constants + ".";
  std::set<std::string> models;
  for (const CaseResult* c : results.all()) {
    const record::Model& model = c->about().model;
    if (const std::string what = stand_in_model(model); !what.empty())
      models.insert(fmt::format("{} is {}", model.id, what));
  }
  if (!models.empty()) text += fmt::format(" Stand-in models: {}.", fmt::join(models, "; "));
  for (const Metric& metric : columns) {
    if (!metric.tolerance)
      text += fmt::format(" {}{}: {}", metric.key,
                          *metric.unit == '\0' ? "" : fmt::format(" ({})", metric.unit),
                          metric.meaning);
  }
  for (const auto& [mark, meaning] : meanings_of(results))
    text += " " + mark + ": " + meaning + ".";
  std::set<std::string> stand_ins;
  for (const CaseResult* c : results.all()) {
    if (c->summary.stand_in_data.empty()) continue;
    stand_ins.insert(fmt::format("{} is {}", c->about().dataset.id, c->summary.stand_in_data));
  }
  if (!stand_ins.empty()) text += fmt::format(" Stand-in data: {}.", fmt::join(stand_ins, "; "));
  for (const std::string& sentence : tuned_sentences(results)) text += " " + sentence;
  return text +
         fmt::format(" rtfx {} ({}).", build.version.value_or("?"), build.revision.value_or("?"));
}

template <class Escape>
Row escaped(const Row& row, const Escape& escape) {
  Row out;
  for (const std::string& text : row) out.push_back(escape(text));
  return out;
}

}  // namespace

std::string export_csv(const ResultSet& results, const std::vector<Metric>& metrics) {
  Row head = identity_table().head;
  head.insert(head.begin(), "case");
  for (const char* name : {"rounds", "grade", "marks", "suspect.share", "suspect.reasons",
                           "gaps.share", "tuned", "failure"})
    head.emplace_back(name);
  for (const Metric& metric : metrics) {
    for (const char* part : {"", ".sd", ".low", ".high"})
      head.push_back(metric.key + std::string(part));
  }
  std::string text = joined(head, ",") + "\n";
  const std::vector<TunedSearch> searches = tuned_searches(results);
  for (const CaseResult* c : results.all()) {
    Row row = identity(*c);
    row.insert(row.begin(), c->name());
    row.push_back(std::to_string(c->rounds().size()));
    row.push_back(c->summary.grade_text());
    row.push_back(marks_text(*c));
    const auto suspect = c->summary.suspect_share(), gaps = c->summary.gaps();
    row.push_back(suspect ? number(*suspect) : "");
    row.push_back(reasons_text(*c));
    row.push_back(gaps ? number(*gaps) : "");
    row.push_back(tuned_text(searches, *c));
    row.push_back(c->summary.failure.value_or(""));
    row = escaped(row, csv_text);
    for (const Metric& metric : metrics) {
      const auto figure = figure_of(metric, *c);
      row.push_back(figure ? number(figure->interval.estimate) : "");
      row.push_back(figure ? number(figure->sd) : "");
      row.push_back(figure ? number(figure->interval.low) : "");
      row.push_back(figure ? number(figure->interval.high) : "");
    }
    text += joined(row, ",") + "\n";
  }
  return text;
}

std::string export_markdown(const ResultSet& results, const std::vector<Metric>& metrics) {
  const std::vector<Metric> columns = columns_of(results, metrics);
  Table table = readable(results, columns);
  const std::string constants = take_constants(table);
  const Conclusion conclusion = conclude(all_of(results));
  std::string text;
  for (const std::string& sentence : conclusion.wrong)
    text += "**" + markdown_text(sentence) + "**\n\n";
  text += "| " + joined(escaped(table.head, markdown_text), " | ") + " |\n|";
  for (const bool right : table.is_number) text += right ? "--:|" : "---|";
  text += "\n";
  for (const Row& row : table.rows)
    text += "| " + joined(escaped(row, markdown_text), " | ") + " |\n";
  text += "\n" + markdown_text(caption(results, columns, constants)) + "\n";
  for (const std::string& sentence : conclusion.won) text += "\n" + markdown_text(sentence) + "\n";
  return text;
}

std::string export_latex(const ResultSet& results, const std::vector<Metric>& metrics) {
  const std::vector<Metric> columns = columns_of(results, metrics);
  Table table = readable(results, columns);
  const std::string constants = take_constants(table);
  std::string alignment;
  for (const bool right : table.is_number) alignment += right ? 'r' : 'l';
  std::string text =
      "% " + printable(caption(results, columns, constants)) + "\n% Needs the package booktabs.\n";
  text += "\\begin{tabular}{" + alignment + "}\n\\toprule\n";
  text += joined(escaped(table.head, latex_text), " & ") + " \\\\\n\\midrule\n";
  for (const Row& row : table.rows) text += joined(escaped(row, latex_text), " & ") + " \\\\\n";
  return text + "\\bottomrule\n\\end{tabular}\n";
}

}  // namespace rtfx
