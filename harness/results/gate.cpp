#include "harness/results/gate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "harness/results/metrics.h"
#include "harness/scoring/exactness.h"

namespace rtfx {

namespace {

using nlohmann::json;

/// Returns a member as the journal has it; null if the record lacks it.
template <class T>
json shown(const Optional<T>& member) {
  return to_json(member);
}

/// Returns the entry of a list with this id.
template <class Entry>
const Entry* entry(const Optional<std::vector<Entry>>& list, const std::string& id) {
  if (!list) return nullptr;
  const auto found = std::ranges::find(*list, id, &Entry::id);
  return found == list->end() ? nullptr : &*found;
}

/// The parts of a provenance that are compared. A part that a record lacks is an empty object.
struct Machine {
  explicit Machine(const record::Provenance& provenance) {
    if (provenance.device) device = *provenance.device;
    if (provenance.cpu) cpu = *provenance.cpu;
    if (provenance.shards) shards = *provenance.shards;
  }
  json affinity_cpus() const { return cpu.affinity ? json(cpu.affinity->cpus) : json(); }
  json limit_of_cpus() const {
    return cpu.group_limits && cpu.group_limits->cpus ? cpu.group_limits->cpus->to_json() : json();
  }

  record::Device device;
  record::Cpu cpu;
  record::ShardDevices shards;
};

/// Collects the differences between two results.
class ConditionComparison {
 public:
  ConditionComparison(const CaseResult& a, const record::Provenance& p, const CaseResult& b,
                      const record::Provenance& q)
      : a_(a), b_(b), p_(p), q_(q) {}

  std::vector<ConditionDifference> differences() {
    compare_machines();
    compare_checksums();
    const record::Dataset<record::Always>&x = a_.about().dataset, &y = b_.about().dataset;
    compare("", "dataset id", x.id, y.id);
    compare("", "dataset utterances", x.utterances, y.utterances);
    compare("", "dataset audio_seconds", x.audio_seconds.to_json(), y.audio_seconds.to_json());
    compare_modes();
    compare("", "batch", record::write(a_.about().batch), record::write(b_.about().batch));
    compare_order();
    compare_decoders();
    compare_where_said("encoder", "encoder", config_value(p_, "/encoder"),
                       config_value(q_, "/encoder"));
    compare_where_said("encoder", "encoder_graphs", config_value(p_, "/encoder_graphs"),
                       config_value(q_, "/encoder_graphs"));
    compare_where_said("libtorch", "libtorch", shown(p_.libtorch), shown(q_.libtorch));
    compare_where_said("libtorch", "cuda_runtime", shown(p_.cuda_runtime), shown(q_.cuda_runtime));
    compare_where_said("libtorch", "cudnn", shown(p_.cudnn), shown(q_.cudnn));
    compare_where_said("driver", "cuda_driver", shown(p_.cuda_driver), shown(q_.cuda_driver));
    compare("scorer", "scorer", scorer_of(a_), scorer_of(b_));
    compare_clocks();
    return std::move(found_);
  }

 private:
  void add(const char* kind, std::string text) { found_.push_back({kind, std::move(text)}); }

  void compare(const char* kind, const std::string& name, const json& x, const json& y) {
    if (x != y) add(kind, fmt::format("other {}: {}, now {}", name, x.dump(), y.dump()));
  }

  void compare_where_said(const char* kind, const std::string& name, const json& x, const json& y) {
    if (!x.is_null() && !y.is_null()) compare(kind, name, x, y);
  }

  void compare_machines() {
    const Machine x(p_), y(q_);
    compare(kOtherMachine, "device/type", shown(x.device.type), shown(y.device.type));
    compare(kOtherMachine, "device/name", shown(x.device.name), shown(y.device.name));
    compare(kOtherMachine, "cpu/threads", shown(x.cpu.threads), shown(y.cpu.threads));
    compare(kOtherMachine, "tf32", shown(p_.tf32), shown(q_.tf32));
    compare(kOtherMachine, "shards/count", shown(x.shards.count), shown(y.shards.count));
    // Journals of earlier releases do not say how the CPUs were shared.
    if (!x.cpu.wait_policy || !y.cpu.wait_policy) return;
    compare(kOtherMachine, "cpu/wait_policy", shown(x.cpu.wait_policy), shown(y.cpu.wait_policy));
    compare(kOtherMachine, "cpu/affinity/cpus", x.affinity_cpus(), y.affinity_cpus());
    compare(kOtherMachine, "cpu/group_limits/cpus", x.limit_of_cpus(), y.limit_of_cpus());
  }

  /// A different `steady_seconds` means a different kind of pass. With 0, the only pass is the
  /// first one.
  void compare_modes() {
    const json x = mode_of(a_), y = mode_of(b_);
    compare("", "protocol.mode", x, y);
    if (!x.is_object() || !y.is_object()) return;
    compare_where_said("", "protocol.steady_seconds", config_value(p_, "/protocol/steady_seconds"),
                       config_value(q_, "/protocol/steady_seconds"));
  }

  template <class Entry>
  void compare_checksum(const char* kind, const Entry* x, const Entry* y) {
    if (x != nullptr && y != nullptr && x->sha256 != y->sha256)
      add("", fmt::format("other {}: its checksum differs", kind));
  }

  void compare_checksums() {
    compare_checksum("model", entry(p_.models, a_.about().model.id),
                     entry(q_.models, b_.about().model.id));
    compare_checksum("dataset", entry(p_.datasets, a_.about().dataset.id),
                     entry(q_.datasets, b_.about().dataset.id));
    if (!p_.config || !q_.config) return;
    for (const char* key : {"att_context_size", "language"})
      compare("", key, model_setting(a_, key), model_setting(b_, key));
    compare("", "confidence", config_value(p_, "/confidence"), config_value(q_, "/confidence"));
  }

  void compare_order() {
    compare_where_said("", "sort", config_value(p_, "/sort"), config_value(q_, "/sort"));
    if (config_value(p_, "/sort") == "shuffle")
      compare_where_said("", "protocol.seed", config_value(p_, "/protocol/seed"),
                         config_value(q_, "/protocol/seed"));
  }

  void compare_decoders() {
    const record::Decoder<record::Always>&x = a_.about().decoder, &y = b_.about().decoder;
    compare("", "decoder", x.name, y.name);
    compare_options("option ", x.options ? x.options->value() : json::object(),
                    y.options ? y.options->value() : json::object());
  }

  /// Journals hold every option with its value. A missing option belongs to another release.
  void compare_options(const std::string& name, const json& x, const json& y) {
    if (!x.is_object() || !y.is_object()) return compare_values(name, x, y);
    const bool inner = name != "option ";
    for (const auto& [key, value] : x.items()) {
      if (y.contains(key)) compare_options(name + (inner ? "." : "") + key, value, y.at(key));
    }
  }

  /// Files are compared by their contents where both journals have the checksum, since they may lie
  /// elsewhere or change in place.
  void compare_values(const std::string& name, const json& x, const json& y) {
    const std::string *p = checksum(p_, x), *q = checksum(q_, y);
    const bool are_files = p != nullptr && q != nullptr;
    if (are_files ? *p == *q : x == y) return;
    const bool in_python =
        a_.about().decoder.name == "python" && b_.about().decoder.name == "python";
    add(are_files && in_python && name == "option file" ? kOtherSource : "",
        x == y ? fmt::format("other {}: the checksum of {} differs", name, x.dump())
               : fmt::format("other {}: {}, now {}", name, x.dump(), y.dump()));
  }

  /// Returns the checksum of the file that an option names; null for other values.
  static const std::string* checksum(const record::Provenance& provenance, const json& value) {
    if (!value.is_string() || !provenance.decoder_files) return nullptr;
    const auto found = provenance.decoder_files->find(value.get<std::string>());
    return found == provenance.decoder_files->end() ? nullptr : &found->second;
  }

  static const record::Run* first_run(const CaseResult& c) {
    return c.rounds().empty() ? nullptr : std::get_if<record::Run>(&c.rounds().front());
  }

  /// In journals of earlier releases, the clock started after the padding.
  void compare_clocks() {
    const auto padding = [](const CaseResult& c) {
      const record::Run* run = first_run(c);
      return run != nullptr && run->regions.contains("pad");
    };
    if (padding(a_) != padding(b_))
      add("", "only one of both counts padding as time: measure the baseline again");
  }

  const CaseResult &a_, &b_;
  const record::Provenance &p_, &q_;
  std::vector<ConditionDifference> found_;
};

}  // namespace

const std::vector<std::string>& allowable_differences() {
  static const std::vector<std::string> kinds = {"libtorch", "driver", "encoder", "scorer",
                                                 kOtherSource};
  return kinds;
}

json config_value(const record::Provenance& provenance, const char* pointer) {
  const json::json_pointer where(pointer);
  return provenance.config && provenance.config->value().contains(where)
             ? provenance.config->value().at(where)
             : json();
}

json model_setting(const CaseResult& result, const char* key) {
  for (const json& model : config_value(result.provenance(), "/models")) {
    if (model.is_object() && model.value("id", json()) == result.about().model.id)
      return model.value(key, json()) == json("") ? json() : model.value(key, json());
  }
  return nullptr;
}

json mode_of(const CaseResult& result) {
  const record::Run* run = result.summary.last_run();
  if (run == nullptr || !run->pipeline) return "isolated";
  return {{"in_flight", run->pipeline->in_flight}, {"audio", run->pipeline->audio}};
}

namespace {

/// Adds what is not there yet.
template <class Found>
void add_new(std::vector<Found>& list, std::vector<Found> more) {
  for (Found& one : more) {
    if (std::ranges::find(list, one) == list.end()) list.push_back(std::move(one));
  }
}

}  // namespace

std::vector<ConditionDifference> condition_differences(const CaseResult& a, const CaseResult& b) {
  std::vector<ConditionDifference> found;
  for (const record::Provenance* p : a.provenances()) {
    for (const record::Provenance* q : b.provenances())
      add_new(found, ConditionComparison(a, *p, b, *q).differences());
  }
  return found;
}

namespace {

constexpr double kLeastLoad = 0.5;  // load of others may differ by this many CPUs
constexpr double kLoadShare = 0.1;  // or by this share of all CPUs, if that is more

bool apart(double a, double b, double share) {
  return std::abs(a - b) > share * std::max(std::abs(a), std::abs(b));
}

}  // namespace

bool clocks_differ(double a, double b) { return apart(a, b, 0.05); }

bool calibrations_differ(double a, double b) { return apart(a, b, 0.10); }

bool load_averages_differ(double a, double b, double cpus) {
  constexpr double kLeast = 1;
  return std::abs(a - b) > std::max(kLeast, kLoadShare * cpus);
}

namespace {

/// Returns the mean of a figure of the conditions over the rounds that count; none if a round lacks
/// it.
template <class Figure>
std::optional<double> mean_condition(const CaseResult& c, const Figure& figure) {
  const CountedRounds counted = c.summary.counted_rounds();
  double sum = 0;
  for (const record::Round* round : counted.rounds) {
    const auto* run = std::get_if<record::Run>(round);
    const std::optional<double> value =
        run == nullptr || !run->conditions ? std::nullopt : figure(*run->conditions);
    if (!value) return std::nullopt;
    sum += *value;
  }
  if (counted.rounds.empty()) return std::nullopt;
  return sum / static_cast<double>(counted.rounds.size());
}

std::optional<double> other_cpus(const CaseResult& c) {
  return mean_condition(c, [](const record::MachineConditions& conditions) {
    const Number* cpus = known(conditions.other_cpus);
    return cpus == nullptr ? std::nullopt : std::optional<double>(*cpus);
  });
}

std::optional<double> gpu_clock(const CaseResult& c) {
  return mean_condition(c, [](const record::MachineConditions& conditions) {
    return conditions.sm_clock_mhz ? std::optional<double>(conditions.sm_clock_mhz->mean)
                                   : std::nullopt;
  });
}

/// Collects reasons to doubt the times.
class Doubts {
 public:
  Doubts(const CaseResult& a, const record::Provenance& p, const CaseResult& b,
         const record::Provenance& q)
      : a_(a), b_(b), x_(Machine(p).cpu), y_(Machine(q).cpu) {}

  std::vector<std::string> all() {
    same("CPU family", x_.family, y_.family);
    same("CPU model number", x_.model_number, y_.model_number);
    same("CPU stepping", x_.stepping, y_.stepping);
    same("CPU cache, KiB", x_.cache_kib, y_.cache_kib);
    same("hypervisor", x_.hypervisor, y_.hypervisor);
    compare("CPU clock, MHz", number(x_.clock_mhz), number(y_.clock_mhz), clocks_differ);
    compare("calibration of the CPU, ms", number(x_.calibration_ms), number(y_.calibration_ms),
            calibrations_differ);
    compare("clock of the GPU, MHz", gpu_clock(a_), gpu_clock(b_), clocks_differ);
    compare_loads();
    return std::move(found_);
  }

 private:
  template <class T>
  void same(const char* name, const Optional<T>& x, const Optional<T>& y) {
    if (x && y && shown(x) != shown(y))
      found_.push_back(fmt::format("{} {}, now {}", name, shown(x).dump(), shown(y).dump()));
  }

  static std::optional<double> number(const Optional<Number>& value) {
    return value ? std::optional<double>(*value) : std::nullopt;
  }

  void compare(const char* name, std::optional<double> x, std::optional<double> y,
               bool (*differ)(double, double)) {
    if (x && y && differ(*x, *y))
      found_.push_back(fmt::format("{} {:.4g}, now {:.4g}", name, *x, *y));
  }

  /// The load average also counts the run before this one. So it is only used for journals that
  /// lack the CPUs of other programs.
  void compare_loads() {
    const auto x = other_cpus(a_), y = other_cpus(b_);
    const double cpus = static_cast<double>(y_.cores.value_or(0));
    if (x && y) {
      if (std::abs(*x - *y) > std::max(kLeastLoad, kLoadShare * cpus))
        found_.push_back(fmt::format("CPUs that other programs used {:.2f}, now {:.2f}", *x, *y));
      return;
    }
    const Number *before = rtfx::known(x_.load_average), *now = rtfx::known(y_.load_average);
    if (before == nullptr || now == nullptr) return;
    if (load_averages_differ(*before, *now, cpus))
      found_.push_back(fmt::format("load average {:.2f}, now {:.2f}", static_cast<double>(*before),
                                   static_cast<double>(*now)));
  }

  const CaseResult &a_, &b_;
  const record::Cpu x_, y_;
  std::vector<std::string> found_;
};

}  // namespace

std::vector<std::string> condition_doubts(const CaseResult& a, const CaseResult& b) {
  std::vector<std::string> found;
  for (const record::Provenance* p : a.provenances()) {
    for (const record::Provenance* q : b.provenances()) add_new(found, Doubts(a, *p, b, *q).all());
  }
  return found;
}

std::string unfit(const CaseResult& c) {
  if (c.summary.failure) return "failed: " + *c.summary.failure;
  if (!c.has_provenance()) return "no provenance record";
  for (const record::Provenance* provenance : c.provenances()) {
    const record::Build build = provenance->rtfx.value_or(record::Build());
    if (build.build_type != "Release")
      return fmt::format("a build of type {}", shown(build.build_type).dump());
    if (build.sanitizer == true) return "a build with sanitizers";
  }
  const json wanted = config_value(c.provenance(), "/protocol/measured_rounds");
  if (wanted.is_number() && c.rounds().size() < wanted.get<size_t>())
    return fmt::format("{} of {} rounds", c.rounds().size(), wanted.get<size_t>());
  const bool on_gpu = c.provenance().device && c.provenance().device->type == "cuda";
  for (const record::Round& round : c.rounds()) {
    const auto* run = std::get_if<record::Run>(&round);
    if (on_gpu && (run == nullptr || !run->conditions || !run->conditions->sm_clock_mhz))
      return "no GPU clocks in its records";
  }
  return "";
}

Grade required_grade(const CaseResult& a, const CaseResult& b) {
  return std::min(a.summary.required, b.summary.required);
}

namespace {

/// Returns the first round of a case that is fit (unfit()).
const record::Run& first_run(const CaseResult& c) {
  return std::get<record::Run>(c.rounds().front());
}

std::optional<double> wer_of(const CaseResult& c) {
  const auto values = metric_values(find_metric("wer", ""), c.rounds());
  return values.empty() ? std::nullopt : std::optional(values.back());
}

/// Judges whether the results equal those of the baseline, and are as exact as required.
Judgement judge_results(const CaseResult& old, const CaseResult& now) {
  const std::string& grade = now.summary.grade;
  const bool exact = now.about().decoder.exactness == "exact";
  const Grade least = required_grade(old, now);
  if (!now.summary.deterministic)
    return {Verdict::correctness, "its rounds gave different results"};
  if (exact && !grade.empty() && grade != "baseline" && grade_of(grade) > least) {
    return {Verdict::correctness,
            fmt::format("graded {} against its baseline decoder, {} is required", grade,
                        to_string(least))};
  }
  if (const std::string beyond = beyond_rounding(now.summary);
      !beyond.empty() && least < Grade::different)
    return {Verdict::correctness, "beyond rounding: " + beyond};
  if (const std::string wrong = now.summary.inexact(); !wrong.empty())
    return {Verdict::correctness, wrong};
  const record::Run &x = first_run(old), &y = first_run(now);
  if (x.hypotheses_sha256 == y.hypotheses_sha256)
    return {Verdict::pass, "the same, score bits included"};
  if (!x.tokens_sha256 || !y.tokens_sha256)
    return {Verdict::invalid, "other hypotheses, and no tokens_sha256 that tells how"};
  if (x.tokens_sha256 == y.tokens_sha256)
    return {Verdict::pass, "the same tokens and frames, other score bits"};
  const auto wer_a = wer_of(old), wer_b = wer_of(now);
  const bool same_scorer = scorer_of(old) == scorer_of(now);
  if (same_scorer && wer_a && wer_b && *wer_b < *wer_a)
    return {Verdict::pass, "other tokens and fewer word errors: renew the baseline"};
  const bool proven = least >= Grade::rounding && now.summary.replay.has_value();
  if (exact && least < Grade::different && !proven)
    return {Verdict::correctness, "other tokens or frames than the baseline's"};
  return {Verdict::pass, proven ? "other tokens, every decision within rounding"
                                : "other tokens, which is allowed here"};
}

/// Returns the word errors beyond those in fp32 that the run's configuration does not allow.
std::string fault_beside_fp32(const ResultSet& run, const CaseResult& now) {
  const json allowed = config_value(run.provenance, "/verify/wer_above_fp32");
  const CaseResult* in_fp32 = run.find(name_in_fp32(now.name()));
  if (in_fp32 == nullptr || !allowed.is_number()) return "";
  return above_fp32(now.summary, in_fp32->summary, allowed);
}

GateRow wer_row(const CaseResult& old, const CaseResult& now, double tolerance) {
  GateRow row{now.name(), "wer", wer_of(old), wer_of(now), {}, tolerance, {}, Verdict::pass, ""};
  if (!row.baseline || !row.current) {
    const bool lost = row.baseline.has_value() != row.current.has_value();
    row.verdict = lost ? Verdict::invalid : Verdict::pass;
    row.reason = lost ? "only one of both has references" : "no references";
    return row;
  }
  if (scorer_of(old) != scorer_of(now)) {
    row.reason = "another scorer, which is allowed: not compared";
    return row;
  }
  const double more = *row.current - *row.baseline;
  if (more > tolerance) {
    row.verdict = Verdict::correctness;
    row.reason = fmt::format("{:.3g} points more word errors", 100 * more);
  }
  return row;
}

bool noisy(const CaseResult& c) {
  const json limit = config_value(c.provenance(), "/protocol/cv_max");
  const auto totals = counted_values(find_metric("rtfx.total", ""), c.summary);
  return limit.is_number() && totals.size() > 1 && summarize(totals).cv() > limit;
}

/// Returns the change that noise alone makes between two equal runs, from the interval of their
/// ratio.
double noise_of(const Interval& ratio) {
  return noise_floor({1, ratio.low / ratio.estimate, ratio.high / ratio.estimate});
}

using Cases = std::vector<const CaseResult*>;

/// A row with a change. Its verdict depends on the number of such rows.
struct SpeedRow {
  size_t index;  // index of the row
  std::vector<std::vector<double>> before;
  std::vector<double> now;
  bool more_is_better, old_disturbed, disturbed, any_noisy;
  std::vector<std::string> doubts;
};

struct Rows {
  std::vector<GateRow> all;
  std::vector<SpeedRow> speeds;  // rows of speeds, without a verdict so far
};

void add_speed(Rows& rows, const Metric& metric, const Cases& old, const CaseResult& now,
               double tolerance, std::optional<double> drift, double measured_floor) {
  const CountedRounds now_rounds = now.summary.counted_rounds();
  SpeedRow speed{.index = rows.all.size(),
                 .before = {},
                 .now = counted_values(metric, now.summary),
                 .more_is_better = metric.direction > 0,
                 .old_disturbed = false,
                 .disturbed = now_rounds.disturbed,
                 .any_noisy = noisy(now),
                 .doubts = {}};
  bool missing = speed.now.empty();
  std::string rounds;
  double sum = 0;
  for (const CaseResult* run : old) {
    const CountedRounds counted = run->summary.counted_rounds();
    speed.old_disturbed = speed.old_disturbed || counted.disturbed;
    rounds += (rounds.empty() ? "" : "; ") + counted.text();
    const auto& values = speed.before.emplace_back(counted_values(metric, run->summary));
    speed.any_noisy = speed.any_noisy || noisy(*run);
    missing = missing || values.empty();
    if (!values.empty()) sum += summarize(values).mean;
  }
  if (speed.now.empty() && sum == 0) return;
  GateRow& row = rows.all.emplace_back(
      GateRow{now.name(), metric.key, {}, {}, {}, tolerance, {}, Verdict::invalid, ""});
  if (missing) {
    row.reason = "no value in one of both";
    return;
  }
  row.rounds = fmt::format("{} -> {}", rounds, now_rounds.text());
  row.baseline = sum / static_cast<double>(old.size());
  row.current = summarize(speed.now).mean;
  row.change = runs_ratio(speed.before, speed.now, drift);
  const bool has_interval = std::isfinite(row.change->high);
  row.floor = has_interval ? std::max(measured_floor, noise_of(*row.change)) : measured_floor;
  for (const CaseResult* run : old) {
    for (std::string& doubt : condition_doubts(*run, now)) {
      if (std::ranges::find(speed.doubts, doubt) == speed.doubts.end())
        speed.doubts.push_back(std::move(doubt));
    }
  }
  speed.disturbed = speed.disturbed || speed.old_disturbed;
  row.is_fair = speed.doubts.empty() && !speed.disturbed;
  rows.speeds.push_back(std::move(speed));
}

/// `judged_rows` is the number of rows that are judged together.
void judge_speed(GateRow& row, const SpeedRow& speed, std::optional<double> drift,
                 size_t judged_rows) {
  if (!speed.doubts.empty()) {
    row.verdict = Verdict::inconclusive;
    row.reason = fmt::format("other conditions: {}", fmt::join(speed.doubts, "; "));
    return;
  }
  const double corrected = 1 - (1 - kConfidence) / static_cast<double>(judged_rows);
  const Interval wide = runs_ratio(speed.before, speed.now, drift, corrected);
  const Interval gain = speed.more_is_better ? *row.change
                                             : Interval{1 / row.change->estimate,
                                                        1 / row.change->high, 1 / row.change->low};
  const auto [verdict, reason] =
      judge(gain, *row.tolerance, *row.floor, speed.more_is_better ? wide.high : 1 / wide.low,
            !speed.more_is_better);
  row.verdict = verdict;
  row.reason = reason;
  // A gain over a disturbed baseline proves nothing.
  if (gain.low > 1 && !speed.old_disturbed) return;
  if (speed.disturbed) {
    row.verdict = Verdict::inconclusive;
    row.reason = "fewer than three rounds are not suspect: the machine was disturbed";
  } else if (speed.any_noisy) {
    row.verdict = Verdict::inconclusive;
    row.reason = "NOISY: the spread of its rounds is over protocol.cv_max";
  }
}

GateRow invalid(const std::string& case_name, const std::string& reason) {
  return {case_name, "case", {}, {}, {}, {}, {}, Verdict::invalid, reason};
}

/// Returns the name of a baseline run, where there are several.
std::string run_name(std::span<const ResultSet> baselines, size_t index) {
  return baselines.size() > 1 ? baselines[index].journal.string() : "";
}

/// Returns rows about the conditions: those that make a case invalid, and those that may differ.
std::vector<GateRow> condition_rows(std::span<const ResultSet> baselines, const Cases& old,
                                    const CaseResult& now, const std::set<std::string>& allowed) {
  const auto row = [&](Verdict verdict, const std::string& reason) {
    return GateRow{now.name(), "case", {}, {}, {}, {}, {}, verdict, reason};
  };
  const auto refused = [&](size_t index, const std::string& reason) {
    std::vector<GateRow> rows = {row(Verdict::invalid, reason)};
    rows[0].baseline_run = run_name(baselines, index);
    return rows;
  };
  if (const auto p = unfit(now); !p.empty()) return {row(Verdict::invalid, p)};
  std::vector<GateRow> rows;
  for (size_t i = 0; i < old.size(); ++i) {
    if (const auto p = unfit(*old[i]); !p.empty()) return refused(i, "baseline: " + p);
    for (const ConditionDifference& difference : condition_differences(*old[i], now)) {
      if (!allowed.contains(difference.kind)) {
        const bool allowable = std::ranges::count(allowable_differences(), difference.kind) > 0;
        const std::string remedy = allowable ? fmt::format(" (--allow {})", difference.kind) : "";
        return refused(i, difference.text + remedy);
      }
      const std::string text = "allowed: " + difference.text;
      if (rows.empty() || rows.back().reason != text) rows.push_back(row(Verdict::pass, text));
    }
  }
  return rows;
}

void add_case(Rows& rows, std::span<const ResultSet> baselines, const ResultSet& current,
              const Cases& old, const CaseResult& now, const GateOptions& options) {
  const std::string& name = now.name();
  const auto conditions = condition_rows(baselines, old, now, options.allowed);
  rows.all.insert(rows.all.end(), conditions.begin(), conditions.end());
  if (!conditions.empty() && conditions.front().verdict == Verdict::invalid) return;
  for (size_t i = 0; i < old.size(); ++i) {
    const auto [verdict, reason] = judge_results(*old[i], now);
    rows.all.push_back({name, "results", {}, {}, {}, {}, {}, verdict, reason});
    rows.all.back().baseline_run = run_name(baselines, i);
  }
  if (const std::string above = fault_beside_fp32(current, now); !above.empty())
    rows.all.push_back({name, "fp32", {}, {}, {}, {}, {}, Verdict::correctness, above});
  for (const Metric& metric : metrics()) {
    const auto given = options.tolerances.find(metric.key);
    const auto tolerance =
        given == options.tolerances.end() ? metric.tolerance : std::optional(given->second);
    if (!tolerance) continue;
    if (metric.change == Metric::Change::difference) {
      RTFX_CHECK(std::string_view(metric.key) == "wer", "the gate judges no other difference");
      for (size_t i = 0; i < old.size(); ++i) {
        rows.all.push_back(wer_row(*old[i], now, *tolerance));
        rows.all.back().baseline_run = run_name(baselines, i);
      }
      continue;
    }
    const auto floor_of = [&](const ResultSet& set) {
      return measured_noise_floor(set, now.group(), metric).value_or(0);
    };
    double floor = floor_of(current);
    for (const ResultSet& set : baselines) floor = std::max(floor, floor_of(set));
    add_speed(rows, metric, old, now, *tolerance, options.drift, floor);
  }
}

/// Returns the rows of gate(). Rows with a change have no verdict yet.
Rows rows_of(std::span<const ResultSet> baselines, const ResultSet& current,
             const GateOptions& options) {
  Rows rows;
  for (const CaseResult& now : current.cases) {
    if (!now.control_of().empty()) continue;
    Cases old;
    for (size_t i = 0; i < baselines.size(); ++i) {
      if (const CaseResult* found = baselines[i].find(now.name())) {
        old.push_back(found);
      } else {
        rows.all.push_back(invalid(now.name(), "missing in the baseline"));
        rows.all.back().baseline_run = run_name(baselines, i);
      }
    }
    if (old.size() == baselines.size()) add_case(rows, baselines, current, old, now, options);
  }
  std::set<std::string> missing;
  for (const ResultSet& baseline : baselines) {
    for (const CaseResult& old : baseline.cases) {
      if (old.control_of().empty() && current.find(old.name()) == nullptr &&
          missing.insert(old.name()).second)
        rows.all.push_back(invalid(old.name(), "missing in the current results"));
    }
  }
  return rows;
}

/// A tolerance that applies to no row is invalid: its author believes that it guards something.
void add_idle_tolerances(std::vector<GateRow>& rows, const Tolerances& tolerances) {
  const auto has = [&](const std::string& what) {
    return std::ranges::any_of(rows, [&](const GateRow& row) { return row.what == what; });
  };
  if (!has("results")) return;  // no case was compared
  for (const auto& [metric, tolerance] : tolerances) {
    if (has(metric)) continue;
    rows.push_back(
        invalid("--tolerance " + metric,
                "no case has this metric in all runs, so that nothing was judged by it"));
  }
}

}  // namespace

std::string number_text(double value) {
  return std::abs(value) < 10 ? fmt::format("{:.2g}", value) : fmt::format("{:.0f}", value);
}

std::string percent_text(double share) { return number_text(100 * share) + " %"; }

std::string GateRow::full_reason() const {
  if (baseline_run.empty()) return reason;
  return fmt::format("{}{}baseline {}", reason, reason.empty() ? "" : "; ", baseline_run);
}

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass:
      return "PASS";
    case Verdict::regressed:
      return "REGRESSED";
    case Verdict::inconclusive:
      return "INCONCLUSIVE";
    case Verdict::invalid:
      return "INVALID";
    case Verdict::correctness:
      return "CORRECTNESS";
  }
  return "";
}

Verdict worse(Verdict a, Verdict b) {
  const auto gravity = [](Verdict v) {
    return v == Verdict::inconclusive ? 1 : v == Verdict::regressed ? 2 : static_cast<int>(v);
  };
  return gravity(a) >= gravity(b) ? a : b;
}

Judgement judge(const Interval& gain, double tolerance, double floor,
                std::optional<double> corrected_high, bool less_is_better) {
  if (!std::isfinite(gain.high) || gain.low <= 0)
    return {Verdict::inconclusive,
            "one value has no interval: measure more rounds, or give five baselines of one value"};
  if (gain.low > 1) return {Verdict::pass, "better"};
  // A time that is 10 % longer is a gain of 1 / 1.1, and a speed that is 10 % lower one of 0.9.
  const auto least = [&](double loss) { return less_is_better ? 1 / (1 + loss) : 1 - loss; };
  const double limit = least(std::max(tolerance, floor));
  if (gain.high < limit && corrected_high.value_or(0) >= limit) {
    return {Verdict::inconclusive,
            "worse beyond the tolerance, but among so many rows this can be chance"};
  }
  if (tolerance < floor) {
    if (gain.high < least(floor)) return {Verdict::regressed, "worse, beyond the noise floor"};
    return {Verdict::inconclusive, fmt::format("the tolerance of {} is below the noise floor of {}",
                                               percent_text(tolerance), percent_text(floor))};
  }
  if (gain.high < least(tolerance)) return {Verdict::regressed, "worse beyond the tolerance"};
  if (gain.low >= least(tolerance)) return {Verdict::pass, ""};
  return {Verdict::inconclusive, "the interval holds the tolerance: more rounds would tell"};
}

std::vector<GateRow> gate(std::span<const ResultSet> baselines, const ResultSet& current,
                          const GateOptions& options) {
  std::vector<GateRow> rows;
  const auto check = [&](const ResultSet& set) {
    const std::string file = set.journal.string();
    if (set.profiled) {
      rows.push_back(invalid(file, "comes from `rtfx profile`"));
    } else if (set.cases.empty()) {
      rows.push_back(invalid(file, set.streams.empty()
                                       ? "holds no case"
                                       : "holds streams alone, which the gate does not judge"));
    }
  };
  std::set<std::filesystem::path> journals;
  for (const ResultSet& baseline : baselines) {
    check(baseline);
    if (!is_new_journal(journals, baseline.journal))
      rows.push_back(invalid(baseline.journal.string(), "is given as a baseline twice"));
  }
  check(current);
  if (!rows.empty()) return rows;
  auto [all, speeds] = rows_of(baselines, current, options);
  for (const SpeedRow& speed : speeds)
    judge_speed(all[speed.index], speed, options.drift, speeds.size());
  add_idle_tolerances(all, options.tolerances);
  return std::move(all);
}

bool is_new_journal(std::set<std::filesystem::path>& journals, const std::filesystem::path& file) {
  std::error_code unnamed;
  const std::filesystem::path path = std::filesystem::weakly_canonical(file, unnamed);
  return unnamed || journals.insert(path).second;
}

Verdict worst(const std::vector<GateRow>& rows) {
  Verdict verdict = rows.empty() ? Verdict::invalid : Verdict::pass;
  for (const GateRow& row : rows) verdict = worse(verdict, row.verdict);
  return verdict;
}

}  // namespace rtfx
