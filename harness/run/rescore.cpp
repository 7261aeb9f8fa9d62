#include "harness/run/rescore.h"

#include <fmt/format.h>

#include <map>

#include "base/error.h"
#include "base/files.h"
#include "base/printable.h"
#include "base/terminal.h"
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

/// Insertions into empty references have no rate.
std::string errors_text(const record::WordErrors& errors) {
  if (errors.wer || errors.insertions == 0) return percent(errors.wer);
  return fmt::format("- ({})", counted(errors.insertions, "insertion"));
}

using Rescored = std::map<std::string, record::WordErrors>;  // indexed by result key

/// Returns the lines of the journal with the new word errors, and with the scorer in its
/// configurations.
std::string rescored_lines(const std::filesystem::path& journal, const Rescored& rescored,
                           const Normalizer& normalizer) {
  std::string lines;
  for (record::Any& record : read_journal(journal)) {
    if (auto* provenance = std::get_if<record::Provenance>(&record);
        provenance != nullptr && provenance->config) {
      nlohmann::json config = provenance->config->value();
      config["scorer"] = normalizer.name;
      provenance->config = OptionTree(std::move(config));
    }
    auto* run = std::get_if<record::Run>(&record);
    const auto found = run == nullptr ? rescored.end() : rescored.find(run->result_key);
    if (found != rescored.end()) {
      run->wer = found->second;
      // These count words of the other scorer.
      run->oracle_wer.reset();
      run->boosted.reset();
      const auto tokens = run->metrics.find("tokens.reference_per_second");
      if (tokens != run->metrics.end()) tokens->second = std::nullopt;
    }
    lines += record::to_line(record);
  }
  return lines;
}

}  // namespace

void rescore(const std::filesystem::path& run, const std::string& scorer,
             const std::filesystem::path& output) {
  const Normalizer& normalizer = find_normalizer(scorer, "--scorer");
  const ResultSet results = read_results(run);
  const std::filesystem::path written = output / "journal.jsonl";
  if (!output.empty() && std::filesystem::exists(plain_or_gzip(written)))
    throw UserError(plain_or_gzip(written).string(), "is there already",
                    "choose another folder as --output");
  Rescored rescored;
  std::vector<std::string> left_out;  // names of cases
  for (const CaseResult& c : results.require_cases().cases) {
    const auto* first =
        c.rounds().empty() ? nullptr : std::get_if<record::Run>(&c.rounds().front());
    if (first == nullptr) continue;  // the case failed
    const auto texts = read_hypotheses(results, c);
    if (!texts) {
      left_out.push_back(printable(c.name()));
      continue;
    }
    const record::WordErrors field = wer_field(edits_of(*texts, normalizer), normalizer);
    const record::WordErrors& before = first->wer;
    fmt::print("{}\n  {} {}: {}   {} {}: {}, characters {}\n", printable(c.name()),
               printable(before.normalizer), before.version, errors_text(before), normalizer.name,
               normalizer.version, errors_text(field), field.cer ? percent(*field.cer) : "-");
    rescored[c.about().result_key] = field;
  }
  if (rescored.empty()) {
    throw UserError(results.journal.string(), "has no hypotheses beside it",
                    "give the folder that `rtfx run` wrote, with hypotheses/; where they are lost, "
                    "`rtfx run --force` measures again and writes them");
  }
  for (const std::string& name : left_out)
    print_message("rtfx: notice: {}: left out: it has no hypotheses beside the journal\n", name);
  if (output.empty()) return;
  // Otherwise one journal would hold word errors by two scorers, while its configuration names only
  // one.
  if (!left_out.empty()) {
    throw UserError(results.journal.string(),
                    fmt::format("lacks the hypotheses of {}",
                                counted(static_cast<int64_t>(left_out.size()), "case")),
                    "give the folder that `rtfx run` wrote, or leave out --output");
  }
  write_file(written, rescored_lines(results.journal, rescored, normalizer));
}

}  // namespace rtfx
