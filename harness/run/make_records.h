// Makes the journal's records from the measurements of a round (docs/journal.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/config/config.h"
#include "harness/machine/conditions.h"
#include "harness/results/records.h"
#include "harness/run/case_group.h"
#include "harness/scoring/normalize.h"

namespace rtfx {

/// Returns a record with the fields that the records of all cases share. `Record` is StreamRun,
/// Profile or Roofline; other kinds have functions of their own.
template <class Record>
Record case_record(const LoadedInputs& inputs, const CaseGroup& group, const Arm& arm,
                   at::Device device, const char* kind);

/// `stage` names the stage that failed.
record::Failure failure_record(const LoadedInputs& inputs, const CaseGroup& group, const Arm& arm,
                               at::Device device, const std::string& stage,
                               const std::string& message);

/// Returns the record of a round, without the machine's conditions and without energy. `hash` is
/// the hash of the round's hypotheses, and `edits` are its word errors. `baseline_edits` are the
/// word errors of the compared decoder in the same round, or null if that failed.
record::Run run_record(const LoadedInputs& inputs, const CaseGroup& group, const Arm& arm,
                       const RoundResult& result, int64_t round, const EditCounts* baseline_edits,
                       const EditCounts& edits, const std::string& hash, at::Device device);

/// Adds the figures of the case's first pass.
void add_first_pass(record::Run& run, const FirstPass& first);

/// Adds energy to a record, or null if it is not known.
void add_energy(record::Run& run, const std::optional<EnergyUse>& use);

/// Adds the machine's conditions, and the reasons to distrust the round's times.
void add_conditions(record::Run& run, const Conditions& conditions,
                    const std::vector<std::string>& suspect);

/// Checks that metric_table() says of each metric of the record how shards are merged. Throws
/// std::logic_error for another metric.
void check_metrics(const record::Run& run);

record::WordErrors wer_field(const EditCounts& edits, const Normalizer& normalizer);

/// Returns the ids of the group's utterances, in their order.
std::vector<std::string> ids_of(const LoadedInputs& inputs, const CaseGroup& group);

/// Counts the word errors of a round over the utterances that have a reference.
EditCounts score(const LoadedInputs& inputs, const CaseGroup& group, const RoundResult& result);

/// Returns one line of JSON for each utterance.
std::string hypotheses_lines(const LoadedInputs& inputs, const CaseGroup& group,
                             const RoundResult& result);

}  // namespace rtfx
