#include "harness/run/run.h"

#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDAFunctions.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <set>

#include "base/error.h"
#include "harness/machine/conditions.h"
#include "harness/machine/device.h"
#include "harness/machine/interrupt.h"
#include "harness/results/stopping.h"
#include "harness/results/summaries.h"
#include "harness/results/table.h"
#include "harness/run/case_group.h"
#include "harness/run/isolated_run.h"
#include "harness/run/merge_shards.h"
#include "harness/run/outcome.h"
#include "harness/run/progress.h"
#include "harness/run/provenance.h"
#include "harness/run/record.h"
#include "harness/run/rendezvous.h"

namespace rtfx {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

/// One invocation: the journal, what it holds already and what has happened.
class Runner {
 public:
  /// `rendezvous`: null for a whole run.
  Runner(const Config& config, Journal::Mode mode, const Shard& shard, Rendezvous* rendezvous,
         const ChildTask& task)
      : shard_(shard),
        rendezvous_(rendezvous),
        task_(task),
        workspace_(config),
        plan_(make_plan(config, workspace_.kinds())),
        device_(parse_device(config.device, "device")),
        sampler_(device_),
        journal_(config.output, mode),
        records_(read_journal(journal_.path())) {}

  void run() {
    const std::string warning = build_warning();
    if (!warning.empty()) fmt::print(stderr, "rtfx: warning: {}\n", warning);
    workspace_.read_audio_files();
    workspace_.keep(shard_);
    print_notices();
    json provenance = provenance_record(workspace_, device_, utc_now());
    provenance_id_ = provenance["provenance_id"];
    append(std::move(provenance));
    const Protocol& protocol = workspace_.config().protocol;
    const int64_t groups = task_.is_child() ? 1 : static_cast<int64_t>(plan_.size());
    Progress progress(groups * (protocol.warmup_rounds + protocol.measured_rounds));
    for (const CaseGroup& group : plan_) {
      if (task_.takes(number_of(group))) run_group(group, progress);
    }
    meet("end");
  }

  const std::vector<json>& records() const { return records_; }

 private:
  void append(json record) {
    if (!provenance_id_.empty()) record["provenance_id"] = provenance_id_;
    journal_.append(record);
    records_.push_back(std::move(record));
  }

  void print_notices() const {
    for (size_t i = 0; i < workspace_.checkpoints().size(); ++i) {
      for (const std::string& notice : workspace_.checkpoints()[i].notices) {
        fmt::print(stderr, "rtfx: notice: {}: {}\n", workspace_.config().models[i].path.string(),
                   notice);
      }
    }
    constexpr size_t kShown = 5;
    for (const LoadedDataset& dataset : workspace_.datasets()) {
      for (size_t i = 0; i < std::min(kShown, dataset.notices.size()); ++i) {
        fmt::print(stderr, "rtfx: notice: {}\n", dataset.notices[i]);
      }
      if (dataset.notices.size() > kShown) {
        fmt::print(stderr, "rtfx: notice: ... and {} more like these\n",
                   dataset.notices.size() - kShown);
      }
    }
  }

  /// Rounds of the arm that the journal holds; its first hypotheses stay what later ones must
  /// equal.
  std::set<int64_t> rounds_done(Arm& arm) const {
    std::set<int64_t> rounds;
    for (const json& record : records_) {
      if (record.value("kind", "") != "run" || record.value("result_key", "") != arm.result_key)
        continue;
      rounds.insert(record["round"].get<int64_t>());
      if (arm.first_hash.empty()) arm.first_hash = record["hypotheses_sha256"];
    }
    return rounds;
  }

  bool has_summary(const Arm& arm) const {
    return std::any_of(records_.begin(), records_.end(), [&](const json& record) {
      return record.value("kind", "") == "summary" &&
             record.value("result_key", "") == arm.result_key;
    });
  }

  void run_group(const CaseGroup& group, Progress& progress) {
    const Protocol& protocol = workspace_.config().protocol;
    const int64_t steps = protocol.warmup_rounds + protocol.measured_rounds;
    const auto on_failure = [&](const Arm& arm, const std::string& stage,
                                const std::string& message) {
      append(failure_record(workspace_, group, arm, device_, stage, message));
      if (!task_.is_child()) return;
      report_stage(&arm, stage.c_str());
      require_device(device_);
    };
    CaseGroupRunner runner(workspace_, group, device_, on_failure, [] {});
    if (task_.is_child()) runner.watch_stages(report_stage);
    const auto begin = Clock::now();
    std::map<std::string, std::set<int64_t>> done;
    bool complete = true, ended = true;
    for (Arm& arm : runner.arms()) {
      arm.result_key = result_key(workspace_, group, arm.plan, arm.decoder->options(), device_);
      done[arm.result_key] = rounds_done(arm);
      if (const auto crash = task_.ended.find(arm.spec->id); crash != task_.ended.end()) {
        arm.failed = true;
        if (!crash->second.recorded) on_failure(arm, crash->second.stage, crash->second.message);
        continue;
      }
      for (int64_t r = 0; r < protocol.measured_rounds; ++r)
        complete = complete && done[arm.result_key].contains(r);
      ended = ended && has_summary(arm);
    }
    // Without a precision to reach, an invocation that ended just before its summaries needs no
    // more than these.
    if (complete && (ended || protocol.precision == 0)) {
      for (int64_t r = -protocol.warmup_rounds; r < protocol.measured_rounds; ++r)
        meet(round_name(group, r));
      append_summaries(runner, Stop::rounds,
                       [&](const Arm& arm) { return !arm.failed && !has_summary(arm); });
      return progress.advance(steps);
    }

    const std::string& first = group.decoders.front().case_name;
    progress.label(first.substr(0, first.find('/')) + " " +
                   workspace_.config().batches[group.batch].label() + " " + group.dtype);
    runner.prepare();
    Stop stop = Stop::go_on;
    for (int64_t r = -protocol.warmup_rounds; stop == Stop::go_on; ++r) {
      meet(round_name(group, r));
      if (r < 0 || !is_recorded(runner, r)) measure_round(group, runner, r, done);
      if (r < protocol.measured_rounds) progress.advance(1);
      if (r >= 0) stop = enough(runner, r + 1, begin);
    }
    append_summaries(runner, stop, [](const Arm& arm) { return !arm.failed; });
    journal_.sync();
  }

  /// Waits for the other shards, so that all begin a round together.
  void meet(const std::string& name) {
    if (rendezvous_ != nullptr) rendezvous_->barrier(name);
  }

  int64_t number_of(const CaseGroup& group) const { return &group - plan_.data(); }

  std::string round_name(const CaseGroup& group, int64_t round) const {
    return fmt::format("{}/{}", number_of(group), round);
  }

  /// Of every arm that takes part.
  bool is_recorded(CaseGroupRunner& runner, int64_t round) const {
    return std::all_of(runner.arms().begin(), runner.arms().end(),
                       [&](Arm& arm) { return arm.failed || rounds_done(arm).contains(round); });
  }

  /// Negative numbers warm up.
  void measure_round(const CaseGroup& group, CaseGroupRunner& runner, int64_t round,
                     const std::map<std::string, std::set<int64_t>>& done) {
    sampler_.begin();
    const std::vector<RoundResult> results = runner.round(std::max<int64_t>(0, round));
    const Conditions conditions = sampler_.end();
    if (round >= 0) record_round(group, runner, results, round, done, conditions);
  }

  /// Whether the arms have been measured enough, by their records so far.
  Stop enough(CaseGroupRunner& runner, int64_t rounds, Clock::time_point begin) const {
    const Protocol& protocol = workspace_.config().protocol;
    const StoppingRule rule{.least = protocol.measured_rounds,
                            .most = protocol.measured_rounds + protocol.extra_rounds,
                            .precision = protocol.precision,
                            .budget_seconds = protocol.budget_seconds};
    double half_width = 0;
    int64_t clean = rounds;
    for (const Arm& arm : runner.arms()) {
      if (arm.failed) continue;
      std::vector<double> totals;
      for (const json& record : records_) {
        if (record.value("kind", "") == "run" && record["result_key"] == arm.result_key &&
            record.value("suspect", json::array()).empty() &&
            record["metrics"]["rtfx.total"].is_number())
          totals.push_back(record["metrics"]["rtfx.total"]);
      }
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
                    const std::map<std::string, std::set<int64_t>>& done,
                    const Conditions& conditions) {
    const std::vector<std::string> ids = ids_of(workspace_, group);
    std::map<std::string, EditCounts> edits;
    for (size_t a = 0; a < results.size(); ++a) {
      const Arm& arm = runner.arms()[a];
      if (!arm.failed) edits[arm.spec->id] = score(workspace_, group, results[a]);
    }
    for (size_t a = 0; a < results.size(); ++a) {
      Arm& arm = runner.arms()[a];
      if (arm.failed) continue;
      const std::string hash = hash_hypotheses(ids, results[a].hypotheses);
      if (arm.first_hash.empty()) {
        arm.first_hash = hash;
        write_file(workspace_.config().output / "hypotheses" / (arm.result_key + ".jsonl"),
                   hypotheses_lines(workspace_, group, results[a]));
      }
      if (done.at(arm.result_key).contains(round)) continue;  // another arm lacked the round
      const auto reference = edits.find(arm.plan.compared_to);
      json record = run_record(workspace_, group, arm, results[a], round,
                               reference == edits.end() ? nullptr : &reference->second,
                               edits[arm.spec->id], hash, device_);
      record["conditions"] = to_json(conditions);
      record["suspect"] = suspect_reasons(conditions);
      append(std::move(record));
    }
  }

  void append_summaries(CaseGroupRunner& runner, Stop stop,
                        const std::function<bool(const Arm&)>& wanted) {
    for (const Arm& arm : runner.arms()) {
      if (wanted(arm)) append_summary(arm.plan.case_name, stop);
    }
  }

  void append_summary(const std::string& case_name, Stop stop) {
    for (const CaseSummary& summary : summarize_cases(records_)) {
      if (summary.case_name() == case_name && !summary.totals.empty()) {
        json record = summary_record(summary, workspace_.config().protocol.cv_max);
        record["stopped_by"] = to_string(stop);
        append(std::move(record));
      }
    }
  }

  Shard shard_;
  Rendezvous* rendezvous_;
  ChildTask task_;
  Workspace workspace_;
  std::vector<CaseGroup> plan_;
  at::Device device_;
  ConditionSampler sampler_;
  Journal journal_;
  std::vector<json> records_;
  std::string provenance_id_;
};

/// What the shard does of the run: its folder, and its own GPU unless one is named.
Config of_shard(Config config, const Shard& shard) {
  config.output = shard.folder(config.output);
  const int64_t gpus = c10::cuda::device_count();
  const bool any_gpu = config.device == "cuda" || (config.device == "auto" && gpus > 0);
  if (!shard.whole() && any_gpu)
    config.device = fmt::format("cuda:{}", gpus == 1 ? 0 : shard.local_index);
  return config;
}

void check_shards(const Config& config, Journal::Mode mode, const Shard& shard) {
  if (shard.whole()) return;
  const std::string where = "--shard " + shard.label();
  if (config.isolate) throw UserError(where, "with `isolate`", "leave one of them out");
  if (config.protocol.precision > 0) {
    throw UserError(where, "with `protocol.precision`: each shard would stop by itself",
                    "give protocol.measured_rounds alone");
  }
  const std::filesystem::path merged = config.output / "journal.jsonl";
  if (!std::filesystem::exists(merged)) return;
  const auto records = read_journal(merged);
  const bool derived = !records.empty() && records.front().contains("shards");
  if (derived && mode != Journal::Mode::fresh) return;
  throw UserError(
      merged.string(), "holds an earlier run",
      derived ? "--resume continues it, --force starts anew" : "choose another --output");
}

}  // namespace

int run(const Config& config, Journal::Mode mode, const Shard& shard, const ChildTask& task) {
  check_shards(config, mode, shard);
  if (config.isolate && !task.is_child()) return run_isolated(config, mode);
  const c10::InferenceMode inference;
  if (config.threads > 0) at::set_num_threads(static_cast<int>(config.threads));
  watch_interrupts();
  std::optional<Rendezvous> rendezvous;
  if (!shard.whole()) rendezvous.emplace(shard, config.hash());
  std::vector<json> records;
  bool interrupted = false;
  try {
    const Config own = of_shard(config, shard);
    const c10::OptionalDeviceGuard device(parse_device(own.device, "device"));
    Runner runner(own, mode, shard, rendezvous ? &*rendezvous : nullptr, task);
    try {
      runner.run();
    } catch (const Interrupted&) {
      if (rendezvous) rendezvous->leave("interrupted");
      fmt::print(stderr, "\nrtfx: interrupted; the journal is whole, --resume continues it\n");
      interrupted = true;
    }
    records = runner.records();
  } catch (const std::exception& e) {
    if (rendezvous) rendezvous->leave(e.what());
    throw;
  }
  // A child's failures are in its records; its exit code says only whether it came to its end.
  if (task.is_child()) return interrupted ? kInterrupted : kOk;
  if (!shard.whole() && !interrupted && shard.index == 0)
    records = write_merged(config.output, shard.count);
  if (shard.index == 0) print_table(records, config.protocol.cv_max);
  return interrupted ? kInterrupted : outcome(records, config);
}

}  // namespace rtfx
