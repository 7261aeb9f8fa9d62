// Rounds of protocol.mode "throughput", which case_group.h declares.
#include <ATen/Parallel.h>

#include <chrono>
#include <stdexcept>

#include "datasets/dataset.h"
#include "harness/run/case_group.h"
#include "models/parallel.h"
#include "speech/pipeline/recorded_encoder.h"
#include "speech/runtime/device.h"
#include "speech/runtime/stages.h"

namespace rtfx {

namespace {

using Clock = std::chrono::steady_clock;

/// The error that ends a pass after a failed batch.
struct BatchFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

std::unique_ptr<CaseGroupRunner::Reader> CaseGroupRunner::reader(const Batches& batches) const {
  const Throughput& throughput = inputs_.config().protocol.throughput;
  // With one batch in flight, its files are read before the batch and not beside another one.
  if (throughput.audio == "memory" || throughput.in_flight == 1) return nullptr;
  std::vector<size_t> order;
  for (const auto& batch : batches) order.insert(order.end(), batch.begin(), batch.end());
  const size_t count = order.size();
  const ReadAheadLimits limits{.threads = static_cast<size_t>(at::get_num_threads()),
                               .items = kReadAheadRecordings,
                               .bytes = kReadAheadBytes};
  return std::make_unique<Reader>(
      count, limits,
      [this, order = std::move(order)](size_t i) {
        return read_utterance(dataset_.dataset.utterances[order[i]]).samples;
      },
      [](const std::vector<float>& samples) { return samples.size() * sizeof(float); });
}

void CaseGroupRunner::fill(const std::vector<size_t>& utterances, Reader* reader,
                           BatchInFlight& batch) const {
  if (inputs_.config().protocol.throughput.audio == "memory") {
    batch.clips = clips_of(utterances);
    return;
  }
  batch.audio.resize(utterances.size());
  const auto utterance = [&](size_t row) -> const Utterance& {
    return dataset_.dataset.utterances[utterances[row]];
  };
  if (reader != nullptr) {
    for (auto& samples : batch.audio) samples = reader->next();
  } else {
    parallel_ranges(std::ssize(utterances), [&](int64_t begin, int64_t end) {
      for (auto row = static_cast<size_t>(begin); row < static_cast<size_t>(end); ++row)
        batch.audio[row] = read_utterance(utterance(row)).samples;
    });
  }
  for (size_t row = 0; row < utterances.size(); ++row)
    batch.clips.emplace_back(batch.audio[row], prompt_of(model_->config.prompt, utterance(row)));
}

CaseGroupRunner::OverlappedPass CaseGroupRunner::overlapped_pass(Arm& arm, const char* stage,
                                                                 const Batches& batches) {
  std::optional<CaseRange> of_case;
  if (arms_.size() > 1) of_case.emplace(arm.plan.case_name);
  OverlappedPass pass;
  pass.batches.reserve(batches.size());
  std::unique_ptr<Reader> files;
  std::string failed_in = stage;
  FailureText failure;
  const auto keep = [&](size_t number, BatchInFlight& batch) {
    if (batch.failure) {
      failed_in = batch.failed_in;
      try {
        std::rethrow_exception(batch.failure);
      } catch (...) {
        failure = failure_of(batches[number]);
      }
      throw BatchFailed(failure.text);
    }
    pass.batches.push_back({std::move(batch.decoded), std::move(batch.times), batch.load_seconds,
                            batch.begin, batch.end});
  };
  enter(&arm, stage);
  try {
    const auto next = [&](size_t number, BatchInFlight& batch) {
      check_interrupt();
      if (number == batches.size()) return false;
      fill(batches[number], files.get(), batch);
      if (!arm.biases.empty())
        for (const size_t i : batches[number]) batch.biases.push_back(arm.biases.biases[i]);
      return true;
    };
    call(arm, [&] {
      const WallClock wall(pass.clock);
      pass.begin = Clock::now();
      files = reader(batches);
      pipeline_->run(*arm.decoder, next, keep, arm.confidence ? &*arm.confidence : nullptr);
    });
  } catch (const Interrupted&) {
    throw;
  } catch (const BatchFailed&) {
    fail(arm, failed_in, failure);
  } catch (...) {
    fail_stage(failure_text());
  }
  leave();
  return pass;
}

/// Returns whether the round has the hypotheses that another pass found for these utterances.
static bool has_hypotheses(const RoundResult& result, const std::vector<size_t>& utterances,
                           const Decoded& decoded) {
  for (size_t row = 0; row < utterances.size(); ++row)
    if (!(result.hypotheses[utterances[row]] == decoded.hypotheses[row])) return false;
  return true;
}

void CaseGroupRunner::take_pass(const Arm& arm, OverlappedPass& pass, const Batches& batches,
                                RoundResult& result) const {
  const bool first = result.pass_seconds.empty();
  std::vector<double>& latencies = result.latencies.emplace_back();
  Clock::time_point before = pass.begin;
  for (size_t b = 0; b < batches.size(); ++b) {
    OverlappedPass::Batch& batch = pass.batches[b];
    const double latency = seconds_between(batch.begin, batch.end);
    const double total = seconds_between(before, batch.end);
    latencies.push_back(latency);
    before = batch.end;
    result.load_seconds += batch.load_seconds;
    if (first) {
      take(arm, batches[b], std::move(batch.decoded), batch.times,
           {.total_seconds = total, .latency_seconds = latency}, result);
      continue;
    }
    result.repeats = result.repeats && has_hypotheses(result, batches[b], batch.decoded);
    result.times += batch.times;
    result.batches[b].total_seconds += total;
    result.batches[b].decode_seconds += batch.times.seconds(Region::decode);
    result.batches[b].latency_seconds += latency;
  }
  result.times += pass.clock;
  result.pass_seconds.push_back(seconds_between(pass.begin, before));
  result.seconds += result.pass_seconds.back();
}

void CaseGroupRunner::overlapped_passes(Arm& arm, RoundKind kind, RoundResult& result) {
  const Batches& batches = kind == RoundKind::warm_up ? other_batches_ : batches_;
  const double steady = kind == RoundKind::measured ? inputs_.config().protocol.steady_seconds : 0;
  const bool is_first = !arm.first_pass;
  // Passes of another arm have recorded graphs of the encoder.
  if (is_first) encoder_->forget();
  // Unmeasured passes come first: the first pass of the arm, and one in which the encoder records
  // its graphs. So no arm alone pays for the recording.
  const bool records = encoder_->uses_graphs() && !arm.graphs_recorded;
  const bool prepares = kind == RoundKind::trial ? records : steady > 0 && (is_first || records);
  std::vector<OverlappedPass> unmeasured;
  for (int n = 0; prepares && n < 2; ++n) {
    const int64_t launched = encoder_->counts().launched;
    const OverlappedPass& pass = unmeasured.emplace_back(overlapped_pass(arm, "pass", batches));
    if (arm.failed) return;
    if (!arm.first_pass) arm.first_pass = first_pass_of(pass);
    if (!records || encoder_->counts().launched == launched) break;
  }
  arm.graphs_recorded = arm.graphs_recorded || (records && prepares);
  const RecordedEncoder::Counts before = encoder_->counts();
  do {
    OverlappedPass pass = overlapped_pass(arm, "pass", batches);
    if (arm.failed) return;
    if (!arm.first_pass) arm.first_pass = first_pass_of(pass);
    try {
      take_pass(arm, pass, batches, result);
    } catch (...) {
      fail(arm, "decode", failure_text());
      return;
    }
  } while (result.seconds < steady);
  for (const OverlappedPass& pass : unmeasured) {
    for (size_t b = 0; b < batches.size(); ++b)
      result.repeats =
          result.repeats && has_hypotheses(result, batches[b], pass.batches[b].decoded);
  }
  result.encoder = encoder_->counts() - before;
  const auto passes = static_cast<double>(result.pass_seconds.size());
  result.times /= passes;
  result.seconds /= passes;
  result.load_seconds /= passes;
  for (BatchTime& batch : result.batches) {
    batch.total_seconds /= passes;
    batch.decode_seconds /= passes;
    batch.latency_seconds /= passes;
  }
}

FirstPass CaseGroupRunner::first_pass_of(const OverlappedPass& pass) const {
  FirstPass first;
  if (pass.batches.empty()) return first;
  const OverlappedPass::Batch& batch = pass.batches.front();
  first.seconds = seconds_between(pass.begin, pass.batches.back().end);
  first.first_text_seconds = seconds_between(batch.begin, batch.end);
  first.encoder = encoder_->counts();
  return first;
}

void CaseGroupRunner::overlapped_round(const std::vector<size_t>& order, RoundKind kind,
                                       std::vector<RoundResult>& results) {
  for (const size_t a : order)
    if (!arms_[a].failed) overlapped_passes(arms_[a], kind, results[a]);
  if (kind != RoundKind::warm_up) verify_overlapped(order, results);
}

void CaseGroupRunner::verify_overlapped(const std::vector<size_t>& order,
                                        std::vector<RoundResult>& results) {
  // The isolated pass runs after the first overlapped pass, since that must not find anything
  // prepared.
  const bool compare_now = inputs_.config().isolated && isolated_.empty();
  if (compare_now) isolated_ = empty_results();
  // The isolated pass uses no graphs. Otherwise a wrong recording would be compared with itself.
  const ScopedGraphs graphs(*encoder_, !compare_now && encoder_->uses_graphs());
  for (const auto& utterances : batches_) {
    check_interrupt();
    EncodedBatch again;
    if (compare_now) again = run_batch(utterances, order, isolated_);
    const auto frames = [&]() -> const EncodedBatch& {
      RegionTimes untimed;
      if (!again.frames.defined())
        again = encode_batch(*model_, *encoder_, clips_of(utterances), clock_, untimed);
      return again;
    };
    verify(utterances, frames, results);
  }
}

}  // namespace rtfx
