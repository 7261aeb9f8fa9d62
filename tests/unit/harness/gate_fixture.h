// Journals for the tests of the gate and of the comparability of results, and functions that change
// them.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/json.h"
#include "harness/results/gate.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx::test {

class GateTest : public TempFolder {
 protected:
  static constexpr double kAudio = 100;

  /// Returns a journal of two decoders and the first one's A/A control, with 0.5 % of noise. The
  /// second decoder takes `slower` times as long.
  ResultSet results(uint64_t seed, double slower = 1, bool control = true) const {
    std::mt19937_64 engine(seed);
    std::normal_distribution<double> normal;
    std::string lines = to_line({{"kind", "provenance"},
                                 {"provenance_id", "p"},
                                 {"config",
                                  {{"protocol", {{"cv_max", 0.05}, {"measured_rounds", 10}}},
                                   {"verify", {{"required", {{"fp32", "exact"}}}}}}},
                                 {"rtfx", {{"build_type", "Release"}, {"sanitizer", false}}},
                                 {"device", {{"type", "cpu"}, {"name", "Some CPU"}}}});
    for (int round = 0; round < 10; ++round) {
      const auto noise = [&] { return std::exp(0.005 * normal(engine)); };
      lines += to_line(record("frame", round, 2 * noise()));
      lines += to_line(record("label", round, slower * noise()));
      if (control) lines += to_line(record("frame.aa", round, 2 * noise()));
    }
    return read_results(write(std::to_string(seed) + "/journal.jsonl", lines));
  }

  static nlohmann::json record(const std::string& decoder, int round, double decode) {
    nlohmann::json fields = {
        {"kind", "run"},
        {"provenance_id", "p"},
        {"case", "m/d/" + decoder + "/b1/fp32"},
        {"result_key", decoder},
        {"round", round},
        {"model", {{"id", "m"}}},
        {"dataset", {{"id", "d"}, {"utterances", 10}, {"audio_seconds", kAudio}}},
        {"decoder",
         {{"id", decoder}, {"name", decoder}, {"head", "transducer"}, {"exactness", "exact"}}},
        {"batch", {{"by", "count"}, {"size", 1}}},
        {"dtype", "fp32"},
        {"device", "cpu"},
        {"regions", {{"decode", {{"host_seconds", decode}}}}},
        {"total_seconds", decode + 1},
        {"metrics",
         {{"rtfx.total", kAudio / (decode + 1)},
          {"rtfx.encode_decode", nullptr},
          {"rtfx.decode", kAudio / decode},
          {"share.decode", decode / (decode + 1)}}},
        {"wer",
         {{"normalizer", "none"},
          {"version", 1},
          {"wer", 0.1},
          {"substitutions", 1},
          {"deletions", 0},
          {"insertions", 0}}},
        {"exactness", nullptr},
        {"deterministic", true},
        {"hypotheses_sha256", "h"},
        {"tokens_sha256", "t"}};
    if (decoder.ends_with(".aa")) fields["decoder"]["control_of"] = "frame";
    return fields;
  }

  /// Runs the gate with one baseline run. `drift` is the drift between runs, and these have none.
  static std::vector<GateRow> gate(const ResultSet& baseline, const ResultSet& current,
                                   const Tolerances& tolerances = {{"rtfx.decode", 0.03},
                                                                   {"rtfx.total", 0.02}},
                                   std::optional<double> drift = 0) {
    return rtfx::gate(std::span(&baseline, 1), current, {.tolerances = tolerances, .drift = drift});
  }

  static Verdict of(const std::vector<GateRow>& rows, const std::string& what) {
    for (const GateRow& row : rows) {
      if (row.case_name.find("label") != std::string::npos && row.what == what) return row.verdict;
    }
    ADD_FAILURE() << "no row " << what;
    return Verdict::invalid;
  }
};

inline void disturb(CaseResult& result, size_t round) {
  std::get<record::Run>(result.summary.rounds[round]).suspect = std::vector<std::string>{"clock"};
}

/// Sets a value in every case. `key` points into the provenance, or into the last record if it
/// begins with "/decoder/".
inline void set(ResultSet& results, const std::string& key, const nlohmann::json& value) {
  const nlohmann::json::json_pointer where(key);
  for (CaseResult& c : results.cases) {
    auto& last = std::get<record::Run>(c.summary.last);
    nlohmann::json object =
        key.starts_with("/decoder/") ? record::write(last) : record::write(c.provenance());
    object[where] = value;
    if (key.starts_with("/decoder/")) {
      last = record::Run::table().read(object);
    } else {
      c.shared_provenance =
          std::make_shared<const record::Provenance>(record::Provenance::table().read(object));
    }
  }
}

inline std::string reason_of(const std::vector<GateRow>& rows, const std::string& what) {
  for (const GateRow& row : rows) {
    if (row.what == what) return row.reason;
  }
  return "no row " + what;
}

/// Sets one of the conditions to `value` in every round.
inline void set_condition(ResultSet& results, const char* key, const nlohmann::json& value) {
  for (CaseResult& c : results.cases) {
    for (record::Round& round : c.summary.rounds) {
      auto& run = std::get<record::Run>(round);
      nlohmann::json conditions =
          run.conditions ? record::write(*run.conditions) : nlohmann::json::object();
      conditions[key] = value;
      run.conditions = record::MachineConditions::table().read(conditions);
    }
  }
}

}  // namespace rtfx::test
