#include "harness/profile/profile.h"

#include <c10/cuda/CUDAFunctions.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "algorithms/gpu/graph.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "harness/profile/child_process.h"
#include "harness/profile/cupti_collector.h"
#include "harness/profile/nsight_export.h"
#include "harness/profile/profile_report.h"
#include "harness/profile/range_log.h"
#include "harness/results/stand_in.h"
#include "harness/run/make_records.h"
#include "harness/run/provenance.h"
#include "harness/run/run.h"
#include "harness/run/session.h"

namespace rtfx {
namespace {

/// Calls "cudaProfilerStart" or "cudaProfilerStop", between which nsys captures. LibTorch has
/// loaded the CUDA runtime; rtfx itself does not link it.
void call_profiler(const char* function) {
  using Function = int (*)();
  if (auto* call = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, function))) call();
}

/// The collector of GPU figures: rtfx's own through CUPTI, another profiler, or none.
struct Collection {
  std::unique_ptr<CuptiCollector> cupti;
  std::string remark;                        // why there is no collector
  std::string foreign;                       // environment variables of another profiler
  std::vector<record::Profile> undisturbed;  // laps without the collector
  std::string undisturbed_problem;
};

/// Must be called before the first use of CUDA (CuptiCollector::start()).
Collection start_collection(const Config& config, const ProfileOptions& options) {
  Collection collection;
  collection.foreign = driving_profiler();
  if (config.device == "cpu" || options.undisturbed || options.recorded) return collection;
  if (!options.cupti) {
    collection.remark = "no GPU figures: switched off by --no-cupti";
  } else if (!collection.foreign.empty()) {
    collection.remark = fmt::format(
        "no GPU figures of our own: another profiler drives this process ({})", collection.foreign);
  } else {
    std::string problem;
    collection.cupti = CuptiCollector::start(options.graphs, problem);
    if (!collection.cupti) collection.remark = "no GPU figures: " + problem;
  }
  if (collection.cupti && c10::cuda::device_count() > 0) {
    print_message("rtfx: notice: first {} laps without a collector\n", options.laps);
    collection.undisturbed =
        undisturbed_laps(config, options.laps, options.only, collection.undisturbed_problem);
  }
  return collection;
}

class Profiler {
 public:
  Profiler(Session& session, const ProfileOptions& options, Collection collection)
      : session_(session),
        options_(options),
        collection_(std::move(collection)),
        plan_(single_cases(session.plan(), options.only, options.whole_name)),
        device_(session.device()),
        trace_(options.trace_limit, plan_.size()) {
    if (!device_.is_cuda()) {
      collection_.cupti.reset();
      collection_.remark = "no GPU figures: they need a GPU, this runs on the CPU";
    }
  }

  void run() {
    if (!options_.undisturbed && !options_.recorded)
      print_message("rtfx: notice: {}\n", collection_.cupti
                                              ? "GPU figures by " + collection_.cupti->description()
                                              : collection_.remark);
    Progress progress(static_cast<int64_t>(plan_.size()) * (1 + options_.laps));
    for (const CaseGroup& group : plan_) run_case(group, progress);
  }

  bool failed() const { return failed_; }

  /// Prints the table, the names of files, and the command that gives the same in Nsight Systems.
  void print_end() const {
    print_profile(session_.records());
    fmt::print("\nrecords: {}\n", printable(session_.journal().path().string()));
    if (options_.trace_limit > 0) {
      const auto path = session_.config().output / "trace.json";
      trace_.write(path);
      fmt::print("timeline: {} ({})\n", printable(path.string()), trace_.summary());
    }
    fmt::print("As a session of Nsight Systems: the same command with --nsys\n");
    std::fflush(stdout);
  }

 private:
  const char* graph_trace() const { return options_.graphs == GraphTrace::node ? "node" : "graph"; }

  int64_t now() const {
    if (collection_.cupti) return collection_.cupti->now();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  void run_case(const CaseGroup& group, Progress& progress) {
    const auto on_failure = [&](const Arm& arm, const std::string& stage,
                                const FailureText& failure) {
      session_.append_failure(group, arm, stage, failure.text);
      failed_ = true;
    };
    bool measuring = false;
    CuptiCollector* cupti = collection_.cupti.get();
    const auto on_batch = [&] {
      if (cupti != nullptr) measuring ? cupti->flush() : cupti->begin();
    };
    CaseGroupRunner runner(session_.inputs(), group, device_, on_failure, on_batch);
    runner.suggest(kLeaveOut);
    Arm& arm = runner.arms().front();
    arm.result_key =
        result_key(session_.inputs(), group, arm.plan, arm.decoder->options(), device_);
    progress.label(arm.plan.case_name);
    runner.prepare();
    if (!arm.failed) {
      const ScopedRange warm_up(RangeName::warm_up);
      runner.round(0);
    }
    progress.advance(1);
    // A profiler that captured no lap would make a session without a case.
    if (arm.failed) return progress.advance(options_.laps);

    if (cupti != nullptr) cupti->begin();
    measuring = true;
    // With a collector of our own, nobody else listens to these.
    const bool bracket = device_.is_cuda() && cupti == nullptr && !options_.undisturbed;
    if (bracket) call_profiler("cudaProfilerStart");
    {
      const RangeLog log([this] { return now(); }, device_, /*drain=*/cupti != nullptr);
      std::vector<Span> laps;
      for (int64_t lap = 0; lap < options_.laps; ++lap) {
        laps.push_back({now(), 0});
        if (!arm.failed) runner.round(lap);
        laps.back().end = now();
        progress.advance(1);
      }
      if (bracket) call_profiler("cudaProfilerStop");
      if (!arm.failed) record_case(group, arm, log, laps);
    }
  }

  void record_case(const CaseGroup& group, const Arm& arm, const RangeLog& log,
                   const std::vector<Span>& laps) {
    const CuptiCollector* cupti = collection_.cupti.get();
    const Activity activity = cupti != nullptr ? collection_.cupti->end() : Activity();
    auto record = case_record<record::Profile>(session_.inputs(), group, arm, device_, "profile");
    record.started = utc_now();
    record.laps = options_.laps;
    using Text = Nullable<std::string>;
    using Count = Nullable<int64_t>;
    record.gpu_figures = cupti != nullptr ? Text("cupti") : std::nullopt;
    record.graph_trace = cupti != nullptr ? Text(graph_trace()) : std::nullopt;
    record.collector = cupti != nullptr ? Text(cupti->description()) : std::nullopt;
    record.dropped_records =
        cupti != nullptr ? Count(static_cast<int64_t>(cupti->dropped())) : std::nullopt;
    record.records_without_time =
        cupti != nullptr ? Count(static_cast<int64_t>(cupti->without_time())) : std::nullopt;
    const bool collected =
        cupti == nullptr || (cupti->dropped() == 0 && cupti->without_time() == 0);
    const bool valid = collected && log.complete();
    record.valid = valid;
    std::vector<std::string> remarks;
    if (!collection_.remark.empty()) remarks.push_back(collection_.remark);
    failed_ = failed_ || !valid;
    if (!log.complete()) remarks.emplace_back("INVALID: ranges could not be written down");
    if (!collected) {
      remarks.push_back(
          fmt::format("INVALID: CUPTI dropped {} records and left {} without a time; take fewer "
                      "utterances (datasets.0.limit) or smaller batches",
                      cupti->dropped(), cupti->without_time()));
    }
    const FigureOptions figures{cupti != nullptr, options_.graphs == GraphTrace::graph,
                                static_cast<size_t>(options_.top)};
    record.regions = profiled_regions(log.ranges(), laps, activity, figures, remarks);
    if (cupti != nullptr) {
      record.segments = profiled_segments(log.segments(), activity);
      const bool timed = add_busy(record, collection_.undisturbed);
      if (!timed && !collection_.undisturbed_problem.empty())
        remarks.push_back("no busy shares: " + collection_.undisturbed_problem);
    }
    const auto stand_ins =
        stand_in_marks(record.model, stand_in_data(record.dataset.id, record.dataset.stand_in, {}));
    remarks.insert(remarks.end(), stand_ins.begin(), stand_ins.end());
    record.remarks = std::move(remarks);
    if (options_.trace_limit > 0) {
      trace_.add_case(name_with_marks(arm.plan.case_name, stand_ins), log.ranges(), activity,
                      laps.front().end);
    }
    session_.append(std::move(record));
  }

  Session& session_;
  ProfileOptions options_;
  Collection collection_;
  std::vector<CaseGroup> plan_;
  at::Device device_;
  TraceFile trace_;
  bool failed_ = false;
};

}  // namespace

std::vector<CaseGroup> single_cases(const std::vector<CaseGroup>& plan, const std::string& only,
                                    bool whole_name) {
  std::vector<CaseGroup> cases;
  for (const CaseGroup& group : plan) {
    for (const PlannedDecoder& decoder : group.decoders) {
      const bool wanted = whole_name ? decoder.case_name == only
                                     : decoder.case_name.find(only) != std::string::npos;
      if (!wanted) continue;
      cases.push_back(group);
      cases.back().decoders = {decoder};
    }
  }
  if (cases.empty())
    throw UserError("--only", fmt::format("no case has '{}' in its name", only),
                    "`rtfx validate` lists them");
  return cases;
}

void require_case(const Config& config, const std::string& only, bool whole_name) {
  if (only.empty()) return;
  single_cases(make_plan(config, LoadedInputs(config).kinds()), only, whole_name);
}

Config profiled_config(const Config& given, const std::string& command) {
  Config config = given;
  require_sizes(config, command);
  if (config.sync_debug) {
    print_message("rtfx: notice: sync_debug is for `rtfx run`; a profile does without\n");
    config.sync_debug = false;
  }
  if (config.protocol.overlapped()) {
    print_message("rtfx: notice: a profile is region by region: protocol.mode isolated\n");
    config.protocol.mode = "isolated";
  }
  return config;
}

int profile(const Config& given, const ProfileOptions& options) {
  const Config config = profiled_config(given, "rtfx profile");
  require_case(config, options.only, options.whole_name);
  keep_executable_graphs = !options.undisturbed;
  Collection collection = start_collection(config, options);
  SessionOptions records;
  records.mode = Journal::Mode::force;
  records.journal = options.undisturbed ? kUndisturbed
                    : options.recorded  ? kRecorded
                                        : "profile.jsonl";
  records.profiled = true;
  Session session(config, records);
  Profiler profiler(session, options, std::move(collection));
  const bool whole =
      session.run([&] { profiler.run(); }, "what follows are the cases that were finished");
  if (!options.undisturbed && !options.recorded) profiler.print_end();
  return !whole ? kInterrupted : profiler.failed() ? kFailed : kOk;
}

}  // namespace rtfx
