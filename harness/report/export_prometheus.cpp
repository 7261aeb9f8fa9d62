// Exports to Prometheus' text format: a gauge for each metric and for each end of its interval.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/printable.h"
#include "harness/report/export_writers.h"

namespace rtfx {

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

}  // namespace rtfx
