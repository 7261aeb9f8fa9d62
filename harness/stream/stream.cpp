#include "harness/stream/stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/printable.h"
#include "harness/config/plan.h"
#include "harness/machine/conditions.h"
#include "harness/run/provenance.h"
#include "harness/run/record.h"
#include "harness/run/run.h"
#include "harness/run/session.h"
#include "harness/stream/stream_load.h"
#include "harness/stream/stream_rule.h"
#include "harness/stream/stream_server.h"
#include "models/streaming/cached_encoder.h"
#include "speech/runtime/device.h"
#include "speech/runtime/stages.h"

namespace rtfx {

namespace {

class WallClock : public LoadClock {
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

/// Leaps to where it should wait for: requests are served as fast as they can be.
class LeapingClock : public LoadClock {
 public:
  double now() override { return now_; }
  void wait_until(double time) override { now_ = time; }

 private:
  double now_ = 0;
};

bool keeps_limit(const record::StreamRun& run) {
  const bool* kept = known(run.slo);
  return kept != nullptr && *kept;
}

Config streaming_only(Config config) {
  const size_t before = config.decoders.size();
  std::erase_if(config.decoders, [](const DecoderSpec& spec) { return !spec.description.streams; });
  if (config.decoders.empty()) {
    throw UserError(config.origins.file().string(), "no decoder takes utterances in pieces",
                    "add for example label_looping, or ctc_wfst");
  }
  if (const size_t left_out = before - config.decoders.size(); left_out > 0)
    fmt::print(stderr, "rtfx: notice: {} decoders that take no pieces are left out\n", left_out);
  return config;
}

class StreamRunner {
 public:
  StreamRunner(Session& session, const StreamTrial& trial)
      : session_(session),
        workspace_(session.workspace()),
        trial_(trial),
        options_(*session.config().stream),
        device_(session.device()) {
    if (trial.confirms) options_.seconds = options_.rule->confirm_seconds;
    std::string problem;  // without NVML no energy; `rtfx doctor` says why
    if (device_.is_cuda() && session.config().protocol.energy_seconds > 0)
      nvml_ = Nvml::open(pci_bus_id(device_), problem);
  }

  void run() {
    size_t cases = 0;
    for (const CaseGroup& group : session_.plan())
      cases += of_first_batch(group) ? group.decoders.size() : 0;
    Progress progress(trial_.is_one() ? 1 : static_cast<int64_t>(cases * options_.streams.size()));
    for (size_t i = 0; i < session_.plan().size(); ++i) {
      const CaseGroup& group = session_.plan()[i];
      if (trial_.is_one() ? trial_.group != static_cast<int64_t>(i) : !of_first_batch(group))
        continue;
      trial_.failure.empty() ? run_group(group, progress) : record_failure(group);
    }
  }

  /// Batches are the encoder's, whose times are not measured.
  static bool of_first_batch(const CaseGroup& group) { return group.batch == 0; }

 private:
  std::string case_name(const CaseGroup& group, const Arm& arm, int64_t streams) const {
    return case_name_of_streams(workspace_.config(), group, arm.spec->id, streams, trial_.confirms);
  }

  /// Records that the process of a trial came to no end.
  void record_failure(const CaseGroup& group) {
    for (const PlannedDecoder& planned : group.decoders) {
      Arm arm;
      arm.plan = planned;
      arm.spec = &workspace_.config().decoders[planned.spec];
      if (arm.spec->id != trial_.decoder) continue;
      arm.plan.case_name = case_name(group, arm, trial_.streams);
      session_.append_failure(group, arm, "stream", trial_.failure);
    }
  }

  /// The record of the same case that is there already.
  std::optional<record::StreamRun> find(const record::StreamRun& wanted) const {
    for (const auto& run : session_.records_of<record::StreamRun>()) {
      if (run.case_name == wanted.case_name && run.result_key == wanted.result_key) return run;
    }
    return std::nullopt;
  }

  void run_group(const CaseGroup& group, Progress& progress) {
    const auto on_failure = [&](const Arm& arm, const std::string& stage,
                                const std::string& message) {
      session_.append_failure(group, arm, stage, message);
    };
    CaseGroupRunner runner(workspace_, group, device_, on_failure, [] {});
    runner.prepare();
    std::vector<EncodedBatch> encoded;
    const auto batches = encode(group, runner, encoded);
    for (Arm& arm : runner.arms()) {
      if (trial_.is_one() && arm.spec->id != trial_.decoder) continue;
      if (arm.failed) {
        progress.advance(static_cast<int64_t>(options_.streams.size()));
        continue;
      }
      runner.enter(&arm, "stream");
      try {
        runner.call(arm, [&] { run_arm(group, arm, batches, encoded, runner.model(), progress); });
      } catch (const Interrupted&) {
        throw;
      } catch (...) {
        arm.failed = true;
        on_failure(arm, "stream", describe_failure());
      }
      runner.leave();
    }
  }

  std::vector<std::vector<size_t>> encode(const CaseGroup& group, CaseGroupRunner& runner,
                                          std::vector<EncodedBatch>& encoded) {
    const auto alive = [](const Arm& arm) { return !arm.failed; };
    if (std::none_of(runner.arms().begin(), runner.arms().end(), alive)) return {};
    const Config& config = workspace_.config();
    const LoadedDataset& dataset = workspace_.datasets()[group.dataset];
    const auto model = workspace_.model(group.model, device_, group.dtype);
    RecordedEncoder encoder(model, /*graphs=*/false);  // one pass: none worth recording
    const RegionClock clock(device_);
    auto batches = make_batches(dataset.seconds, config.sort, group.rule, config.protocol.seed);
    for (const auto& batch : batches) {
      check_interrupt();
      const Clips clips = clips_of(model->config, dataset, batch);
      RegionTimes times;
      encoded.push_back(encode_batch(*model, encoder, clips, clock, times));
    }
    return batches;
  }

  /// The parts that measure one decoder.
  struct Subject {
    /// Makes a server for so many streams.
    std::function<std::unique_ptr<LoadServer>(int64_t streams, const StreamStarts& starts)> server;
    /// Decodes utterances in one piece each, after the server of so many streams is gone.
    std::function<std::vector<Hypothesis>(const std::vector<size_t>& utterances, int64_t streams)>
        whole;
  };

  void run_arm(const CaseGroup& group, Arm& arm, const std::vector<std::vector<size_t>>& batches,
               const std::vector<EncodedBatch>& encoded, const AcousticModel& model,
               Progress& progress) {
    const LoadedDataset& dataset = workspace_.datasets()[group.dataset];
    const Subject subject = options_.scope == "speech"
                                ? speech(group, *arm.decoder, dataset)
                                : search(*arm.decoder, batches, encoded, model, dataset);
    arm.result_key = result_key(workspace_, group, arm.plan, arm.decoder->options(), device_);
    const auto within = [&](int64_t streams) {
      arm.plan.case_name = case_name(group, arm, streams);
      auto run = case_record<record::StreamRun>(workspace_, group, arm, device_, "stream");
      progress.label(fmt::format("{} {} streams", arm.spec->id, streams));
      if (const auto earlier = find(run)) return keeps_limit(*earlier);
      run.started = utc_now();
      run.batch = {};
      run.batch.by = "streams";
      run.batch.size = streams;
      measure(subject, streams, dataset, run);
      if (options_.rule && !run.metrics.contains("stream.final_ms")) {
        throw UserError(run.case_name, "no utterance ended within the trial",
                        "raise stream.rule.seconds, or take shorter recordings");
      }
      if (trial_.is_one()) run.confirms = trial_.confirms;
      if (options_.quality || trial_.confirms)
        add_quality(run, group, arm, subject, streams, batches, encoded, model);
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

  Subject search(Decoder& decoder, const std::vector<std::vector<size_t>>& batches,
                 const std::vector<EncodedBatch>& encoded, const AcousticModel& model,
                 const LoadedDataset& dataset) const {
    struct State {
      std::unique_ptr<Streams> streams;
      std::vector<StreamedUtterance> utterances;
      std::vector<Hypothesis> whole;
    };
    const double frame_seconds = model.config.frame_seconds();
    const auto state = std::make_shared<State>();
    state->streams =
        decoder.streams({options_.max_batch, largest_request(options_, frame_seconds)});
    state->utterances.resize(dataset.seconds.size());
    state->whole.resize(dataset.seconds.size());
    Streams& streams = *state->streams;
    for (size_t b = 0; b < batches.size(); ++b) {
      EncodedBatch projected = encoded[b];
      projected.frames = streams.project(encoded[b].frames);
      std::vector<int64_t> in_one_piece;
      for (size_t row = 0; row < batches[b].size(); ++row) in_one_piece.push_back(streams.open());
      streams.push(in_one_piece, projected);
      for (size_t row = 0; row < batches[b].size(); ++row) {
        const size_t i = batches[b][row];
        const int64_t frames = encoded[b].lengths_host[row];
        state->whole[i] = streams.finish(in_one_piece[row]);
        state->utterances[i] = {projected.frames[static_cast<int64_t>(row)].narrow(0, 0, frames),
                                request_ends(options_, frames, frame_seconds, dataset.seconds[i])};
      }
    }
    return {[this, state](int64_t count, const StreamStarts& starts) {
              return std::make_unique<StreamServer>(*state->streams, state->utterances, count,
                                                    options_.partial, starts);
            },
            [state](const std::vector<size_t>& utterances, int64_t) {
              std::vector<Hypothesis> results;
              for (const size_t i : utterances) results.push_back(state->whole[i]);
              return results;
            }};
  }

  Subject speech(const CaseGroup& group, Decoder& decoder, const LoadedDataset& dataset) const {
    struct State {
      Clips audio;
      int64_t count = 0;
      std::unique_ptr<SpeechStreams> streams;
    };
    const auto model = workspace_.model(group.model, device_, group.dtype);
    const auto state = std::make_shared<State>();
    std::vector<size_t> all(dataset.audio.size());
    std::iota(all.begin(), all.end(), 0);
    state->audio = clips_of(model->config, dataset, all);
    const auto samples = static_cast<int64_t>(
        options_.period_ms / 1000 * static_cast<double>(model->config.features.sample_rate));
    const auto streams_for = [this, state, model, &decoder](int64_t count) -> SpeechStreams& {
      if (state->count == count) return *state->streams;
      StreamOptions encoder;
      encoder.rows = std::min(count, options_.max_batch);
      encoder.streams = count + encoder.rows;  // with those whose end is pending
      if (!why_not_cache_aware(model->config).empty())
        encoder.buffer = {options_.buffer[0], options_.buffer[1], options_.buffer[2]};
      state->streams.reset();  // first its memory back
      state->streams = std::make_unique<SpeechStreams>(model, decoder, encoder);
      state->count = count;
      return *state->streams;
    };
    return {[this, state, samples, streams_for](int64_t count, const StreamStarts& starts) {
              return std::make_unique<SpeechServer>(streams_for(count), state->audio, count,
                                                    samples, options_.partial, starts);
            },
            [state, streams_for](const std::vector<size_t>& utterances, int64_t count) {
              Clips audio;
              for (const size_t i : utterances) audio.push_back(state->audio[i]);
              return in_one_piece(streams_for(count), audio, count);
            }};
  }

  /// Adds to the record what the load and the streamed utterances give.
  void measure(const Subject& subject, int64_t streams, const LoadedDataset& dataset,
               record::StreamRun& run) {
    const double period = options_.period_ms / 1000;
    const auto seed = static_cast<uint64_t>(workspace_.config().protocol.seed);
    const Arrivals arrivals{options_.arrivals, period, options_.stagger_seconds};
    StreamStarts starts;
    if (options_.start == "random") starts.seed = seed;
    const auto load_of = [&](double seconds) {
      return make_load(streams, arrivals, seconds, seed);
    };
    const auto run_load = [&](double seconds, double wait, LoadClock& clock, LoadServer& server) {
      const DynamicBatcher batcher(options_.max_batch, wait);
      return serve(load_of(seconds), batcher, clock, [&](const std::vector<Request>& requests) {
        check_interrupt();
        return server.work(requests);
      });
    };
    {
      // Memory grows to what so many streams need. Time stands still while the server works:
      // batches are as full as they get within a period.
      LeapingClock clock;
      const double staggered = options_.arrivals == "staggered" ? options_.stagger_seconds : 0;
      run_load(staggered + 4 * period, period, clock, *subject.server(streams, starts));
    }
    std::vector<FinishedUtterance> finished;
    {
      const auto server = subject.server(streams, starts);
      std::optional<EnergyMeter> meter;
      if (nvml_) meter.emplace([this] { return nvml_->energy(); });
      WallClock clock;
      const auto served = run_load(options_.seconds, options_.max_wait_ms / 1000, clock, *server);
      add_stream_figures(
          run, options_,
          load_figures(served, options_.discard * options_.seconds, options_.seconds, period));
      record::Figures& metrics = run.metrics;
      const auto power = meter ? meter->end() : std::nullopt;
      if (const Nullable<Number> rtfx = metrics["stream.rtfx"]; power && rtfx)
        metrics["energy.joules_per_hour"] = Number(3600 * power->watts / *rtfx);
      finished = server->finished();
      const StageSeconds stages = server->stage_seconds();
      const double both = stages.encoder + stages.search;
      const double busy = *metrics["stream.busy"];
      if (stages.encoder > 0) {
        metrics["stream.busy.encoder"] = Number(busy * stages.encoder / both);
        metrics["stream.busy.search"] = Number(busy * stages.search / both);
      }
    }
    int64_t tokens = 0;
    std::set<size_t> distinct;
    for (const FinishedUtterance& one : finished) {
      if (one.whole) distinct.insert(one.utterance);
    }
    const std::vector<size_t> utterances(distinct.begin(), distinct.end());
    const std::vector<Hypothesis> results = subject.whole(utterances, streams);
    std::map<size_t, Hypothesis> whole;
    for (size_t i = 0; i < utterances.size(); ++i) whole[utterances[i]] = results[i];
    for (const auto& [utterance, result, is_whole] : finished) {
      tokens += std::ssize(result.tokens);
      if (!is_whole || same_result(result, whole[utterance], options_.scope == "search")) continue;
      if (run.streamed.different++ == 0)
        run.streamed.first_difference = dataset.dataset.utterances[utterance].id;
    }
    run.streamed.utterances = std::ssize(finished);
    run.streamed.tokens = tokens;
  }

  /// Streams the whole dataset through a server of the same kind, and compares its words with those
  /// of whole utterances.
  void add_quality(record::StreamRun& run, const CaseGroup& group, Arm& arm, const Subject& subject,
                   int64_t streams, const std::vector<std::vector<size_t>>& batches,
                   const std::vector<EncodedBatch>& encoded, const AcousticModel& model) {
    const LoadedDataset& dataset = workspace_.datasets()[group.dataset];
    const auto is_there = [](const auto& reference) { return reference && !reference->empty(); };
    if (std::ranges::none_of(dataset.references, is_there)) return;
    const size_t count = dataset.seconds.size();
    const int64_t used = std::min(streams, static_cast<int64_t>(count));
    std::vector<Hypothesis> streamed, whole(count);
    ShownText shown(model.config.frame_seconds(), model.config.features.sample_rate);
    {
      const auto server = subject.server(used, {});
      server->show_to(shown);
      streamed = serve_all(*server, used, options_.max_batch, count);
    }
    for (size_t b = 0; b < batches.size(); ++b) {
      check_interrupt();
      std::vector<Hypothesis> results = arm.decoder->decode(encoded[b]).to_host();
      for (size_t row = 0; row < results.size(); ++row)
        whole[batches[b][row]] = std::move(results[row]);
    }
    const Normalizer& normalizer = workspace_.normalizer();
    const Tokenizer& tokenizer = *workspace_.checkpoints()[group.model].tokenizer;
    std::vector<EditCounts> of_streams, of_whole;
    for (size_t i = 0; i < count; ++i) {
      if (!dataset.references[i]) continue;
      const auto edits = [&](const Hypothesis& result) {
        return count_edits_and_characters(*dataset.references[i],
                                          normalizer.words(text_of(result, tokenizer)));
      };
      of_streams.push_back(edits(streamed[i]));
      of_whole.push_back(edits(whole[i]));
    }
    const auto sum = [](const std::vector<EditCounts>& all) {
      return std::accumulate(all.begin(), all.end(), EditCounts());
    };
    record::StreamedQuality quality;
    quality.streamed = wer_field(sum(of_streams), normalizer);
    quality.whole = wer_field(sum(of_whole), normalizer);
    const Interval difference = bootstrap_wer_difference(
        of_whole, of_streams, static_cast<uint64_t>(workspace_.config().protocol.seed));
    quality.difference = difference.estimate;
    quality.low = difference.low;
    quality.high = difference.high;
    if (options_.scope == "speech" && options_.partial) {
      const auto of = [&](const std::vector<double>& values, double Percentiles::*figure) {
        return values.empty() ? std::nullopt : Nullable<Number>(percentiles(values).*figure);
      };
      quality.first_delay_seconds = of(shown.first_delays(), &Percentiles::mean);
      quality.lag_seconds = of(shown.lags(), &Percentiles::mean);
      quality.lag_p95_seconds = of(shown.lags(), &Percentiles::p95);
      quality.changed_share =
          shown.lags().empty() ? std::nullopt : Nullable<Number>(shown.changed());
    }
    if (options_.rule && run.slo)
      run.slo = Nullable<bool>(keeps_limit(run) && keeps_words(*options_.rule, quality));
    run.quality = std::move(quality);
  }

  Session& session_;
  Workspace& workspace_;
  const StreamTrial trial_;
  StreamSettings options_;
  at::Device device_;
  std::unique_ptr<const Nvml> nvml_;  // where energy is asked for
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
  const bool whole = session.run([&] { StreamRunner(session, trial).run(); });
  // A trial's failures are in its records; its exit code says only whether it came to its end.
  if (trial.is_one()) return whole ? kOk : kInterrupted;
  print_stream_table(session.records());
  return whole ? stream_outcome(session.records()) : kInterrupted;
}

namespace {

/// A queue that grows by so many seconds in a second has no steady state.
constexpr double kSlopeMax = 0.01;

void add_times(record::Figures& metrics, const std::string& name, const Percentiles& seconds) {
  metrics[name] = Number(1000 * seconds.mean);
  metrics[name + ".p50"] = Number(1000 * seconds.p50);
  metrics[name + ".p95"] = Number(1000 * seconds.p95);
  metrics[name + ".p99"] = Number(1000 * seconds.p99);
  metrics[name + ".max"] = Number(1000 * seconds.max);
}

std::string cell(const record::Figures& metrics, const char* name, int digits) {
  const Nullable<Number>& value = metrics.at(name);
  return value ? fmt::format("{:.{}f}", static_cast<double>(*value), digits) : "-";
}

std::vector<const record::StreamRun*> stream_runs(const record::Records& records) {
  std::vector<const record::StreamRun*> runs;
  for (const record::Any& record : records) {
    if (const auto* run = std::get_if<record::StreamRun>(&record)) runs.push_back(run);
  }
  return runs;
}

}  // namespace

/// Whether the rule is kept, and the figures that it judges.
static std::string trial_text(const record::StreamRun& run) {
  std::string text = !keeps_limit(run) ? "  BROKEN" : *run.confirms ? "  confirmed" : "  kept";
  const record::Figures& m = run.metrics;
  text += fmt::format(", {:.2f} % late, final p95 {} ms",
                      100 * static_cast<double>(m.at("stream.late_starts").value_or(Number(0))),
                      cell(m, "stream.final_ms.p95", 0));
  if (run.quality) {
    text += fmt::format(", WER {:+.2f} [{:+.2f}, {:+.2f}] points", 100 * run.quality->difference,
                        100 * run.quality->low, 100 * run.quality->high);
  }
  return text;
}

bool within_limit(const StreamSettings& options, const LoadFigures& f) {
  if (!options.rule) return f.queue_slope <= kSlopeMax && 1000 * f.total.p99 <= options.slo_ms;
  const StreamRule& rule = *options.rule;
  const Percentiles& last = f.last;
  const double final_s = rule.of_finals == "p50"   ? last.p50
                         : rule.of_finals == "p95" ? last.p95
                                                   : last.p99;
  return f.requests > 0 && f.utterances > 0 && 1000 * final_s <= rule.final_ms &&
         static_cast<double>(f.late_starts) <= rule.late * static_cast<double>(f.requests);
}

bool keeps_words(const StreamRule& rule, const record::StreamedQuality& quality) {
  const double whole = quality.whole.wer.value_or(Number(0));
  return quality.difference <= rule.wer * whole;
}

void add_stream_figures(record::StreamRun& run, const StreamSettings& options,
                        const LoadFigures& f) {
  const auto where = [](bool known, double value) {
    return known ? Nullable<Number>(value) : std::nullopt;
  };
  record::Figures metrics;
  add_times(metrics, "stream.compute_ms", f.compute);
  add_times(metrics, "stream.queue_ms", f.queue);
  add_times(metrics, "stream.total_ms", f.total);
  if (f.utterances > 0) add_times(metrics, "stream.final_ms", f.last);
  const auto requests = static_cast<double>(f.requests);
  metrics["stream.late"] = where(f.requests > 0, static_cast<double>(f.late) / requests);
  metrics["stream.late_starts"] =
      where(f.requests > 0, static_cast<double>(f.late_starts) / requests);
  metrics["stream.busy"] = Number(f.busy);
  metrics["stream.rtfx"] =
      where(f.served_seconds > 0, requests * options.period_ms / 1000 / f.served_seconds);
  metrics["stream.mean_batch"] = Number(f.mean_batch);
  metrics["stream.batch_rate"] = Number(f.batch_rate);
  metrics["stream.queue_slope"] = Number(f.queue_slope);
  metrics["stream.md1_load"] = Number(f.batch_rate * f.batch_seconds);
  // Steps of one size, one after the other, are no such queue: its load is always about 1.
  const auto expected =
      options.scope == "search" ? md1_total(f.batch_seconds, f.batch_rate) : std::nullopt;
  metrics["stream.md1_total_ms"] = where(expected.has_value(), 1000 * expected.value_or(0));
  run.stream = OptionTree(stream_keys().resolved(options));
  run.requests = f.requests;
  run.batches = f.batches;
  run.stable = f.queue_slope <= kSlopeMax;
  const bool limited = options.slo_ms > 0 || options.rule;
  run.slo = limited ? Nullable<bool>(within_limit(options, f)) : std::nullopt;
  run.metrics = std::move(metrics);
}

bool same_result(const Hypothesis& streamed, const Hypothesis& whole, bool bits) {
  if (streamed.nan || whole.nan) return streamed.nan == whole.nan;
  if (bits) return streamed == whole;
  return streamed.tokens == whole.tokens && streamed.frames == whole.frames &&
         streamed.durations == whole.durations;
}

void print_stream_table(const record::Records& records) {
  size_t width = 24;  // of the decoders' ids
  bool speech = false;
  double slo = 0;
  std::map<std::string, int64_t> within, confirmed;
  for (const record::StreamRun* run : stream_runs(records))
    width = std::max(width, printable(run->decoder.id).size());
  fmt::print("{:<{}} {:>7} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  {}\n", "decoder", width,
             "streams", "batch", "compute", "queue", "total", "p50", "p99", "M/D/1", "RTFx");
  for (const record::Any& record : records) {
    if (const auto* failure = std::get_if<record::Failure>(&record))
      fmt::print("{}: {} failed: {}\n", printable(failure->case_name), failure->stage,
                 printable(failure->message));
    const auto* run = std::get_if<record::StreamRun>(&record);
    if (run == nullptr) continue;
    const record::Figures& m = run->metrics;
    const auto streams = static_cast<int64_t>(run->batch.size);
    speech |= run->stream.value().value("scope", "") == "speech";
    if (run->confirms) {
      int64_t& most = confirmed[run->decoder.id];
      if (*run->confirms && keeps_limit(*run)) most = std::max(most, streams);
    } else if (const bool* is_within = known(run->slo)) {
      slo = run->stream.value().value("slo_ms", 0.0);
      int64_t& most = within[run->decoder.id];
      if (*is_within) most = std::max(most, streams);
    }
    const int64_t different = run->streamed.different;
    const bool silent = run->streamed.tokens == 0;  // equal, but of nothing
    fmt::print("{:<{}} {:>7} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  {}{}{}{}{}\n",
               printable(run->decoder.id), width, streams, cell(m, "stream.mean_batch", 1),
               cell(m, "stream.compute_ms", 2), cell(m, "stream.queue_ms", 2),
               cell(m, "stream.total_ms", 2), cell(m, "stream.total_ms.p50", 2),
               cell(m, "stream.total_ms.p99", 2), cell(m, "stream.md1_total_ms", 2),
               cell(m, "stream.rtfx", 1), run->stable ? "" : "  OVERLOADED",
               different == 0 ? "" : fmt::format("  {} DIFFERENT", different),
               silent ? "  NO TOKENS" : "", run->confirms ? trial_text(*run) : "");
  }
  fmt::print(
      "Milliseconds of {}, per request: mean, and of the total median and 99th percentile.\n",
      speech ? "all from samples to tokens" : "the search alone");
  for (const auto& [decoder, streams] : within) {
    fmt::print("{}: at most {} streams within {} ms (p99)\n", printable(decoder), streams, slo);
  }
  for (const auto& [decoder, streams] : confirmed) {
    fmt::print("{}: {} streams keep the rule in every trial, the long one included\n",
               printable(decoder), streams);
  }
}

int stream_outcome(const record::Records& records) {
  int code = kOk;
  for (const record::Any& record : records) {
    if (std::holds_alternative<record::Failure>(record) && code == kOk) code = kFailed;
  }
  for (const record::StreamRun* run : stream_runs(records)) {
    if (run->streamed.different == 0) continue;
    const Nullable<std::string>& first = run->streamed.first_difference;
    fmt::print(stderr, "rtfx: {}: streamed utterances differ from whole ones, first {}\n",
               printable(run->case_name), first ? nlohmann::json(*first).dump() : "null");
    code = kCorrectness;
  }
  return code;
}

}  // namespace rtfx
