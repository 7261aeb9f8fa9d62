// `rtfx report`: the table of a run on the terminal, and its HTML page.
#pragma once

#include <filesystem>

namespace rtfx {

struct ReportOptions {
  std::filesystem::path run = {};       // folder of a run, or a journal
  std::filesystem::path baseline = {};  // an earlier run, as folder or journal; empty: none
  std::filesystem::path history = {};   // folder with journals of earlier runs; empty: none
  /// The file profile.jsonl or its folder; empty: the file beside the journal.
  std::filesystem::path profile = {};
  /// Empty: report.html beside journal.jsonl, or NAME.html beside NAME.jsonl.
  std::filesystem::path output = {};
  bool table_only = false;
  bool costs = false;  // also prints the time of a batch, memory and energy
  bool quiet = false;  // makes the page without printing a table
};

/// Returns the file of a journal's page if no `output` is given.
std::filesystem::path page_of(const std::filesystem::path& journal);

/// Throws UserError, also for a journal of `rtfx profile`.
void report(const ReportOptions& options);

}  // namespace rtfx
