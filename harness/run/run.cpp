#include "harness/run/run.h"

#include <c10/cuda/CUDAFunctions.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/nvtx.h"
#include "base/printable.h"
#include "base/sha256.h"
#include "base/terminal.h"
#include "harness/machine/conditions.h"
#include "harness/results/statistics.h"
#include "harness/results/summaries.h"
#include "harness/results/table.h"
#include "harness/run/estimate.h"
#include "harness/run/isolated_run.h"
#include "harness/run/largest_batch.h"
#include "harness/run/make_records.h"
#include "harness/run/merge_shards.h"
#include "harness/run/outcome.h"
#include "harness/run/provenance.h"
#include "harness/run/session.h"
#include "harness/run/shard.h"
#include "speech/runtime/device.h"
#include "speech/runtime/stages.h"

namespace rtfx {
namespace {

using Clock = std::chrono::steady_clock;

/// Measures the cases of a session, round after round. Leaves out those that its journal holds
/// already.
class Runner {
 public:
  /// `rendezvous` is null for a whole run.
  Runner(Session& session, Rendezvous* rendezvous, const ChildTask& task)
      : session_(session),
        inputs_(session.inputs()),
        plan_(session.plan()),
        protocol_(session.config().protocol),
        rendezvous_(rendezvous),
        task_(task),
        sampler_(session.device()),
        earlier_(session.records_of<record::Run>()) {
    for (const record::Any& record : session.records()) {
      if (const auto* summary = std::get_if<record::Summary>(&record))
        summaries_.insert_or_assign(summary->case_name, *summary);
      else if (const auto* run = std::get_if<record::Run>(&record))
        failed_.erase(run->case_name);
      else if (const auto* failure = std::get_if<record::Failure>(&record))
        failed_.insert(failure->case_name);
    }
    std::string problem;  // energy is left out without NVML; `rtfx doctor` says why
    if (session.device().is_cuda() && protocol_.energy_seconds > 0)
      nvml_ = Nvml::open(pci_bus_id(session.device()), problem);
  }

  /// Sets the advice of errors for a case that ends the program, as CaseGroupRunner::suggest()
  /// does.
  void suggest(std::string remedy) { remedy_ = std::move(remedy); }

  void run() {
    const int64_t groups = task_.is_child() ? 1 : static_cast<int64_t>(plan_.size());
    Progress progress(groups * (protocol_.warmup_rounds + protocol_.measured_rounds));
    for (CaseGroup& group : plan_) {
      if (!task_.takes(number_of(group))) continue;
      if (group.rule.largest) find_size(group);
      run_group(group, progress);
    }
    meet("end");
  }

 private:
  /// The rounds of an arm that the journal holds.
  struct Measured {
    std::set<int64_t> rounds;
    std::map<int64_t, double> clean_totals;  // total RTFx of the rounds without disturbance
    std::string first_hash;  // hash of the hypotheses, which later rounds must repeat

    /// A later record of the same round replaces the earlier one.
    void add(const record::Run& run) {
      rounds.insert(run.round);
      clean_totals.erase(run.round);
      if (first_hash.empty()) first_hash = run.hypotheses_sha256;
      const Nullable<Number>& total = run.metrics.at("rtfx.total");
      if (total && (!run.suspect || run.suspect->empty())) clean_totals[run.round] = *total;
    }
    /// Returns whether there was such a round. Its hash stays, since it was measured.
    bool remove(int64_t round) {
      clean_totals.erase(round);
      return rounds.erase(round) > 0;
    }
  };

  /// Finds the largest batch size: that of the journal's rounds with the same settings, or else by
  /// trials. If no size can be tried, the run records why.
  void find_size(CaseGroup& group) {
    std::map<std::string, std::string> keys;  // result keys, indexed by case
    for (const PlannedDecoder& planned : group.decoders) {
      const DecoderSpec& spec = session_.config().decoders[planned.spec];
      const auto decoder = make_decoder(spec.name, spec.options, spec.where + "/options",
                                        inputs_.checkpoints()[group.model].config);
      keys[planned.case_name] =
          result_key(inputs_, group, planned, decoder->options(), session_.device());
    }
    for (const record::Run& run : earlier_) {
      const auto found = keys.find(run.case_name);
      if (found != keys.end() && found->second == run.result_key) group.rule.size = run.batch.size;
    }
    if (group.rule.size > 0) return;
    const auto has_ended = [&](const PlannedDecoder& planned) {
      return task_.ended.contains(session_.config().decoders[planned.spec].id);
    };
    std::optional<int64_t> size;
    if (!std::ranges::all_of(group.decoders, has_ended)) {
      size = largest_batch(inputs_, group, session_.device(),
                           [&](CaseGroupRunner& runner) { follow_task(runner); });
    }
    group.rule.size = static_cast<double>(size.value_or(1));
    if (!size) return;
    print_message("rtfx: notice: {}: the largest batch that fits has {} utterances\n",
                  printable(group.decoders.front().case_name), *size);
  }

  /// Runs in a child: has the runner report its stages to the parent, and leaves out decoders that
  /// ended earlier children.
  void follow_task(CaseGroupRunner& runner) const {
    if (!task_.is_child()) return;
    runner.watch_stages(report_stage, [](auto&) { end_child(kCaseOverdue); });
    for (Arm& arm : runner.arms()) arm.failed = task_.ended.contains(arm.spec->id);
  }

  /// Returns the arm's rounds of earlier invocations. Rounds before a change of the case's settings
  /// do not count, because readers of the journal take the last settings.
  Measured measured_before(const Arm& arm) const {
    Measured measured;
    for (const record::Run& run : earlier_) {
      if (run.case_name != arm.plan.case_name) continue;
      if (run.result_key == arm.result_key)
        measured.add(run);
      else
        measured = {};
    }
    return measured;
  }

  /// Returns the last summary of the arm by earlier invocations; null if it has none with its
  /// settings.
  const record::Summary* summary_before(const Arm& arm) const {
    const auto found = summaries_.find(arm.plan.case_name);
    const bool is_its = found != summaries_.end() && found->second.result_key == arm.result_key;
    return is_its ? &found->second : nullptr;
  }

  bool has_used_its_budget(const Arm& arm) const {
    const record::Summary* summary = summary_before(arm);
    return arm.failed || (summary != nullptr && summary->stopped_by == to_string(Stop::budget));
  }

  /// Returns how many rounds, from the first one, the journal has of every arm.
  int64_t recorded_rounds(CaseGroupRunner& runner) const {
    int64_t rounds = 0;
    while (rounds < protocol_.measured_rounds + protocol_.extra_rounds &&
           is_recorded(runner, rounds))
      ++rounds;
    return rounds;
  }

  /// Returns why the group needs no more than these rounds of the journal; Stop::go_on if it needs
  /// some.
  Stop stopped_before(CaseGroupRunner& runner, int64_t rounds, Clock::time_point begin) const {
    const Stop stop = enough(runner, rounds, begin);
    const bool may_end = protocol_.budget_seconds > 0 && rounds >= protocol_.measured_rounds;
    if (stop == Stop::go_on && may_end &&
        std::ranges::all_of(runner.arms(), [&](const Arm& a) { return has_used_its_budget(a); }))
      return Stop::budget;
    return stop;
  }

  /// Removes this round of the arms whose last record is a failure, so that it is measured again.
  /// Otherwise the failure would hide their rounds for ever. Returns whether there was one.
  bool forget_of_failed(CaseGroupRunner& runner, int64_t round) {
    bool forgotten = false;
    for (const Arm& arm : runner.arms()) {
      if (!arm.failed && failed_.contains(arm.plan.case_name))
        forgotten = measured_.at(arm.result_key).remove(round) || forgotten;
    }
    return forgotten;
  }

  void run_group(const CaseGroup& group, Progress& progress) {
    const int64_t steps = protocol_.warmup_rounds + protocol_.measured_rounds;
    const std::string& first = group.decoders.front().case_name;
    progress.label(first.substr(0, first.find('/')) + " " + group.rule.label() + " " + group.dtype);
    const auto on_failure = [&](const Arm& arm, const std::string& stage,
                                const FailureText& failure) {
      session_.append_failure(group, arm, stage, failure.text);
      if (!task_.is_child()) return;
      report_stage(&arm, stage.c_str());
      require_device(session_.device());
    };
    CaseGroupRunner runner(inputs_, group, session_.device(), on_failure, [] {});
    if (remedy_) runner.suggest(*remedy_);
    follow_task(runner);
    const auto begin = Clock::now();
    measured_.clear();
    for (Arm& arm : runner.arms()) {
      arm.result_key =
          result_key(inputs_, group, arm.plan, arm.decoder->options(), session_.device());
      const Measured& measured = measured_[arm.result_key] = measured_before(arm);
      arm.first_hash = measured.first_hash;
      if (const auto crash = task_.ended.find(arm.spec->id);
          crash != task_.ended.end() && !crash->second.recorded)
        on_failure(arm, crash->second.stage, {crash->second.message});
    }
    // The journal holds enough rounds. At most the summaries are missing, where an earlier
    // invocation ended just before them.
    const int64_t rounds = recorded_rounds(runner);
    if (const Stop stop = stopped_before(runner, rounds, begin);
        stop != Stop::go_on && !forget_of_failed(runner, rounds - 1)) {
      for (int64_t r = -protocol_.warmup_rounds; r < protocol_.measured_rounds; ++r)
        meet(round_name(group, r));
      append_summaries(runner, stop, [&](const Arm& arm) {
        return !arm.failed && summary_before(arm) == nullptr;
      });
      return progress.advance(steps);
    }

    if (const std::string notice = batch_notice(inputs_, group);
        session_.with_notices() && !notice.empty())
      print_message("rtfx: notice: {}\n", printable(notice));
    runner.prepare();
    Stop stop = Stop::go_on;
    for (int64_t r = -protocol_.warmup_rounds; stop == Stop::go_on; ++r) {
      meet(round_name(group, r));
      if (r < 0 || !is_recorded(runner, r)) measure_round(group, runner, r);
      if (r < protocol_.measured_rounds) progress.advance(1);
      if (r >= 0) stop = enough(runner, r + 1, begin);
    }
    append_summaries(runner, stop, [](const Arm& arm) { return !arm.failed; });
    session_.journal().sync();
  }

  /// Waits for the other shards, so that all begin a round together.
  void meet(const std::string& name) {
    if (rendezvous_ != nullptr) rendezvous_->barrier(name);
  }

  int64_t number_of(const CaseGroup& group) const { return &group - plan_.data(); }

  std::string round_name(const CaseGroup& group, int64_t round) const {
    return fmt::format("{}/{}", number_of(group), round);
  }

  /// Returns whether the journal has this round of every arm that takes part.
  bool is_recorded(CaseGroupRunner& runner, int64_t round) const {
    return std::all_of(runner.arms().begin(), runner.arms().end(),
                       [&](const Arm& arm) { return arm.failed || is_measured(arm, round); });
  }

  bool is_measured(const Arm& arm, int64_t round) const {
    return measured_.at(arm.result_key).rounds.contains(round);
  }

  /// Below 0, `round` is a warm-up round, which is not recorded.
  void measure_round(const CaseGroup& group, CaseGroupRunner& runner, int64_t round) {
    sampler_.begin();
    std::optional<ScopedRange> warm_up;
    if (round < 0) warm_up.emplace(RangeName::warm_up);
    const std::vector<RoundResult> results = runner.round(
        std::max<int64_t>(0, round), round < 0 ? RoundKind::warm_up : RoundKind::measured);
    const Conditions conditions = sampler_.end();
    if (round < 0) return;
    std::map<std::string, std::optional<EnergyUse>> energy;
    for (Arm& arm : runner.arms()) {
      const bool wanted = round == 0 && nvml_ != nullptr && protocol_.energy_seconds > 0;
      if (arm.failed || !wanted || is_measured(arm, round)) continue;
      energy[arm.result_key] =
          runner.energy(arm, protocol_.energy_seconds, [this] { return nvml_->energy(); });
    }
    record_round(group, runner, results, round, conditions, energy);
  }

  /// Returns whether the arms have been measured enough by their rounds so far.
  Stop enough(CaseGroupRunner& runner, int64_t rounds, Clock::time_point begin) const {
    const StoppingRule rule{.least = protocol_.measured_rounds,
                            .most = protocol_.measured_rounds + protocol_.extra_rounds,
                            .precision = protocol_.precision,
                            .budget_seconds = protocol_.budget_seconds};
    double half_width = 0;
    int64_t clean = rounds;
    for (const Arm& arm : runner.arms()) {
      if (arm.failed) continue;
      std::vector<double> totals;
      for (const auto& [round, total] : measured_.at(arm.result_key).clean_totals)
        totals.push_back(total);
      clean = std::min(clean, static_cast<int64_t>(totals.size()));
      half_width =
          std::max(half_width, totals.empty() ? std::numeric_limits<double>::infinity()
                                              : mean_interval(totals).relative_half_width());
    }
    return decide(rule, rounds, clean, half_width,
                  std::chrono::duration<double>(Clock::now() - begin).count());
  }

  void record_round(const CaseGroup& group, CaseGroupRunner& runner,
                    const std::vector<RoundResult>& results, int64_t round,
                    const Conditions& conditions,
                    const std::map<std::string, std::optional<EnergyUse>>& energy) {
    const std::vector<std::string> ids = ids_of(inputs_, group);
    std::vector<std::string> suspect = suspect_reasons(conditions);
    // Overlapped stages on a CPU wait for each other's threads. This is no disturbance.
    if (protocol_.overlapped() && !session_.device().is_cuda()) std::erase(suspect, "cpu_wait");
    std::map<std::string, EditCounts> edits;
    for (size_t a = 0; a < results.size(); ++a) {
      const Arm& arm = runner.arms()[a];
      if (!arm.failed) edits[arm.spec->id] = score(inputs_, group, results[a]);
    }
    for (size_t a = 0; a < results.size(); ++a) {
      Arm& arm = runner.arms()[a];
      if (arm.failed) continue;
      const std::string hash = hash_hypotheses(ids, results[a].hypotheses);
      const std::filesystem::path file =
          inputs_.config().output / "hypotheses" / (arm.result_key + ".jsonl");
      const bool is_first = arm.first_hash.empty();
      if (is_first) arm.first_hash = hash;
      // The file of an earlier invocation may be lost. These are the same hypotheses.
      const bool is_lost = hash == arm.first_hash && !std::filesystem::exists(file);
      if (is_first || is_lost) write_file(file, hypotheses_lines(inputs_, group, results[a]));
      // it ran again only for another arm, which lacks this round
      if (is_measured(arm, round)) continue;
      const auto baseline = edits.find(arm.plan.compared_to);
      record::Run run = run_record(inputs_, group, arm, results[a], round,
                                   baseline == edits.end() ? nullptr : &baseline->second,
                                   edits[arm.spec->id], hash, session_.device());
      if (arm.first_pass && told_.insert(arm.result_key).second)
        add_first_pass(run, *arm.first_pass);
      if (const auto use = energy.find(arm.result_key); use != energy.end())
        add_energy(run, use->second);
      add_conditions(run, conditions, suspect);
      check_metrics(run);
      measured_.at(arm.result_key).add(run);
      session_.append(run);
    }
  }

  void append_summaries(CaseGroupRunner& runner, Stop stop,
                        const std::function<bool(const Arm&)>& wanted) {
    for (const Arm& arm : runner.arms()) {
      if (wanted(arm)) append_summary(arm.plan.case_name, stop);
    }
  }

  void append_summary(const std::string& case_name, Stop stop) {
    record::Records of_case;  // includes the provenances, which say what is NOISY
    for (const record::Any& record : session_.records()) {
      const auto* run = std::get_if<record::Run>(&record);
      const auto* failure = std::get_if<record::Failure>(&record);
      if (std::holds_alternative<record::Provenance>(record) ||
          (run != nullptr && run->case_name == case_name) ||
          (failure != nullptr && failure->case_name == case_name))
        of_case.push_back(record);
    }
    for (const CaseSummary& summary : summarize_cases(std::move(of_case))) {
      if (summary.rounds.empty()) continue;
      record::Summary record = summary_record(summary);
      record.stopped_by = to_string(stop);
      session_.append(record);
    }
  }

  Session& session_;
  LoadedInputs& inputs_;
  std::vector<CaseGroup> plan_;
  const Protocol& protocol_;
  Rendezvous* rendezvous_;
  ChildTask task_;
  std::optional<std::string> remedy_;
  ConditionSampler sampler_;
  std::vector<record::Run> earlier_;  // rounds of earlier invocations
  // last summaries of earlier invocations, indexed by case
  std::map<std::string, record::Summary> summaries_;
  std::set<std::string> failed_;              // cases that a failure of an earlier invocation ended
  std::set<std::string> told_;                // keys whose first pass is in the journal
  std::map<std::string, Measured> measured_;  // arms of the group, indexed by result key
  std::unique_ptr<const Nvml> nvml_;          // only if energy is asked for
};

/// Returns the shard's configuration. It has a folder of its own. It has a GPU of its own unless
/// one is named, and its part of the CPUs unless threads are given.
Config of_shard(Config config, const Shard& shard) {
  config.output = shard.folder(config.output);
  const int64_t gpus = c10::cuda::device_count();
  const bool any_gpu = config.device == "cuda" || (config.device == "auto" && gpus > 0);
  if (!shard.whole() && any_gpu)
    config.device = fmt::format("cuda:{}", gpus == 1 ? 0 : shard.local_index);
  if (!shard.whole() && config.threads == 0 && !process_environment()("OMP_NUM_THREADS"))
    config.threads = fair_threads(shard.local_count, shard.local_cpus);
  return config;
}

/// Returns a hash of the settings that all shards of a run share. It tells shards that resume from
/// shards that begin anew.
std::string common_to_shards(const Config& config, Journal::Mode mode) {
  const auto output = std::filesystem::absolute(config.output).lexically_normal();
  const nlohmann::json common = {{"config", config.hash()},
                                 {"protocol", config.resolved().at("protocol")},
                                 {"output", output.string()},
                                 {"mode", static_cast<int>(mode)}};
  return sha256(to_text(common));
}

void check_shards(const Config& config, Journal::Mode mode, const Shard& shard) {
  if (shard.whole()) return;
  const std::string where = "--shard " + shard.label();
  if (config.isolate) throw UserError(where, "with `isolate`", "leave one of them out");
  if (std::ranges::any_of(config.batches, &BatchRule::largest)) {
    throw UserError(where, "with a batch size of \"max\": each shard would find its own",
                    "give its number");
  }
  if (config.protocol.precision > 0) {
    throw UserError(where, "with `protocol.precision`: each shard would stop by itself",
                    "give protocol.measured_rounds alone");
  }
  const std::filesystem::path merged = config.output / "journal.jsonl";
  if (!std::filesystem::exists(merged)) return;
  const record::Records records = read_journal(merged);
  const auto* first = records.empty() ? nullptr : std::get_if<record::Provenance>(&records.front());
  const bool derived = first != nullptr && first->shards;
  if (derived && mode != Journal::Mode::fresh) return;
  if (derived) {
    throw UserError(merged.string(), "holds an earlier run",
                    "--resume continues it, --force starts anew");
  }
  throw UserError(merged.string(), "holds a run without shards, which they would replace",
                  "choose another --output");
}

}  // namespace

int run(const Config& config, Journal::Mode mode, const Shard& shard, const ChildTask& task,
        const std::string& remedy) {
  check_shards(config, mode, shard);
  if (config.isolate && !task.is_child()) return run_isolated(config, mode);
  const InterruptWatch watch;
  std::optional<Rendezvous> rendezvous;
  if (!shard.whole()) rendezvous.emplace(shard, common_to_shards(config, mode));
  record::Records records;
  std::vector<CaseGroup> plan;
  bool whole = true;
  try {
    SessionOptions options;
    options.mode = task.is_child() ? Journal::Mode::child : mode;
    options.shard = shard;
    Session session(of_shard(config, shard), options);
    plan = session.plan();
    if (mode == Journal::Mode::force && !shard.whole() && shard.index == 0)
      set_aside(config.output / "journal.jsonl");
    Runner runner(session, rendezvous ? &*rendezvous : nullptr, task);
    if (!remedy.empty()) runner.suggest(remedy);
    whole = session.run([&] { runner.run(); });
    if (!whole && rendezvous) rendezvous->leave("interrupted");
    records = session.records();
  } catch (const std::exception& e) {
    if (rendezvous) rendezvous->leave(e.what());
    throw;
  }
  // A child's failures are in its records. Its exit code only says whether it came to its end.
  if (task.is_child()) return whole ? kOk : kInterrupted;
  if (!shard.whole() && whole && shard.index == 0)
    records = write_merged(config.output, shard.count);
  const std::vector<CaseSummary> cases = cases_of(plan, std::move(records));
  if (shard.index == 0) print_while_read([&] { print_table(all_of(cases)); });
  return whole ? outcome(cases, config) : kInterrupted;
}

bool measure(const Config& config, bool with_notices) {
  SessionOptions options;
  options.mode = Journal::Mode::child;
  options.with_notices = with_notices;
  Session session(config, options);
  Runner runner(session, nullptr, {});
  runner.suggest("what was recorded is kept");  // tune and verify do not isolate these cases
  return session.run([&] { runner.run(); });
}

}  // namespace rtfx
