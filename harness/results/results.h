// The results of a run as compare, gate and the exporters read them: one entry per case.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/results/statistics.h"
#include "harness/results/summaries.h"

namespace rtfx {

struct CaseResult {
  CaseSummary summary;
  bool sustained = false;  // made of all numbers of streams of a decoder
  std::shared_ptr<const record::Provenance> shared_provenance = {};  // many cases have the same

  /// Describes the invocation that wrote the last record; an empty record where there is none.
  const record::Provenance& provenance() const;
  bool has_provenance() const { return provenance().kind.has_value(); }

  SharedText name() const { return summary.case_name(); }
  const record::Case& about() const { return summary.about(); }
  SharedText decoder() const { return about().decoder.id; }
  const record::Rounds& rounds() const { return summary.rounds; }
  std::string group() const { return summary.group(); }
  /// Id of the decoder that this one repeats as an A/A control; empty for all others.
  std::string control_of() const;
};

/// "basic_english version 2": the rules that its words were counted by, as its first round says.
/// Empty where there is none. Word errors by different scorers are not comparable.
std::string scorer_of(const CaseResult& result);

struct ResultSet {
  std::filesystem::path journal;
  std::vector<CaseResult> cases;    // in the order of first appearance
  std::vector<CaseResult> streams;  // of `rtfx stream`: a case for each number of streams, and one
                                    // of all, model/dataset/decoder/streams/dtype, with the most
                                    // that were sustained
  std::vector<record::Provenance> provenances;  // of all invocations
  record::Provenance provenance;                // the last one's, if there is one
  bool profiled = false;                        // records of `rtfx profile`: cases is then empty

  /// Cases, then streams.
  std::vector<const CaseResult*> all() const;
  /// Null when there is none.
  const CaseResult* find(const std::string& case_name) const;
  /// Throws UserError for profiled records and for a journal without any case.
  const ResultSet& require_cases() const;
  /// Throws UserError for profiled records and for a journal without any case or stream.
  const ResultSet& require_results() const;
};

/// Returns the journal that `path` names: a file or a folder that holds journal.jsonl, plain or as
/// .gz (plain_or_gzip() of base/files.h).
std::filesystem::path journal_of(const std::filesystem::path& path);

/// Reads the results at a path that journal_of() accepts, with the figures of the profile.jsonl
/// beside it. Throws UserError.
ResultSet read_results(const std::filesystem::path& path);

/// The summaries of its cases, without those of streams.
Summaries all_of(const ResultSet& results);

/// Meanings of the marks that the cases have (summaries.h).
Meanings meanings_of(const ResultSet& results);

struct UtteranceText {
  std::string id, text;
  std::optional<std::string> reference;
  std::optional<double> seconds;  // of its audio; none in journals that lack it
};

/// The contents of a case's hypotheses file beside the journal; none where there is no such file.
std::optional<std::vector<UtteranceText>> read_hypotheses(const ResultSet& results,
                                                          const CaseResult& result);

}  // namespace rtfx
