#include "harness/run/rescore.h"

#include <fmt/format.h>

#include <map>

#include "base/error.h"
#include "base/printable.h"
#include "harness/results/journal.h"
#include "harness/results/results.h"
#include "harness/run/record.h"
#include "harness/scoring/normalize.h"

namespace rtfx {
namespace {

using nlohmann::json;

EditCounts edits_of(const std::vector<UtteranceText>& texts, const Normalizer& normalizer) {
  EditCounts total;
  for (const UtteranceText& text : texts) {
    if (text.reference)
      total += count_edits_and_characters(normalizer.words(*text.reference),
                                          normalizer.words(text.text));
  }
  return total;
}

std::string percent(const json& wer) {
  return wer.is_number() ? fmt::format("{:.2f} %", 100 * wer.get<double>()) : "-";
}

}  // namespace

void rescore(const std::filesystem::path& run, const std::string& scorer,
             const std::filesystem::path& output) {
  const Normalizer& normalizer = find_normalizer(scorer, "--scorer");
  const ResultSet results = read_results(run);
  std::map<std::string, json> rescored;  // by result key
  for (const CaseResult& c : results.require_cases().cases) {
    const auto texts = read_hypotheses(results, c);
    if (!texts || c.rounds.empty()) continue;
    const json field = record::write(wer_field(edits_of(*texts, normalizer), normalizer));
    const json& before = c.rounds.front().at("wer");
    fmt::print("{}\n  {} {}: {}   {} {}: {}, characters {}\n", printable(c.name()),
               before.at("normalizer").get<std::string>(), before.at("version").dump(),
               percent(before.at("wer")), normalizer.name, normalizer.version,
               percent(field.at("wer")), percent(field.value("cer", json())));
    rescored[c.summary.last.at("result_key")] = field;
  }
  if (rescored.empty()) {
    throw UserError(results.journal.string(), "has no hypotheses beside it",
                    "give the folder that `rtfx run` wrote, with hypotheses/");
  }
  if (output.empty()) return;
  Journal journal(output, Journal::Mode::fresh);
  for (json record : read_journal(results.journal)) {
    const auto found = rescored.find(record.value("result_key", ""));
    if (record.value("kind", "") == "run" && found != rescored.end()) {
      record["wer"] = found->second;
      for (const char* key : {"oracle_wer", "boosted"}) record.erase(key);  // of the other scorer
    }
    journal.append(record);
  }
  journal.sync();
}

}  // namespace rtfx
