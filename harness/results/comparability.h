// Compares the conditions of two results of a case. Differences forbid a comparison, and doubts
// make its times uncertain.
//
// A setting that changes results or times stands in three lists, which answer different questions:
//   result_key()             which rounds of one release `--resume` may join; it reads the running
//                            configuration (harness/run/provenance.cpp)
//   condition_differences()  what makes two results incomparable, and what a user may allow
//   conditions_of()          which results of different releases belong to one history
// The last two read journals of any release. A gate passes over what an old journal lacks, and a
// history takes its default.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/results/results.h"

namespace rtfx {

/// A difference between the conditions of two results.
struct ConditionDifference {
  /// One of allowable_differences(), or kOtherMachine; empty if the results cannot be compared at
  /// all.
  std::string kind;
  std::string text;  // "other libtorch: 2.10.0, now 2.11.0"
  bool operator==(const ConditionDifference&) const = default;
};

/// Differences that may be what the user wants to judge, such as a new LibTorch. `rtfx gate
/// --allow` names them:
///   libtorch  version of LibTorch, CUDA runtime and cuDNN, which come together
///   driver    version of the CUDA driver
///   encoder   encoder, encoder_graphs: how the encoder is computed and launched
///   scorer    text normaliser and its version; the word error rates are then not compared
///   decoder   source of a decoder in Python: the contents and the path of its option `file`
const std::vector<std::string>& allowable_differences();

/// The kind of a difference in the source of a decoder in Python.
constexpr const char* kOtherSource = "decoder";

/// The kind of differences between machines: device, threads, share of the CPUs, number of shards.
constexpr const char* kOtherMachine = "machine";

/// Returns a value of the configuration by its JSON pointer, such as "/protocol/seed". Null if
/// there is none.
nlohmann::json config_value(const record::Provenance& provenance, const char* pointer);

/// Returns a setting of the case's model that the configuration asks for. Null if it asks for none,
/// as in journals that are older than the setting.
nlohmann::json model_setting(const CaseResult& result, const char* key);

/// Returns "isolated", or the settings of the mode "throughput" without its measurements.
nlohmann::json mode_of(const CaseResult& result);

/// Differences between two results of one case name. It compares the machine and its share, model,
/// data, batches and their order, mode, the decoder's options and the files they name, confidence,
/// encoder, LibTorch, driver and scorer. It does not compare the revision of rtfx, which a gate
/// judges, nor anything that one of the two journals lacks, such as an option that only one release
/// has. Where `--resume` joined rounds of several invocations, it compares each of them.
std::vector<ConditionDifference> condition_differences(const CaseResult& a, const CaseResult& b);

/// Returns the conditions of a result by name, such as {"threads": 8}. Two results of equal
/// conditions differ only by the source that they were built from, and by noise. Options that a
/// journal lacks, since its release did not have them, count with their defaults.
nlohmann::json conditions_of(const CaseResult& result);

/// Says why times of `b` may differ from those of `a`, though the program is as fast. The reasons
/// are another CPU under the same name, other clocks of CPU or GPU, another calibration, and other
/// programs that used the CPUs. The gate calls speeds INCONCLUSIVE then. What one of the journals
/// lacks is not compared.
std::vector<std::string> condition_doubts(const CaseResult& a, const CaseResult& b);

// Limits beyond which conditions raise doubts. Clocks may differ by 5 %, and calibrations by 10 %.
// Load averages may differ by 1, or by a tenth of all CPUs if that is more.

bool clocks_differ(double a, double b);
bool calibrations_differ(double a, double b);
bool load_averages_differ(double a, double b, double cpus);

/// Returns why the records of a case are no measurement, or an empty text. The case failed, the
/// build is not for measuring, or rounds, the provenance or GPU clocks are missing.
std::string unfit(const CaseResult& result);

/// The worst grade that both runs allow an exact decoder in this dtype.
Grade required_grade(const CaseResult& a, const CaseResult& b);

}  // namespace rtfx
