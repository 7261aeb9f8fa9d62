#include "harness/stream/stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/sha256.h"
#include "base/terminal.h"
#include "harness/config/plan.h"
#include "harness/machine/conditions.h"
#include "harness/results/summaries.h"
#include "harness/run/encoded_batches.h"
#include "harness/run/make_records.h"
#include "harness/run/provenance.h"
#include "harness/run/run.h"
#include "harness/run/session.h"
#include "harness/stream/endpoints.h"
#include "harness/stream/stream_load.h"
#include "harness/stream/stream_quality.h"
#include "harness/stream/stream_results.h"
#include "harness/stream/stream_rule.h"
#include "harness/stream/stream_server.h"
#include "harness/stream/stream_subject.h"
#include "speech/runtime/device.h"
#include "speech/runtime/stages.h"

namespace rtfx {

namespace {

/// The clock of the machine.
class LoadWallClock : public LoadClock {
 public:
  double now() override { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  void wait_until(double time) override {
    std::this_thread::sleep_until(
        begin_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(time)));
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now();
};

/// A clock that jumps to the time it should wait for. So requests are served as fast as possible.
class LeapingClock : public LoadClock {
 public:
  double now() override { return now_; }
  void wait_until(double time) override { now_ = time; }

 private:
  double now_ = 0;
};

Config streaming_only(Config config) {
  const size_t before = config.decoders.size();
  std::erase_if(config.decoders, [](const DecoderSpec& spec) { return !spec.description.streams; });
  if (config.decoders.empty()) {
    throw UserError(config.origins.file().string(), "no decoder takes utterances in pieces",
                    "add for example label_looping, or ctc_wfst");
  }
  if (const size_t left_out = before - config.decoders.size(); left_out > 0)
    print_message("rtfx: notice: {} decoders that take no pieces are left out\n", left_out);
  // The baseline of a decoder may be left out. Streams have no grade against it.
  for (DecoderSpec& spec : config.decoders) spec.baseline.clear();
  return config;
}

class StreamRunner {
 public:
  StreamRunner(Session& session, const StreamTrial& trial)
      : session_(session),
        inputs_(session.inputs()),
        trial_(trial),
        options_(*session.config().stream),
        device_(session.device()) {
    if (trial.confirms) options_.seconds = options_.rule->confirm_seconds;
    std::string problem;  // energy is left out without NVML; `rtfx doctor` says why
    if (device_.is_cuda() && session.config().protocol.energy_seconds > 0)
      nvml_ = Nvml::open(pci_bus_id(device_), problem);
  }

  void run() {
    const std::vector<CaseGroup>& plan = session_.plan();
    size_t cases = 0;
    for (size_t i = 0; i < plan.size(); ++i)
      cases += is_first_batch_size(plan, i) ? plan[i].decoders.size() : 0;
    Progress progress(trial_.is_one() ? 1 : static_cast<int64_t>(cases * options_.streams.size()));
    for (size_t i = 0; i < plan.size(); ++i) {
      // The batches are those of the encoder, whose times are not measured.
      if (trial_.is_one() ? trial_.group != static_cast<int64_t>(i) : !is_first_batch_size(plan, i))
        continue;
      const CaseGroup chosen = of_trial(plan[i]);
      trial_.failure.empty() ? run_group(chosen, progress) : record_failure(chosen);
    }
  }

 private:
  /// Gives the arm the name and the key of its case with so many streams.
  void name_case(const CaseGroup& group, Arm& arm, int64_t streams) const {
    arm.plan.case_name =
        case_name_of_streams(inputs_.config(), group, arm.spec->id, streams, trial_.confirms);
    arm.result_key = stream_key(group, arm);
  }

  /// Extends result_key() by the settings of the streams and by the seed of their arrivals.
  std::string stream_key(const CaseGroup& group, const Arm& arm) const {
    nlohmann::json settings = stream_keys().resolved(options_);
    settings.erase("streams");  // the name of the case has the number
    const nlohmann::json identity = nlohmann::json::array(
        {result_key(inputs_, group, arm.plan, arm.decoder->options(), device_), std::move(settings),
         inputs_.config().protocol.seed});
    return sha256(to_text(identity)).substr(0, 16);
  }

  bool wants_quality() const { return options_.quality || trial_.confirms; }

  /// Returns the group with only the decoders that are measured.
  CaseGroup of_trial(CaseGroup group) const {
    if (trial_.is_one()) {
      std::erase_if(group.decoders, [&](const PlannedDecoder& decoder) {
        return inputs_.config().decoders[decoder.spec].id != trial_.decoder;
      });
    }
    return group;
  }

  /// Records that the process of a trial ended early.
  void record_failure(const CaseGroup& group) {
    const auto nothing_fails = [](const Arm&, const std::string&, const FailureText&) {};
    CaseGroupRunner runner(inputs_, group, device_, nothing_fails, [] {});
    for (Arm& arm : runner.arms()) {
      name_case(group, arm, trial_.streams);
      session_.append_failure(group, arm, "stream", trial_.failure);
    }
  }

  /// Returns the existing record of the same case; none if a later failure hides it.
  std::optional<record::StreamRun> find(const record::StreamRun& wanted) const {
    std::optional<record::StreamRun> last;    // readers of the journal take the last settings
    const record::Failure* failed = nullptr;  // of the decoder, before any number of streams
    for (const record::Any& record : session_.records()) {
      if (const auto* run = std::get_if<record::StreamRun>(&record)) {
        if (run->case_name == wanted.case_name) last = *run;
        if (failed != nullptr && supersedes(*run, *failed)) failed = nullptr;
      } else if (const auto* failure = std::get_if<record::Failure>(&record)) {
        if (failure->case_name == wanted.case_name) last.reset();
        if (supersedes(wanted, *failure)) failed = failure;
      }
    }
    if (failed != nullptr) return std::nullopt;
    if (last && last->result_key != wanted.result_key) last.reset();
    return last;
  }

  void run_group(const CaseGroup& group, Progress& progress) {
    const auto on_failure = [&](const Arm& arm, const std::string& stage,
                                const FailureText& failure) {
      session_.append_failure(group, arm, stage, failure.text);
    };
    CaseGroupRunner runner(inputs_, group, device_, on_failure, [] {});
    runner.suggest(
        "what was recorded is kept; without this decoder, --resume goes on with the others");
    if (const LoadedDataset& dataset = inputs_.datasets()[group.dataset];
        options_.quality && !dataset.failure && !has_words(dataset)) {
      print_message(
          "rtfx: notice: dataset '{}' has no texts, so no word errors of streams are counted; "
          "give a manifest with texts\n",
          printable(dataset.dataset.id));
    }
    runner.prepare();
    const EncodedDataset encoded = encode(group, runner);
    for (Arm& arm : runner.arms()) {
      if (arm.failed) {
        progress.advance(static_cast<int64_t>(options_.streams.size()));
        continue;
      }
      try {
        runner.call(arm, [&] { run_arm(group, arm, encoded, runner, progress); });
      } catch (const Interrupted&) {
        throw;
      } catch (...) {
        arm.failed = true;
        on_failure(arm, "stream", failure_text());
        runner.leave();
      }
    }
  }

  /// Returns the dataset's batches and their frames. Encodes nothing if no decoder reads frames.
  EncodedDataset encode(const CaseGroup& group, CaseGroupRunner& runner) {
    EncodedDataset encoded;
    const auto alive = [](const Arm& arm) { return !arm.failed; };
    const bool frames_are_read = options_.scope == "search" || wants_quality();
    if (!frames_are_read || std::none_of(runner.arms().begin(), runner.arms().end(), alive))
      return encoded;
    for_each_encoded_batch(inputs_, group, device_,
                           [&](const std::vector<size_t>& utterances, EncodedBatch batch) {
                             encoded.batches.push_back(utterances);
                             encoded.encoded.push_back(std::move(batch));
                           });
    return encoded;
  }

  void run_arm(const CaseGroup& group, Arm& arm, const EncodedDataset& encoded,
               CaseGroupRunner& runner, Progress& progress) {
    const LoadedDataset& dataset = inputs_.datasets()[group.dataset];
    const AcousticModel& model = runner.model();
    runner.enter(&arm, "stream");
    // made first, so that their errors come before minutes of measuring
    std::vector<EndpointRules> rules;
    for (const EndpointSettings& endpoint : options_.endpoints)
      rules.push_back(endpoint_rules(endpoint, model));
    const StreamSubject subject =
        options_.scope == "speech"
            ? speech_subject(options_, *arm.decoder,
                             inputs_.model(group.model, device_, group.dtype), dataset)
            : search_subject(options_, *arm.decoder, model, dataset, encoded);
    runner.leave();
    if (arm.failed) return;
    const auto within = [&](int64_t streams) {
      name_case(group, arm, streams);
      auto run = case_record<record::StreamRun>(inputs_, group, arm, device_, "stream");
      progress.label(fmt::format("{} {} streams", arm.spec->id, streams));
      if (const auto earlier = find(run)) return keeps_limit(*earlier);
      arm.seconds = 0;  // Each number of streams is a case, with a limit of its own.
      runner.enter(&arm, "stream");
      run.started = utc_now();
      run.batch = {};
      run.batch.by = "streams";
      run.batch.size = streams;
      measure(subject, streams, run);
      const bool stopped = run.metrics.contains("stream.stopped_seconds");
      if (!stopped && !run.metrics.at("stream.late")) {
        throw UserError(run.case_name, "no request came within the measured time",
                        options_.rule ? "raise stream.rule.seconds, or begin with more streams"
                                      : "raise stream.seconds, or use more streams");
      }
      if (options_.rule && !stopped && !run.metrics.contains("stream.final_ms")) {
        throw UserError(run.case_name, "no utterance ended within the trial",
                        "raise stream.rule.seconds, or take shorter recordings");
      }
      if (trial_.is_one()) run.confirms = trial_.confirms;
      if (wants_quality() && !stopped) {
        add_quality(run, options_, subject, streams, encoded, inputs_.normalizer(), seed());
        if (!rules.empty()) run.endpoints = endpoint_runs(group, *arm.decoder, rules, streams);
      }
      runner.leave();
      if (std::exchange(arm.failed, false)) return false;  // over the limit, which is recorded
      session_.append(run);
      return keeps_limit(run);
    };
    if (trial_.is_one()) {
      within(trial_.streams);
      return;
    }
    if (options_.slo_ms > 0) {
      most_within(options_.streams.front(), /*growth=*/2, within);
      progress.advance(static_cast<int64_t>(options_.streams.size()));
      return;
    }
    for (const int64_t streams : options_.streams) {
      within(streams);
      progress.advance(1);
    }
  }

  uint64_t seed() const { return static_cast<uint64_t>(inputs_.config().protocol.seed); }
  double period() const { return options_.period_ms / 1000; }

  StreamStarts starts() const {
    StreamStarts starts;
    if (options_.start == "random") starts.seed = seed();
    return starts;
  }

  /// Adds the figures of the load and of the streamed utterances to the record.
  void measure(const StreamSubject& subject, int64_t streams, record::StreamRun& run) {
    warm_up(subject, streams);
    const std::vector<FinishedUtterance> finished = serve_load(subject, streams, run);
    compare_with_whole(subject, streams, finished, run);
  }

  std::vector<ServedBatch> run_load(
      const std::vector<Request>& load, double wait, LoadClock& clock, LoadServer& server,
      const std::function<bool(const ServedBatch&)>& ends = nullptr) const {
    const DynamicBatcher batcher(options_.max_batch, wait);
    const auto work = [&](const std::vector<Request>& requests) {
      check_interrupt();
      return server.work(requests);
    };
    return serve(load, batcher, clock, work, ends);
  }

  /// Lets memory grow to what so many streams need. Time stands still while the server works, so
  /// batches are as full as they get within a period.
  void warm_up(const StreamSubject& subject, int64_t streams) const {
    LeapingClock clock;
    run_load(make_load(streams, {"constant", period()}, 4 * period(), seed()), period(), clock,
             *subject.server(streams, starts()));
  }

  /// Serves the load in real time, adds its figures to the record, and returns the utterances that
  /// ended. With a rule, it stops as soon as too many requests are late.
  std::vector<FinishedUtterance> serve_load(const StreamSubject& subject, int64_t streams,
                                            record::StreamRun& run) const {
    const Arrivals arrivals{options_.arrivals, period(), options_.stagger_seconds};
    const auto load = make_load(streams, arrivals, options_.seconds, seed());
    const double from = options_.discard * options_.seconds;
    std::optional<LateRequests> late;  // only with a rule
    if (options_.rule) late.emplace(load, from, options_.rule->late, period());
    const auto is_broken = [&](const ServedBatch& batch) {
      if (!late || !late->too_many(batch)) return false;
      run.metrics["stream.stopped_seconds"] = Number(batch.end);
      return true;
    };
    const auto server = subject.server(streams, starts());
    std::optional<EnergyMeter> meter;
    if (nvml_) meter.emplace([this] { return nvml_->energy(); });
    LoadWallClock clock;
    const auto served = run_load(load, options_.max_wait_ms / 1000, clock, *server, is_broken);
    add_stream_figures(run, options_, load_figures(served, from, options_.seconds, period()));
    record::Figures& metrics = run.metrics;
    const auto power = meter ? meter->end() : std::nullopt;
    if (const Nullable<Number> rtfx = metrics["stream.rtfx"]; power && rtfx)
      metrics["energy.joules_per_hour"] = Number(3600 * power->watts / *rtfx);
    const StageSeconds stages = server->stage_seconds();
    const double both = stages.encoder + stages.search;
    const double busy = *metrics["stream.busy"];
    if (stages.encoder > 0) {
      metrics["stream.busy.encoder"] = Number(busy * stages.encoder / both);
      metrics["stream.busy.search"] = Number(busy * stages.search / both);
    }
    return server->finished();
  }

  /// Adds to the record how many results differ from those of the same utterances in one piece.
  void compare_with_whole(const StreamSubject& subject, int64_t streams,
                          const std::vector<FinishedUtterance>& finished,
                          record::StreamRun& run) const {
    std::set<size_t> distinct;
    for (const FinishedUtterance& one : finished) {
      if (one.whole) distinct.insert(one.utterance);
    }
    const std::vector<size_t> utterances(distinct.begin(), distinct.end());
    const std::vector<Hypothesis> results = subject.whole(utterances, streams);
    std::map<size_t, Hypothesis> whole;
    for (size_t i = 0; i < utterances.size(); ++i) whole[utterances[i]] = results[i];
    const bool bits = options_.scope == "search";
    int64_t tokens = 0;
    for (const FinishedUtterance& one : finished) {
      tokens += std::ssize(one.result.tokens);
      if (!one.whole || same_result(one.result, whole[one.utterance], bits)) continue;
      if (run.streamed.different++ == 0)
        run.streamed.first_difference = subject.dataset->dataset.utterances[one.utterance].id;
    }
    run.streamed.utterances = std::ssize(finished);
    run.streamed.tokens = tokens;
  }

  /// Streams the whole dataset once for each rule that ends utterances.
  std::vector<record::EndpointRun> endpoint_runs(const CaseGroup& group, Decoder& decoder,
                                                 const std::vector<EndpointRules>& rules,
                                                 int64_t streams) const {
    const LoadedDataset& dataset = inputs_.datasets()[group.dataset];
    const auto model = inputs_.model(group.model, device_, group.dtype);
    const Clips audio = all_clips(*model, dataset);
    const int64_t used = std::min(streams, std::ssize(audio));
    std::vector<record::EndpointRun> runs;
    for (size_t i = 0; i < rules.size(); ++i) {
      SpeechStreams speech(model, decoder, encoder_options(options_, *model, used), rules[i]);
      const int64_t samples = samples_of_request(options_, *model);
      runs.push_back(endpoint_run(
          options_.endpoints[i],
          measure_endpoint(speech, audio, used, samples, options_.silence, model->config)));
    }
    return runs;
  }

  Session& session_;
  LoadedInputs& inputs_;
  const StreamTrial trial_;
  StreamSettings options_;
  at::Device device_;
  std::unique_ptr<const Nvml> nvml_;  // only if energy is asked for
};

}  // namespace

int stream(const Config& config, Journal::Mode mode, const StreamTrial& trial) {
  require_sizes(config, "rtfx stream");
  if (!config.stream) {
    throw UserError(config.origins.file().string(), "has no key \"stream\"",
                    "add for example \"stream\": {\"streams\": [1, 64]}, or use `rtfx run`");
  }
  if (config.stream->rule && !trial.is_one()) return stream_by_rule(streaming_only(config), mode);
  SessionOptions options;
  options.mode = mode;
  Session session(streaming_only(config), options);
  const size_t before = session.records().size();
  const bool whole = session.run([&] { StreamRunner(session, trial).run(); });
  // A trial's failures are in its records. Its exit code only says whether it came to its end.
  if (trial.is_one()) return whole ? kOk : kInterrupted;
  const record::Records records = current_records(session.records(), before);
  print_while_read([&] { print_stream_table(records); });
  return whole ? stream_outcome(records) : kInterrupted;
}

}  // namespace rtfx
