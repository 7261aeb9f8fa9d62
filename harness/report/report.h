// `rtfx report`: the table of a run on the terminal, and its HTML page.
#pragma once

#include <filesystem>

namespace rtfx {

struct ReportOptions {
  std::filesystem::path run = {};       // a run's folder, or a journal
  std::filesystem::path baseline = {};  // an earlier run, the same way; empty: none
  std::filesystem::path history = {};   // folder with journals of earlier runs; empty: none
  std::filesystem::path profile = {};   // profile.jsonl or its folder; empty: beside the journal
  std::filesystem::path output = {};    // empty: report.html beside the journal, or NAME.html for
                                        // NAME.jsonl
  bool table_only = false;
  bool costs = false;  // print time of a batch, memory and energy too
  bool quiet = false;  // make the page, print no table
};

/// Where report() writes the page of a journal without `output`.
std::filesystem::path page_of(const std::filesystem::path& journal);

/// Throws UserError, also for a journal of `rtfx profile`.
void report(const ReportOptions& options);

}  // namespace rtfx
