// The gate: has anything become slower, or wrong, since a baseline? Results in, verdicts out.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "harness/results/results.h"

namespace rtfx {

// Whether two results of a case were measured under the same conditions, as a gate wants them.

/// A difference between the conditions of two results.
struct ConditionDifference {
  std::string kind;  // one of allowable_differences(), or kOtherMachine; empty for what makes
                     // comparing pointless
  std::string text;  // "other libtorch: 2.10.0, now 2.11.0"
};

/// Changes that can be what is to be judged, such as that of LibTorch, where `rtfx gate --allow`
/// names them:
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

/// A value of the configuration by its JSON pointer, such as "/protocol/seed"; null without one.
nlohmann::json config_value(const record::Provenance& provenance, const char* pointer);

/// A setting of the case's model that the configuration asks for. It is null where none is asked
/// for, as in journals from before there was the setting.
nlohmann::json model_setting(const CaseResult& result, const char* key);

/// "isolated", or the settings of the mode "throughput" without what it measured.
nlohmann::json mode_of(const CaseResult& result);

/// Differences between two results of one case name. It compares the machine and its share, model,
/// data, batches and their order, mode, the decoder's options and the files they name, confidence,
/// encoder, LibTorch, driver and scorer. It does not compare the revision of rtfx, which a gate
/// judges, nor anything that one of the two journals lacks, such as an option that only one release
/// has.
std::vector<ConditionDifference> condition_differences(const CaseResult& a, const CaseResult& b);

/// Says why times of `b` may differ from those of `a`, though the program is as fast. The reasons
/// are another CPU under the same name, other clocks of CPU or GPU, another calibration, and other
/// programs that used the CPUs. The gate calls speeds INCONCLUSIVE then. What one of the journals
/// lacks is not compared.
std::vector<std::string> condition_doubts(const CaseResult& a, const CaseResult& b);

// The limits of these doubts. Clocks may differ by 5 %, calibrations by 10 %, and load averages by
// 1 or by a tenth of all CPUs, where that is more.

bool clocks_differ(double a, double b);
bool calibrations_differ(double a, double b);
bool load_averages_differ(double a, double b, double cpus);

/// Why the records of a case are no measurement: it failed, the build is not for measuring, or
/// rounds, the provenance or GPU clocks are missing. Empty where they are one.
std::string unfit(const CaseResult& result);

/// The worst grade that both runs allow an exact decoder in this dtype.
Grade required_grade(const CaseResult& a, const CaseResult& b);

/// The values are exit codes of `rtfx gate` and `rtfx verify`.
enum class Verdict {
  pass = 0,           // nothing is worse beyond its tolerance
  regressed = 10,     // the interval of the change lies on the worse side of the tolerance
  inconclusive = 11,  // the interval holds the tolerance, the noise is larger than it, or machine,
                      // load or clocks differ
  invalid = 12,       // the results cannot be compared
  correctness = 13,   // other results, or more word errors than tolerated
};

/// "PASS", "REGRESSED", ...
const char* to_string(Verdict verdict);

/// The graver one: correctness > invalid > regressed > inconclusive > pass.
Verdict worse(Verdict a, Verdict b);

struct GateRow {
  std::string case_name;
  std::string what;  // key of a metric, "results", "case", "grade" or "caching"
  std::optional<double> baseline, current;
  std::optional<Interval> change;  // of a ratio metric: current / baseline
  std::optional<double> tolerance, floor;
  Verdict verdict = Verdict::pass;
  std::string reason;
  std::string rounds = {};  // those that count before and now, of a ratio metric
  bool is_fair = true;      // both were measured on the same machine, and undisturbed
};

struct Judgement {
  Verdict verdict;
  std::string reason;
};

/// "0.25", "130": two digits, or all before the point.
std::string number_text(double value);
/// "130 %" of 1.3.
std::string percent_text(double share);

/// `gain`: new / old of something of which more is better, and old / new with `less_is_better`.
/// `floor`: the largest change that noise alone makes. Tolerance and floor are shares of the old
/// value, so where less is better the new one may be 1 + tolerance times as large. A tolerance
/// below the floor is refused: then only an improvement, and a loss beyond the floor, can be told
/// from noise. `corrected_high`: the upper end of the gain's interval for the number of rows that
/// are judged together. A loss is REGRESSED only if that end shows it too.
Judgement judge(const Interval& gain, double tolerance, double floor,
                std::optional<double> corrected_high = {}, bool less_is_better = false);

/// Tolerances that replace those of the metrics, by key. One whose metric no case has is INVALID.
using Tolerances = std::map<std::string, double>;

struct GateOptions {
  Tolerances tolerances = {};
  std::set<std::string> allowed = {};  // of allowable_differences(): shown, and not invalid
  std::optional<double> drift = {};    // between runs; runs_ratio() says what holds without it
};

/// Every case of any set, A/A controls apart. It has a row for each gated ratio and for what was
/// allowed to differ, and for each baseline one row for the results and one for the WER. REGRESSED
/// rows are corrected for the number of rows with a change (Bonferroni): equal runs show any such
/// row with a probability of at most 5 %. A case that only one set has is invalid, and so is one
/// that failed or was profiled. One is invalid, too, if it comes from a build that is not for
/// measuring, or was measured under other conditions (condition_differences()). `baselines`: one
/// run, or several of the same program at different times, whose spread tells how far runs differ.
std::vector<GateRow> gate(std::span<const ResultSet> baselines, const ResultSet& current,
                          const GateOptions& options = {});

/// PASS for no rows at all never happens: a set without cases is one invalid row.
Verdict worst(const std::vector<GateRow>& rows);

}  // namespace rtfx
