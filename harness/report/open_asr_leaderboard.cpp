#include "harness/report/open_asr_leaderboard.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/files.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "harness/report/escape.h"
#include "harness/results/stand_in.h"
#include "harness/results/summaries.h"
#include "harness/scoring/normalize.h"
#include "harness/scoring/wer.h"

namespace rtfx {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// Ids of the leaderboard's sets and the columns of their word error rates.
constexpr std::pair<const char*, const char*> kLeaderboardSets[] = {
    {"ami_cleaned_test", "AMI-Cleaned WER"},
    {"earnings22_cleaned_aa_chunked_test", "Earnings22-Cleaned-AA-chunked WER"},
    {"gigaspeech_cleaned_test", "Gigaspeech-Cleaned WER"},
    {"librispeech_test.clean", "LS Clean WER"},
    {"librispeech_test.other", "LS Other WER"},
    {"spgispeech_test", "SPGISpeech WER"},
    {"voxpopuli_cleaned_aa_test", "Voxpopuli-Cleaned-AA WER"}};

bool is_leaderboard_set(const std::string& id) {
  return std::ranges::any_of(kLeaderboardSets, [&](const auto& set) { return set.first == id; });
}

/// The sums over the leaderboard's datasets of a model and its decoder.
struct LeaderboardRow {
  std::map<std::string, double> wer;  // per cent, indexed by dataset id
  double audio_seconds = 0, work_seconds = 0;
};

std::string in_file_name(std::string text) {
  std::replace(text.begin(), text.end(), '/', '-');
  return printable(text);
}

/// Returns "m-label_looping-b8-fp32", which the leaderboard shows as a model of the author rtfx.
std::string leaderboard_model(const CaseResult& c) {
  const record::Case& about = c.about();
  return in_file_name(fmt::format("{}-{}-{}{:g}-{}", about.model.id, c.decoder(),
                                  about.batch.by == "seconds" ? "s" : "b",
                                  static_cast<double>(about.batch.size), about.dtype));
}

bool is_scored(const std::vector<std::string>& reference) {
  static const std::vector<std::string> kIgnored = {"ignore", "time", "segment", "in", "scoring"};
  return !reference.empty() && reference != kIgnored;
}

/// Returns why a case has no manifest; empty if it has one.
std::string reason_to_leave_out(const CaseResult& c, bool has_hypotheses) {
  if (!c.summary.stand_in_data.empty()) return "its data stand in for others";
  if (!stand_in_model(c.about().model).empty()) return "its model stands in for another one";
  if (c.rounds().empty()) return "it has no measured round";
  if (!is_shown(c.about(), "wer")) return "its decoder gives no words";
  return has_hypotheses ? "" : "there are no hypotheses beside the journal";
}

/// Returns the lines of the case's manifest, and adds their sums to `row`.
std::string manifest_lines(const CaseResult& c, const std::vector<UtteranceText>& texts,
                           const std::string& dataset, LeaderboardRow& row) {
  double total = 0;
  for (const record::Round& round : c.rounds()) total += std::get<record::Run>(round).total_seconds;
  const double seconds_each =
      total / static_cast<double>(c.rounds().size()) / static_cast<double>(texts.size());
  std::string lines;
  EditCounts edits;
  for (const UtteranceText& text : texts) {
    if (!text.reference) continue;
    const std::vector<std::string> reference = whisper_english(*text.reference);
    if (!is_scored(reference)) continue;
    edits += count_edits(reference, whisper_english(text.text));
    row.audio_seconds += text.seconds.value_or(0);
    row.work_seconds += seconds_each;
    const ordered_json line = {{"audio_filepath", text.id},
                               {"duration", text.seconds ? json(*text.seconds) : json()},
                               {"time", seconds_each},
                               {"text", *text.reference},
                               {"pred_text", text.text}};
    lines += line.dump() + "\n";
  }
  if (const auto wer = edits.wer()) row.wer[dataset] = 100 * *wer;
  return lines;
}

std::string csv_of(const std::map<std::string, LeaderboardRow>& rows) {
  std::string text = "model,RTFx,License,Size (B),# Languages,Encoder,Decoder";
  for (const auto& [id, column] : kLeaderboardSets) text += fmt::format(",{}", column);
  for (const auto& [model, row] : rows) {
    text += "\n" + csv_text("rtfx/" + model) + ",";
    if (row.audio_seconds > 0) text += fmt::format("{:.2f}", row.audio_seconds / row.work_seconds);
    text += ",,,,,";
    for (const auto& [id, column] : kLeaderboardSets) {
      const auto wer = row.wer.find(id);
      text += wer == row.wer.end() ? "," : fmt::format(",{:.2f}", wer->second);
    }
  }
  return text + "\n";
}

}  // namespace

std::vector<std::string> write_open_asr_leaderboard(const ResultSet& results,
                                                    const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  std::map<std::string, LeaderboardRow> rows;
  for (const CaseResult& c : results.cases) {
    const std::string dataset = c.about().dataset.id;
    const auto texts = read_hypotheses(results, c);
    const std::string reason = reason_to_leave_out(c, texts && !texts->empty());
    if (!reason.empty()) {
      print_message("rtfx: notice: {}: left out: {}\n", printable(c.name()), reason);
      continue;
    }
    const std::string model = leaderboard_model(c);
    LeaderboardRow row = rows[model];
    const std::string lines = manifest_lines(c, *texts, dataset, row);
    if (lines.empty()) continue;  // no references
    if (is_leaderboard_set(dataset)) rows[model] = row;
    files[fmt::format("MODEL_rtfx-{}_DATASET_rtfx_{}.jsonl", model, in_file_name(dataset))] = lines;
  }
  if (files.empty()) {
    throw UserError(results.journal.string(), "has no hypotheses with references to export",
                    "give the folder that `rtfx run` wrote, of data with texts");
  }
  std::erase_if(rows, [](const auto& entry) { return entry.second.wer.empty(); });
  files["open_asr_leaderboard.csv"] = csv_of(rows);
  std::vector<std::string> names;
  for (const auto& [name, text] : files) {
    write_file(folder / name, text);
    names.push_back(name);
  }
  return names;
}

}  // namespace rtfx
