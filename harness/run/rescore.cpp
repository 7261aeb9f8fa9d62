#include "harness/run/rescore.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "harness/results/journal.h"
#include "harness/results/results.h"
#include "harness/results/summaries.h"
#include "harness/run/make_records.h"
#include "harness/scoring/exactness.h"
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

/// A case with its stored hypotheses, which are those of its first round.
struct RescoredCase {
  record::WordErrors errors;
  std::vector<UtteranceText> texts;
  std::string hash;     // hash of the hypotheses
  bool repeats = true;  // all rounds have these hypotheses
  std::string group, decoder;
};

using Rescored = std::map<std::string, RescoredCase>;  // indexed by result key

/// Returns whether the grade follows from normalised texts. Better ones follow from tokens.
bool is_of_texts(const std::string& grade) {
  return grade != "baseline" && grade_of(grade) >= Grade::text;
}

/// Returns the scorer that counted the errors; null if this release lacks it.
const Normalizer* scorer_before(const record::WordErrors& errors) {
  const auto found = std::ranges::find_if(normalizers(), [&](const Normalizer& one) {
    return one.name == errors.normalizer && one.version == errors.version;
  });
  return found == normalizers().end() ? nullptr : &*found;
}

int64_t total_errors(const record::WordErrors& errors) {
  return errors.substitutions + errors.insertions + errors.deletions;
}

/// The texts of a case beside those of its baseline.
struct TextComparison {
  int64_t different = 0;              // utterances with other words
  bool changed = false;               // the scorer before may have found others equal
  std::set<std::string> with_others;  // ids of the utterances with other words
};

/// Returns none if the texts are not of the same utterances. `before` may be null.
std::optional<TextComparison> compare_texts(const std::vector<UtteranceText>& baseline,
                                            const std::vector<UtteranceText>& own,
                                            const Normalizer* before, const Normalizer& now) {
  if (!std::ranges::equal(baseline, own, {}, &UtteranceText::id, &UtteranceText::id))
    return std::nullopt;
  TextComparison found;
  found.changed = before == nullptr;
  for (size_t i = 0; i < own.size(); ++i) {
    const auto equal = [&](const Normalizer& by) {
      return by.words(baseline[i].text) == by.words(own[i].text);
    };
    const bool is_equal = equal(now);
    found.changed = found.changed || equal(*before) != is_equal;
    if (!is_equal) found.with_others.insert(own[i].id);
  }
  found.different = static_cast<int64_t>(found.with_others.size());
  return found;
}

/// Sets the words of the first difference, or makes it null if its utterance no longer has the
/// grade.
void rescore_difference(record::Exactness& exactness, const RescoredCase& baseline,
                        const RescoredCase& own, const TextComparison& texts,
                        const Normalizer& now) {
  if (!exactness.first_difference) return;
  record::FirstDifference& first = *exactness.first_difference;
  const auto at = std::ranges::find(own.texts, first.utterance, &UtteranceText::id);
  const bool wanted = exactness.grade != "text";
  if (at == own.texts.end() || texts.with_others.contains(first.utterance) != wanted)
    return exactness.first_difference.reset();
  const UtteranceText& other =
      baseline.texts[static_cast<size_t>(std::distance(own.texts.begin(), at))];
  std::tie(first.baseline_words, first.words) =
      differing_words(now.words(other.text), now.words(at->text));
}

/// Returns the exactness of a round by the new scorer. Grades by tokens stay, and so does that of a
/// failed replay. Null if the stored texts do not tell the grade. This is so if the round or one of
/// the baseline had other texts, or if utterances with other words may be within rounding.
Nullable<record::Exactness> rescored_exactness(const record::Run& run, const RescoredCase& own,
                                               const Rescored& all, const Normalizer& now) {
  if (!run.exactness || !is_of_texts(run.exactness->grade)) return run.exactness;
  record::Exactness exactness = *run.exactness;
  const record::Replay* replay = known(exactness.replay);
  if (replay != nullptr && replay->beyond > 0) return run.exactness;
  const auto baseline = std::ranges::find_if(all, [&](const auto& one) {
    return one.second.group == own.group && one.second.decoder == exactness.baseline;
  });
  if (baseline == all.end() || !baseline->second.repeats || run.hypotheses_sha256 != own.hash)
    return std::nullopt;
  const auto texts = compare_texts(baseline->second.texts, own.texts, scorer_before(run.wer), now);
  if (!texts) return std::nullopt;
  const auto count = [&](const char* grade) -> int64_t& { return exactness.grades[grade]; };
  if (texts->changed) {
    if (count("rounding") > 0 && texts->different > 0) return std::nullopt;
    count("text") += count("different") - texts->different;
    count("different") = texts->different;
  }
  if (count("text") < 0 || count("text") + count("different") == 0) return std::nullopt;
  const record::WordErrors &errors = own.errors, &theirs = baseline->second.errors;
  const bool same_errors =
      errors.reference_words.value_or(0) > 0 && total_errors(errors) == total_errors(theirs);
  exactness.grade = to_string(count("different") == 0 ? Grade::text
                              : same_errors           ? Grade::wer
                                                      : Grade::different);
  rescore_difference(exactness, baseline->second, own, *texts, now);
  return exactness;
}

/// Prints what a copy of the journal lacks.
void print_lacks(int64_t rounds, int64_t streams) {
  if (rounds > 0) {
    print_message(
        "rtfx: notice: the copy lacks {}, since later ones of the case have other settings, or the "
        "case has failed\n",
        counted(rounds, "round"));
  }
  if (streams > 0) {
    print_message(
        "rtfx: notice: the copy lacks the word errors of {}, whose texts are not stored\n",
        counted(streams, "stream record"));
  }
}

/// Returns the lines of the journal with the new word errors and grades, and with the scorer in its
/// configurations. Leaves out figures of the old scorer that cannot be made again: rounds that do
/// not count, and word errors of streams. Notices say how many.
std::string rescored_lines(const std::filesystem::path& journal, const Rescored& rescored,
                           const Normalizer& normalizer) {
  std::string lines;
  int64_t rounds = 0, streams = 0;  // that lack something
  for (record::Any& record : read_journal(journal)) {
    if (auto* provenance = std::get_if<record::Provenance>(&record);
        provenance != nullptr && provenance->config) {
      nlohmann::json config = provenance->config->value();
      config["scorer"] = normalizer.name;
      provenance->config = OptionTree(std::move(config));
    }
    if (auto* summary = std::get_if<record::Summary>(&record);
        summary != nullptr && summary->grade && is_of_texts(*summary->grade))
      summary->grade.reset();
    if (auto* stream = std::get_if<record::StreamRun>(&record);
        stream != nullptr && stream->quality) {
      stream->quality.reset();
      ++streams;
    }
    if (auto* run = std::get_if<record::Run>(&record)) {
      const auto found = rescored.find(run->result_key);
      if (found == rescored.end()) {
        ++rounds;
        continue;
      }
      run->exactness = rescored_exactness(*run, found->second, rescored, normalizer);
      // The texts of the isolated pass are not stored.
      if (run->isolated && is_of_texts(run->isolated->grade)) run->isolated.reset();
      run->wer = found->second.errors;
      // These count words of the other scorer.
      run->oracle_wer.reset();
      run->boosted.reset();
      const auto tokens = run->metrics.find("tokens.reference_per_second");
      if (tokens != run->metrics.end()) tokens->second = std::nullopt;
    }
    lines += record::to_line(record);
  }
  print_lacks(rounds, streams);
  return lines;
}

/// Copies the hypotheses of these cases beside a new journal. They stay where both journals have
/// one folder.
void copy_hypotheses(const std::filesystem::path& journal, const Rescored& rescored,
                     const std::filesystem::path& output) {
  const std::filesystem::path from = journal.parent_path() / "hypotheses";
  const std::filesystem::path to = output / "hypotheses";
  std::filesystem::create_directories(to);
  if (std::filesystem::equivalent(from, to)) return;
  for (const auto& [key, one] : rescored) {
    const std::filesystem::path file = plain_or_gzip(from / (key + ".jsonl"));
    std::filesystem::copy_file(file, to / file.filename(),
                               std::filesystem::copy_options::overwrite_existing);
  }
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
    auto texts = read_hypotheses(results, c);
    if (!texts) {
      left_out.push_back(printable(c.name()));
      continue;
    }
    const record::WordErrors field = wer_field(edits_of(*texts, normalizer), normalizer);
    const record::WordErrors& before = first->wer;
    const bool has_words = is_shown(c.about(), "wer");
    fmt::print("{}\n  {} {}: {}   {} {}: {}, characters {}\n", printable(c.name()),
               printable(before.normalizer), before.version, has_words ? errors_text(before) : "-",
               normalizer.name, normalizer.version, has_words ? errors_text(field) : "-",
               has_words && field.cer ? percent(*field.cer) : "-");
    RescoredCase& now = rescored[c.about().result_key];
    now = {field, std::move(*texts), first->hypotheses_sha256, true, c.group(), c.decoder()};
    for (const record::Round& round : c.rounds()) {
      const auto* run = std::get_if<record::Run>(&round);
      now.repeats = now.repeats && run != nullptr && run->hypotheses_sha256 == now.hash;
    }
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
  copy_hypotheses(results.journal, rescored, output);
  write_file(written, rescored_lines(results.journal, rescored, normalizer));
}

}  // namespace rtfx
