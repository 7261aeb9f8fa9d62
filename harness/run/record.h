// Records of the journal, from what a round measured (docs/journal.md).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "harness/run/case_group.h"
#include "harness/scoring/normalize.h"

namespace rtfx {

/// The fields that all records of a case have.
nlohmann::json case_fields(const Workspace& workspace, const CaseGroup& group, const Arm& arm,
                           at::Device device);

/// Record of kind "failure". `stage`: what was under way.
nlohmann::json failure_record(const Workspace& workspace, const CaseGroup& group, const Arm& arm,
                              at::Device device, const std::string& stage,
                              const std::string& message);

/// Record of kind "run", without what the machine did and energy. `hash`: of the round's
/// hypotheses.
nlohmann::json run_record(const Workspace& workspace, const CaseGroup& group, const Arm& arm,
                          const RoundResult& result, int64_t round,
                          const EditCounts* reference_edits, const EditCounts& edits,
                          const std::string& hash, at::Device device);

/// Adds energy to a record: null where it is not known.
void add_energy(nlohmann::json& record, const std::optional<EnergyUse>& use);

/// The field "wer" of a record.
nlohmann::json wer_field(const EditCounts& edits, const Normalizer& normalizer);

/// The ids of the group's utterances, in their order.
std::vector<std::string> ids_of(const Workspace& workspace, const CaseGroup& group);

/// Word errors of a round's words over the utterances that have a reference.
EditCounts score(const Workspace& workspace, const CaseGroup& group, const RoundResult& result);

/// One JSON line per utterance.
std::string hypotheses_lines(const Workspace& workspace, const CaseGroup& group,
                             const RoundResult& result);

}  // namespace rtfx
