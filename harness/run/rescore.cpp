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

EditCounts edits_of(const std::vector<UtteranceText>& texts, const Normalizer& normalizer) {
  EditCounts total;
  for (const UtteranceText& text : texts) {
    if (text.reference)
      total += count_edits_and_characters(normalizer.words(*text.reference),
                                          normalizer.words(text.text));
  }
  return total;
}

std::string percent(const Nullable<Number>& wer) {
  return wer ? fmt::format("{:.2f} %", 100 * *wer) : "-";
}

/// Insertions into empty references make no rate.
std::string errors_text(const record::WordErrors& errors) {
  if (errors.wer || errors.insertions == 0) return percent(errors.wer);
  return fmt::format("- ({})", counted(errors.insertions, "insertion"));
}

}  // namespace

void rescore(const std::filesystem::path& run, const std::string& scorer,
             const std::filesystem::path& output) {
  const Normalizer& normalizer = find_normalizer(scorer, "--scorer");
  const ResultSet results = read_results(run);
  std::map<std::string, record::WordErrors> rescored;  // by result key
  for (const CaseResult& c : results.require_cases().cases) {
    const auto texts = read_hypotheses(results, c);
    const auto* first =
        c.rounds().empty() ? nullptr : std::get_if<record::Run>(&c.rounds().front());
    if (!texts || first == nullptr) continue;
    const record::WordErrors field = wer_field(edits_of(*texts, normalizer), normalizer);
    const record::WordErrors& before = first->wer;
    fmt::print("{}\n  {} {}: {}   {} {}: {}, characters {}\n", printable(c.name()),
               before.normalizer, before.version, errors_text(before), normalizer.name,
               normalizer.version, errors_text(field), field.cer ? percent(*field.cer) : "-");
    rescored[c.about().result_key] = field;
  }
  if (rescored.empty()) {
    throw UserError(results.journal.string(), "has no hypotheses beside it",
                    "give the folder that `rtfx run` wrote, with hypotheses/");
  }
  if (output.empty()) return;
  Journal journal(output, Journal::Mode::fresh);
  for (record::Any& record : read_journal(results.journal)) {
    auto* run = std::get_if<record::Run>(&record);
    const auto found = run == nullptr ? rescored.end() : rescored.find(run->result_key);
    if (found != rescored.end()) {
      run->wer = found->second;
      run->oracle_wer.reset();  // these are of the other scorer
      run->boosted.reset();
    }
    journal.append(record);
  }
  journal.sync();
}

}  // namespace rtfx
