// The gate: tells whether anything has become slower or wrong since a baseline.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "harness/results/results.h"

namespace rtfx {

// Compares the conditions of two results of a case, which a gate wants to be equal.

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

/// The values are exit codes of `rtfx gate` and `rtfx verify`.
enum class Verdict {
  pass = 0,        // nothing is worse beyond its tolerance
  regressed = 10,  // the interval of the change lies on the worse side of the tolerance
  /// The interval contains the tolerance, the noise is larger than it, or machine, load or clocks
  /// differ.
  inconclusive = 11,
  invalid = 12,      // the results cannot be compared
  correctness = 13,  // results differ, or there are more word errors than tolerated
};

/// "PASS", "REGRESSED", ...
const char* to_string(Verdict verdict);

/// Returns the graver of two verdicts: correctness > invalid > regressed > inconclusive > pass.
Verdict worse(Verdict a, Verdict b);

struct GateRow {
  std::string case_name;
  std::string what;  // key of a metric, "results", "fp32", "case", "grade" or "caching"
  std::optional<double> baseline, current;
  std::optional<Interval> change;  // of a ratio metric: current / baseline
  std::optional<double> tolerance, floor;
  Verdict verdict = Verdict::pass;
  std::string reason;
  std::string rounds = {};  // rounds that count before and now, for a ratio metric
  bool is_fair = true;      // both were measured on the same machine, and undisturbed
  /// Journal of the baseline run that the row is about, if it is about one of several.
  std::string baseline_run = {};

  /// Returns the reason, followed by the baseline run if there is one.
  std::string full_reason() const;
};

struct Judgement {
  Verdict verdict;
  std::string reason;
};

/// Returns, for example, "0.25" or "130": two digits, or all digits before the point.
std::string number_text(double value);
/// Returns "130 %" for 1.3.
std::string percent_text(double share);

/// Judges a change. `gain` is new / old if more is better, and old / new with `less_is_better`.
/// `floor` is the largest change that noise alone makes. Tolerance and floor are shares of the old
/// value. So if less is better, the new value may be 1 + tolerance times as large.
///
/// A tolerance below the floor cannot be judged. Then only an improvement, and a loss beyond the
/// floor, can be told from noise. `corrected_high` is the upper end of the gain's interval,
/// corrected for the number of rows that are judged together. A loss is REGRESSED only if this end
/// shows it too.
Judgement judge(const Interval& gain, double tolerance, double floor,
                std::optional<double> corrected_high = {}, bool less_is_better = false);

/// Tolerances that replace those of the metrics, by key. A key whose metric no case has gives an
/// INVALID row.
using Tolerances = std::map<std::string, double>;

struct GateOptions {
  Tolerances tolerances = {};
  /// Kinds of allowable_differences() that are shown and do not make a case invalid.
  std::set<std::string> allowed = {};
  std::optional<double> drift = {};  // drift between runs; by default as runs_ratio() says
};

/// Judges every case of any set except A/A controls. A case has a row for each gated ratio and for
/// each allowed difference. For each baseline it has one row for the results and one for the WER.
/// Results for which `rtfx run` exits with CORRECTNESS are CORRECTNESS, whatever the baseline has.
/// A row `fp32` says that the WER is too far above that of the same case in fp32.
/// REGRESSED rows are corrected for the number of rows with a change (Bonferroni). So equal runs
/// show any such row with a probability of at most 5 %.
///
/// A case is invalid if only one set has it, if it failed, or if it was profiled. It is invalid,
/// too, if its build is not for measuring, or if its conditions differ (condition_differences()).
/// `baselines` holds one run, or several runs of the same program at different times, whose spread
/// tells how far runs differ.
std::vector<GateRow> gate(std::span<const ResultSet> baselines, const ResultSet& current,
                          const GateOptions& options = {});

/// Adds the file to `journals`. Returns false if it is there already. A pipe has no name to
/// compare, and is always new.
bool is_new_journal(std::set<std::filesystem::path>& journals, const std::filesystem::path& file);

/// Returns the worst verdict of the rows. A set without cases is one invalid row, so an empty list
/// never passes.
Verdict worst(const std::vector<GateRow>& rows);

}  // namespace rtfx
