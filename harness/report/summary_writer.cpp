#include "harness/report/summary_writer.h"

#include <fmt/format.h>

#include "base/json.h"
#include "harness/results/metrics.h"
#include "harness/results/tuned.h"

namespace rtfx {

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

}  // namespace rtfx
