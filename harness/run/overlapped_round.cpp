// The rounds of protocol.mode "throughput".
#include "algorithms/gpu/parallel.h"
#include "datasets/dataset.h"
#include "harness/run/case_group.h"
#include "speech/runtime/device.h"
#include "speech/runtime/interrupt.h"

namespace rtfx {
namespace {

using Clock = std::chrono::steady_clock;

/// Ends a pass after a batch that failed.
struct BatchFailed {};

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

bool CaseGroupRunner::fill(size_t number, BatchInFlight& batch) const {
  check_interrupt();
  if (number == batches_.size()) return false;
  const std::vector<size_t>& utterances = batches_[number];
  if (workspace_.config().protocol.throughput.audio == "memory") {
    batch.clips = clips_of(utterances);
    return true;
  }
  batch.audio.resize(utterances.size());
  parallel_ranges(std::ssize(utterances), [&](int64_t begin, int64_t end) {
    for (auto row = static_cast<size_t>(begin); row < static_cast<size_t>(end); ++row)
      batch.audio[row] = read_utterance(dataset_.dataset.utterances[utterances[row]]).samples;
  });
  for (const auto& samples : batch.audio) batch.clips.push_back(&samples);
  return true;
}

const EncodedBatch* CaseGroupRunner::stand_in_frames(size_t number) const {
  return stand_in_frames_.empty() ? nullptr : &stand_in_frames_[number];
}

CaseGroupRunner::OverlappedPass CaseGroupRunner::overlapped_pass(Arm& arm, const char* stage) {
  std::optional<CaseRange> of_case;
  if (arms_.size() > 1) of_case.emplace(arm.plan.case_name);
  OverlappedPass pass;
  pass.batches.reserve(batches_.size());
  std::string failed_in = stage, message;
  const auto keep = [&](size_t number, BatchInFlight& batch) {
    if (batch.failure) {
      failed_in = batch.failed_in;
      try {
        std::rethrow_exception(batch.failure);
      } catch (...) {
        message = failure_of(batches_[number]);
      }
      throw BatchFailed();
    }
    pass.batches.push_back({std::move(batch.decoded), std::move(batch.times), batch.load_seconds,
                            batch.begin, batch.end});
  };
  enter(&arm, stage);
  try {
    const WallClock wall(pass.clock);
    pass.begin = Clock::now();
    pipeline_->run(
        *arm.decoder,
        [&](size_t number, BatchInFlight& batch) {
          if (!fill(number, batch)) return false;
          if (!arm.biases.empty())
            for (const size_t i : batches_[number]) batch.biases.push_back(arm.biases.biases[i]);
          return true;
        },
        keep, [&](size_t number) { return stand_in_frames(number); },
        arm.confidence ? &*arm.confidence : nullptr);
  } catch (const Interrupted&) {
    throw;
  } catch (const BatchFailed&) {
    fail(arm, failed_in, message);
  } catch (...) {
    fail_stage(describe_failure());
  }
  leave();
  return pass;
}

void CaseGroupRunner::overlapped_round(const std::vector<size_t>& order,
                                       std::vector<RoundResult>& results) {
  // Once, before anything is timed: the stand-in's encoder is no part of the model that is.
  for (size_t b = 0; model_->stand_in && stand_in_frames_.size() < batches_.size(); ++b) {
    check_interrupt();
    enter(nullptr, "encoder");
    try {
      RegionTimes untimed;
      stand_in_frames_.push_back(
          encode_batch(*model_, *encoder_, clips_of(batches_[b]), clock_, untimed));
    } catch (...) {
      fail_stage(describe_failure());
      return;
    }
    leave();
  }
  for (const size_t a : order) {
    Arm& arm = arms_[a];
    if (arm.failed) continue;
    OverlappedPass pass = overlapped_pass(arm, "pass");
    if (arm.failed) continue;
    RoundResult& result = results[a];
    Clock::time_point before = pass.begin;
    try {
      for (size_t b = 0; b < batches_.size(); ++b) {
        OverlappedPass::Batch& batch = pass.batches[b];
        result.load_seconds += batch.load_seconds;
        take(batches_[b], std::move(batch.decoded), batch.times,
             {.total_seconds = seconds_between(before, batch.end),
              .latency_seconds = seconds_between(batch.begin, batch.end)},
             result);
        before = batch.end;
      }
    } catch (...) {
      fail(arm, "decode", describe_failure());
      continue;
    }
    result.times += pass.clock;
    result.seconds = seconds_between(pass.begin, before);
  }
  for (size_t b = 0; b < batches_.size(); ++b) {
    check_interrupt();
    EncodedBatch again;
    const auto frames = [&]() -> const EncodedBatch& {
      if (const EncodedBatch* stand_in = stand_in_frames(b)) return *stand_in;
      RegionTimes untimed;
      if (!again.frames.defined())
        again = encode_batch(*model_, *encoder_, clips_of(batches_[b]), clock_, untimed);
      return again;
    };
    verify(batches_[b], frames, results);
  }
}

}  // namespace rtfx
