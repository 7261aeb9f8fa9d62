#include "harness/run.h"

#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "harness/case_group.h"
#include "harness/device.h"
#include "harness/interrupt.h"
#include "harness/progress.h"
#include "harness/provenance.h"
#include "harness/record.h"
#include "harness/summaries.h"
#include "harness/table.h"

namespace rtfx {
namespace {

using nlohmann::json;

/// One invocation: the journal, what it holds already and what has happened.
class Runner {
 public:
  Runner(const Config& config, Journal::Mode mode)
      : workspace_(config),
        plan_(make_plan(config, workspace_.kinds())),
        device_(parse_device(config.device, "device")),
        journal_(config.output, mode),
        records_(read_journal(journal_.path())) {}

  int run() {
    const std::string warning = build_warning();
    if (!warning.empty()) fmt::print(stderr, "rtfx: warning: {}\n", warning);
    workspace_.read_audio_files();
    print_notices();
    json provenance = provenance_record(workspace_, device_, utc_now());
    provenance_id_ = provenance["provenance_id"];
    append(std::move(provenance));
    const Protocol& protocol = workspace_.config().protocol;
    Progress progress(static_cast<int64_t>(plan_.size()) *
                      (protocol.warmup_rounds + protocol.measured_rounds));
    for (const CaseGroup& group : plan_) run_group(group, progress);
    return outcome();
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
      json record = case_fields(workspace_, group, arm, device_);
      record["kind"] = "failure";
      record["stage"] = stage;
      record["message"] = message;
      append(std::move(record));
      failed_ = true;
    };
    CaseGroupRunner runner(workspace_, group, device_, on_failure, [] {});
    std::map<std::string, std::set<int64_t>> done;
    std::set<int64_t> missing;
    for (Arm& arm : runner.arms()) {
      arm.result_key = result_key(workspace_, group, arm.plan, arm.decoder->options(), device_);
      done[arm.result_key] = rounds_done(arm);
      for (int64_t r = 0; r < protocol.measured_rounds; ++r)
        if (!done[arm.result_key].contains(r)) missing.insert(r);
    }
    if (missing.empty()) {
      // The last invocation may have ended just before its summaries.
      append_summaries(runner, [&](const Arm& arm) { return !has_summary(arm); });
      return progress.advance(steps);
    }

    const std::string& first = group.decoders.front().case_name;
    progress.label(first.substr(0, first.find('/')) + " " +
                   workspace_.config().batches[group.batch].label() + " " + group.dtype);
    runner.prepare();
    for (int64_t r = -protocol.warmup_rounds; r < protocol.measured_rounds; ++r) {
      if (r < 0 || missing.contains(r)) {
        const std::vector<RoundResult> results = runner.round(std::max<int64_t>(0, r));
        if (r >= 0) record_round(group, runner, results, r, done);
      }
      progress.advance(1);
    }
    append_summaries(runner, [](const Arm& arm) { return !arm.failed; });
    journal_.sync();
  }

  void record_round(const CaseGroup& group, CaseGroupRunner& runner,
                    const std::vector<RoundResult>& results, int64_t round,
                    const std::map<std::string, std::set<int64_t>>& done) {
    std::vector<std::string> ids;
    for (const Utterance& u : workspace_.datasets()[group.dataset].dataset.utterances)
      ids.push_back(u.id);
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
      if (done.at(arm.result_key).contains(round)) continue;
      const auto reference = edits.find(arm.plan.compared_to);
      append(run_record(workspace_, group, arm, results[a], round,
                        reference == edits.end() ? nullptr : &reference->second,
                        edits[arm.spec->id], hash, device_));
    }
  }

  void append_summaries(CaseGroupRunner& runner, const std::function<bool(const Arm&)>& wanted) {
    for (const Arm& arm : runner.arms()) {
      if (wanted(arm)) append_summary(arm.plan.case_name);
    }
  }

  void append_summary(const std::string& case_name) {
    for (const CaseSummary& summary : summarize_cases(records_)) {
      if (summary.case_name() == case_name && !summary.totals.empty()) {
        append(summary_record(summary, workspace_.config().protocol.cv_max));
      }
    }
  }

  int outcome() const {
    const auto below = below_required(records_, workspace_.config().required);
    for (const std::string& name : below)
      fmt::print(stderr, "rtfx: below the required exactness: {}\n", name);
    return !below.empty() ? kCorrectness : failed_ ? kFailed : kOk;
  }

  Workspace workspace_;
  std::vector<CaseGroup> plan_;
  at::Device device_;
  Journal journal_;
  std::vector<json> records_;
  std::string provenance_id_;
  bool failed_ = false;
};

}  // namespace

std::vector<std::string> below_required(const std::vector<json>& records,
                                        const std::map<std::string, std::string>& required) {
  std::vector<std::string> below;
  for (const CaseSummary& summary : summarize_cases(records)) {
    if (summary.failure || summary.verdict.empty() || summary.verdict == "reference") continue;
    if (summary.last["decoder"]["exactness"] != "exact") continue;
    const Grade least = grade_of(required.at(summary.last["dtype"]));
    if (grade_of(summary.verdict) > least) below.push_back(summary.case_name());
  }
  return below;
}

int run(const Config& config, Journal::Mode mode) {
  const c10::InferenceMode inference;
  if (config.threads > 0) at::set_num_threads(static_cast<int>(config.threads));
  watch_interrupts();
  const c10::OptionalDeviceGuard device(parse_device(config.device, "device"));
  Runner runner(config, mode);
  int code = kInterrupted;
  try {
    code = runner.run();
  } catch (const Interrupted&) {
    fmt::print(stderr, "\nrtfx: interrupted; the journal is whole, --resume continues it\n");
  }
  print_table(runner.records(), config.protocol.cv_max);
  return code;
}

}  // namespace rtfx
