// Records of the journal, from what a round measured (docs/journal.md).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "harness/config/config.h"
#include "harness/machine/conditions.h"
#include "harness/results/records.h"
#include "harness/results/summaries.h"
#include "harness/run/case_group.h"
#include "harness/scoring/normalize.h"

namespace rtfx {

// The outcome of a whole run, from its cases.

/// A message for each case whose word error rate lies above that of the same case in fp32 by more
/// than the share `allowed`.
std::vector<std::string> above_fp32(const std::vector<CaseSummary>& cases, double allowed);

/// The ExitCode that the cases of a whole run ask for; says on stderr which results are below the
/// required grade, and why (CaseSummary::inexact()), and what above_fp32() finds.
int outcome(const std::vector<CaseSummary>& cases, const Config& config);

/// A record of a case with the fields that all of them have. `Record` is StreamRun, Profile or
/// Roofline; the other kinds have functions of their own.
template <class Record>
Record case_record(const Workspace& workspace, const CaseGroup& group, const Arm& arm,
                   at::Device device, const char* kind);

/// `stage` names what was under way.
record::Failure failure_record(const Workspace& workspace, const CaseGroup& group, const Arm& arm,
                               at::Device device, const std::string& stage,
                               const std::string& message);

/// The record of a round, without what the machine did and without energy. `hash` is that of the
/// round's hypotheses, and `edits` are its word errors. `baseline_edits` are those of the decoder
/// that the arm is compared with, in the same round, or null where it failed.
record::Run run_record(const Workspace& workspace, const CaseGroup& group, const Arm& arm,
                       const RoundResult& result, int64_t round, const EditCounts* baseline_edits,
                       const EditCounts& edits, const std::string& hash, at::Device device);

/// Adds the figures of the case's first pass.
void add_first_pass(record::Run& run, const FirstPass& first);

/// Adds energy to a record: null where it is not known.
void add_energy(record::Run& run, const std::optional<EnergyUse>& use);

/// Adds what the machine did, and the reasons to distrust the round's times.
void add_conditions(record::Run& run, const Conditions& conditions,
                    const std::vector<std::string>& suspect);

record::WordErrors wer_field(const EditCounts& edits, const Normalizer& normalizer);

/// The ids of the group's utterances, in their order.
std::vector<std::string> ids_of(const Workspace& workspace, const CaseGroup& group);

/// Word errors of a round's words over the utterances that have a reference.
EditCounts score(const Workspace& workspace, const CaseGroup& group, const RoundResult& result);

/// One JSON line per utterance.
std::string hypotheses_lines(const Workspace& workspace, const CaseGroup& group,
                             const RoundResult& result);

}  // namespace rtfx
