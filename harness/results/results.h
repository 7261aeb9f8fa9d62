// The results of a run, with one entry for each case. compare, gate and the exporters read them in
// this form.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/results/marks.h"
#include "harness/results/statistics.h"
#include "harness/results/summaries.h"

namespace rtfx {

struct CaseResult {
  CaseSummary summary;
  /// The largest number of streams that a decoder sustained, taken from all its numbers.
  bool sustained = false;
  std::shared_ptr<const record::Provenance> shared_provenance = {};  // shared by many cases
  /// The provenances of other invocations whose rounds count.
  std::vector<std::shared_ptr<const record::Provenance>> other_provenances = {};

  /// Returns the provenance of the invocation that wrote the last record; an empty record if there
  /// is none.
  const record::Provenance& provenance() const;
  /// Returns provenance() and then those of other invocations whose rounds count, which `--resume`
  /// joined.
  std::vector<const record::Provenance*> provenances() const;
  bool has_provenance() const { return provenance().kind.has_value(); }

  SharedText name() const { return summary.case_name(); }
  const record::Case& about() const { return summary.about(); }
  SharedText decoder() const { return about().decoder.id; }
  const record::Rounds& rounds() const { return summary.rounds; }
  std::string group() const { return summary.group(); }
  /// Returns the id of the decoder that this one repeats as an A/A control. Empty for all others.
  std::string control_of() const;
};

/// Returns the scorer that counted the words of the first round, such as "basic_english version 2".
/// Empty if there is none. Word errors by different scorers are not comparable.
std::string scorer_of(const CaseResult& result);

struct ResultSet {
  std::filesystem::path journal;
  std::vector<CaseResult> cases;  // in the order of first appearance
  /// `rtfx stream` gives a case for each number of streams. Another case,
  /// model/dataset/decoder/streams/dtype, has the largest number that was sustained.
  std::vector<CaseResult> streams;
  std::vector<record::Provenance> provenances;  // of all invocations
  record::Provenance provenance;  // provenance of the last invocation, if there is one
  bool profiled = false;          // The records are of `rtfx profile`, and `cases` is empty.

  /// Returns all cases, and then all streams.
  std::vector<const CaseResult*> all() const;
  /// Returns null if there is no such case.
  const CaseResult* find(const std::string& case_name) const;
  /// Throws UserError for profiled records and for a journal without any case.
  const ResultSet& require_cases() const;
  /// Throws UserError for profiled records and for a journal without any case or stream.
  const ResultSet& require_results() const;
};

/// Returns the journal at `path`, which is a file or a folder that holds journal.jsonl. The file
/// may be compressed as .gz (plain_or_gzip() of base/files.h).
std::filesystem::path journal_of(const std::filesystem::path& path);

/// Reads the results at a path that journal_of() accepts, and the figures of a profile.jsonl beside
/// it. Throws UserError.
ResultSet read_results(const std::filesystem::path& path);

/// Adds the file to `journals`. Returns false if it is there already. A pipe has no name to
/// compare, and is always new.
bool is_new_journal(std::set<std::filesystem::path>& journals, const std::filesystem::path& file);

/// Returns the summaries of the cases, without those of streams.
Summaries all_of(const ResultSet& results);

/// Returns the meanings of the marks that the cases have (marks.h).
Meanings meanings_of(const ResultSet& results);

struct UtteranceText {
  std::string id, text;
  std::optional<std::string> reference;
  std::optional<double> seconds;  // length of its audio; none in journals that lack it
};

/// Returns the contents of a case's hypotheses file beside the journal; none if there is no such
/// file.
std::optional<std::vector<UtteranceText>> read_hypotheses(const ResultSet& results,
                                                          const CaseResult& result);

}  // namespace rtfx
