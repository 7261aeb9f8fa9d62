// Exporter to Prometheus' text format: a gauge for each metric and each end of its interval.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/printable.h"
#include "harness/report/export.h"

namespace rtfx {
namespace {

using nlohmann::json;

/// Prometheus wants base units, named at the end.
struct BaseUnit {
  const char* part;    // of a metric's key, which says the unit there
  const char* suffix;  // of the gauge's name
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

/// "batch_ms.p50" is rtfx_batch_p50_seconds, "rtfx.total" rtfx_total_ratio.
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
  const json& last = c.summary.last;
  const std::pair<const char*, std::string> pairs[] = {
      {"case", c.name()},
      {"model", last.at("model").at("id")},
      {"dataset", last.at("dataset").at("id")},
      {"decoder", c.decoder()},
      {"batch", fmt::format("{:g}", last.at("batch").at("size").get<double>())},
      {"dtype", last.at("dtype")},
      {"device", c.provenance.value("/device/name"_json_pointer, "")}};
  std::string text;
  for (const auto& [name, value] : pairs)
    text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", name, label_value(value));
  return "{" + text + more + "}";
}

/// All samples of a gauge, with its head; empty where there is none.
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
  for (const CaseResult* c : results.all()) {
    rounds.add(labels(*c), static_cast<double>(c->rounds.size()));
    failed.add(labels(*c), c->summary.failure ? 1 : 0);
    if (const auto share = c->summary.suspect_share()) suspect.add(labels(*c), *share);
    for (const std::string& mark : c->summary.marks())
      marked.add(labels(*c, fmt::format(",mark=\"{}\"", label_value(mark))), 1);
  }
  Gauge build("rtfx_build_info", "The rtfx that measured");
  const json about = results.provenance.value("rtfx", json::object());
  build.add(
      fmt::format("{{version=\"{}\",revision=\"{}\"}}", label_value(about.value("version", "")),
                  label_value(about.value("revision", ""))),
      1);
  return text + rounds.text() + failed.text() + suspect.text() + marked.text() + build.text();
}

}  // namespace rtfx
