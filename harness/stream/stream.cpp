#include "harness/stream/stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "algorithms/registry.h"
#include "base/error.h"
#include "harness/config/batches.h"
#include "harness/machine/interrupt.h"
#include "harness/run/provenance.h"
#include "harness/run/record.h"
#include "harness/run/run.h"
#include "harness/run/session.h"
#include "harness/stream/stream_record.h"
#include "harness/stream/stream_server.h"

namespace rtfx {
namespace {

using nlohmann::json;

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

Config streaming_only(Config config) {
  const size_t before = config.decoders.size();
  std::erase_if(config.decoders, [](const DecoderSpec& spec) {
    const auto decoder = make_decoder(spec.name, spec.options, spec.where);
    return dynamic_cast<StreamingDecoder*>(decoder.get()) == nullptr;
  });
  if (config.decoders.empty()) {
    throw UserError(config.file.string(), "no decoder takes utterances in pieces",
                    "add ctc_wfst or ctc_wfst_cpu");
  }
  if (const size_t left_out = before - config.decoders.size(); left_out > 0)
    fmt::print(stderr, "rtfx: notice: {} decoders that take no pieces are left out\n", left_out);
  return config;
}

class StreamRunner {
 public:
  explicit StreamRunner(Session& session)
      : session_(session),
        workspace_(session.workspace()),
        options_(*session.config().stream),
        device_(session.device()) {}

  void run() {
    size_t cases = 0;
    for (const CaseGroup& group : session_.plan())
      cases += of_first_batch(group) ? group.decoders.size() : 0;
    Progress progress(static_cast<int64_t>(cases * options_.streams.size()));
    for (const CaseGroup& group : session_.plan())
      if (of_first_batch(group)) run_group(group, progress);
  }

 private:
  /// Batches are the encoder's, whose times are not measured.
  static bool of_first_batch(const CaseGroup& group) { return group.batch == 0; }

  bool has(const json& fields) const {
    return std::ranges::any_of(session_.records(), [&](const json& record) {
      return record.value("kind", "") == "stream" && record["case"] == fields["case"] &&
             record["result_key"] == fields["result_key"];
    });
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
      if (arm.failed) {
        progress.advance(static_cast<int64_t>(options_.streams.size()));
        continue;
      }
      runner.enter(&arm, "stream");
      try {
        run_arm(group, arm, batches, encoded, runner.model(), progress);
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
      Clips clips;
      for (const size_t i : batch) clips.push_back(&dataset.audio[i]);
      RegionTimes times;
      encoded.push_back(encode_batch(*model, encoder, clips, clock, times));
    }
    return batches;
  }

  void run_arm(const CaseGroup& group, Arm& arm, const std::vector<std::vector<size_t>>& batches,
               const std::vector<EncodedBatch>& encoded, const AcousticModel& model,
               Progress& progress) {
    const LoadedDataset& dataset = workspace_.datasets()[group.dataset];
    auto& decoder = dynamic_cast<StreamingDecoder&>(*arm.decoder);
    std::vector<StreamedUtterance> utterances(dataset.seconds.size());
    std::vector<Hypothesis> whole(dataset.seconds.size());
    for (size_t b = 0; b < batches.size(); ++b) {
      const at::Tensor lp = decoder.emissions(encoded[b]);
      RegionTimes times;
      const auto hypotheses = decode_batch(*arm.decoder, model, encoded[b], RegionClock(device_),
                                           times, /*sync_debug=*/false)
                                  .hypotheses;
      for (size_t row = 0; row < batches[b].size(); ++row) {
        const size_t i = batches[b][row];
        const int64_t frames = encoded[b].lengths_host[row];
        whole[i] = hypotheses[row];
        utterances[i] = {
            lp[static_cast<int64_t>(row)].narrow(0, 0, frames),
            request_ends(options_, frames, model.config.frame_seconds(), dataset.seconds[i])};
      }
    }
    arm.result_key = result_key(workspace_, group, arm.plan, arm.decoder->options(), device_);
    const auto search = decoder.stream_search();
    for (const int64_t streams : options_.streams) {
      arm.plan.case_name =
          fmt::format("{}/{}/{}/streams{}/{}", workspace_.config().models[group.model].id,
                      dataset.dataset.id, arm.spec->id, streams, group.dtype);
      json record = case_fields(workspace_, group, arm, device_);
      progress.label(fmt::format("{} {} streams", arm.spec->id, streams));
      if (!has(record)) {
        record["kind"] = "stream";
        record["started"] = utc_now();
        record["batch"] = {{"by", "streams"}, {"size", streams}};
        record.update(measure(*search, utterances, whole, streams, dataset));
        session_.append(std::move(record));
      }
      progress.advance(1);
    }
  }

  json measure(StreamSearch& search, const std::vector<StreamedUtterance>& utterances,
               const std::vector<Hypothesis>& whole, int64_t streams,
               const LoadedDataset& dataset) {
    const auto load_of = [&](double seconds) {
      return make_load(streams, options_.arrivals, options_.period_ms / 1000, seconds,
                       static_cast<uint64_t>(workspace_.config().protocol.seed));
    };
    const DynamicBatcher batcher(options_.max_batch, options_.max_wait_ms / 1000);
    const auto run_load = [&](double seconds, LoadClock& clock, StreamServer& server) {
      return serve(load_of(seconds), batcher, clock, [&](const std::vector<Request>& requests) {
        check_interrupt();
        server.work(requests);
      });
    };
    {
      // Memory grows to what so many streams need.
      LeapingClock clock;
      StreamServer server(search, utterances, streams, options_.partial);
      run_load(4 * options_.period_ms / 1000, clock, server);
    }
    StreamServer server(search, utterances, streams, options_.partial);
    WallClock clock;
    const auto served = run_load(options_.seconds, clock, server);
    json fields = stream_figures(
        options_, load_figures(served, options_.discard * options_.seconds, options_.seconds));
    int64_t different = 0;
    json first;
    for (const auto& [utterance, path] : server.finished()) {
      if (same_result(path, whole[utterance])) continue;
      if (different++ == 0) first = dataset.dataset.utterances[utterance].id;
    }
    fields["streamed"] = {{"utterances", server.finished().size()},
                          {"different", different},
                          {"first_difference", first}};
    return fields;
  }

  Session& session_;
  Workspace& workspace_;
  const StreamOptions& options_;
  at::Device device_;
};

}  // namespace

int stream(const Config& config, Journal::Mode mode) {
  require_sizes(config, "rtfx stream");
  if (!config.stream) {
    throw UserError(config.file.string(), "has no key \"stream\"",
                    "add for example \"stream\": {\"streams\": [1, 64]}, or use `rtfx run`");
  }
  SessionOptions options;
  options.mode = mode;
  Session session(streaming_only(config), options);
  const bool whole = session.run([&] { StreamRunner(session).run(); });
  print_stream_table(session.records());
  return whole ? stream_outcome(session.records()) : kInterrupted;
}

}  // namespace rtfx
