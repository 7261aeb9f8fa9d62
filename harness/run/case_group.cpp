#include "harness/run/case_group.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "algorithms/blank_penalty.h"
#include "algorithms/decoder.h"
#include "algorithms/result_check.h"
#include "base/nvtx.h"
#include "harness/config/plan.h"
#include "harness/machine/device_memory.h"
#include "speech/pipeline/encoder_memory.h"
#include "speech/runtime/device.h"
#include "speech/runtime/stages.h"

namespace rtfx {

namespace {

using Clock = std::chrono::steady_clock;

/// A call that returns a little late costs its case. The process ends only if the call is overdue
/// by this share of the limit and one second more.
constexpr double kOverdue = 0.1;

}  // namespace

CaseGroupRunner::CaseGroupRunner(LoadedInputs& inputs, const CaseGroup& group, at::Device device,
                                 OnFailure on_failure, OnBatch on_batch)
    : inputs_(inputs),
      group_(group),
      dataset_(inputs.datasets()[group.dataset]),
      device_(device),
      clock_(device),
      limit_(inputs.config().protocol.case_limit_seconds),
      on_failure_(std::move(on_failure)),
      on_batch_(std::move(on_batch)) {
  const Config& config = inputs.config();
  batches_ = make_batches(dataset_.seconds, config.sort, group.rule, config.protocol.seed);
  other_batches_ = shifted_batches(batches_);
  for (const PlannedDecoder& planned : group.decoders) {
    Arm arm;
    arm.plan = planned;
    arm.spec = &config.decoders[planned.spec];
    arm.decoder = make_decoder(arm.spec->name, arm.spec->options, arm.spec->where + "/options",
                               inputs.checkpoints()[group.model].config);
    arm.description = arm.decoder->describe();
    arms_.push_back(std::move(arm));
  }
  if (limit_ == 0) return;
  watchdog_.emplace([this] {
    const auto why = fmt::format("does not come back: protocol.case_limit_seconds is {:g}", limit_);
    if (on_overdue_) return on_overdue_(why);
    end_suddenly(why);
  });
}

void CaseGroupRunner::watch_stages(OnStage on_stage, OnOverdue on_overdue) {
  on_stage_ = std::move(on_stage);
  on_overdue_ = std::move(on_overdue);
}

void CaseGroupRunner::enter(Arm* arm, const char* stage) {
  stage_ = stage;
  stage_arm_ = arm;
  stage_begin_ = Clock::now();
  const std::string& first = group_.decoders.front().case_name;
  set_under_way(fmt::format("{}, {}",
                            arm != nullptr                ? arm->plan.case_name
                            : group_.decoders.size() == 1 ? first
                                                          : first + " and those beside it",
                            stage),
                on_overdue_ ? std::string_view() : remedy_);
  on_stage_(arm, stage);
  if (!watchdog_) return;
  double taken = 0;
  for (const Arm& one : arms_) {
    if (is_in_stage(one)) taken = std::max(taken, one.seconds);
  }
  watchdog_->set(std::max(0.0, limit_ - taken) + kOverdue * limit_ + 1);
}

void CaseGroupRunner::leave() {
  if (watchdog_) watchdog_->set(std::nullopt);
  const double seconds = std::chrono::duration<double>(Clock::now() - stage_begin_).count();
  for (Arm& arm : arms_) {
    if (!is_in_stage(arm)) continue;
    arm.seconds += seconds;
    if (limit_ > 0 && arm.seconds > limit_) {
      fail(arm, stage_,
           {fmt::format("the case has taken {:.1f} s: protocol.case_limit_seconds is {:g}",
                        arm.seconds, limit_)});
    }
  }
}

void CaseGroupRunner::fail(Arm& arm, const std::string& stage, const FailureText& failure) {
  arm.failed = true;
  on_failure_(arm, stage, failure);
}

void CaseGroupRunner::fail_stage(const FailureText& failure) {
  for (Arm& arm : arms_) {
    if (is_in_stage(arm)) fail(arm, stage_, failure);
  }
}

void CaseGroupRunner::prepare() {
  const ScopedRange range(RangeName::prepare);
  if (dataset_.failure) {
    for (Arm& arm : arms_) {
      if (!arm.failed) fail(arm, "load", {*dataset_.failure});
    }
    return;
  }
  enter(nullptr, "prepare");
  try {
    model_ = inputs_.model(group_.model, device_, group_.dtype);
    require_memory();
    const auto is_foreign = [](const Arm& arm) { return arm.decoder->is_foreign(); };
    if (std::ranges::any_of(arms_, is_foreign)) {
      std::map<std::string, at::Tensor> weights;
      for (auto& [name, tensor] : head_weights(*model_)) weights["the weights " + name] = tensor;
      weights_.emplace(std::move(weights));
    }
    const Config& config = inputs_.config();
    const Protocol& protocol = config.protocol;
    if (config.replay) replay_.emplace(model_);
    encoder_.emplace(model_, config.encoder_graphs, /*at_once=*/!protocol.overlapped());
    if (protocol.overlapped())
      pipeline_.emplace(model_, *encoder_, static_cast<size_t>(protocol.throughput.in_flight));
  } catch (...) {
    fail_stage(failure_text());
  }
  leave();
  if (!encoder_) return;
  Limits limits;
  for (const auto& batch : batches_) {
    limits.max_batch = std::max(limits.max_batch, static_cast<int64_t>(batch.size()));
    for (const size_t i : batch) {
      const auto samples = static_cast<int64_t>(dataset_.audio[i].size());
      limits.max_frames = std::max(limits.max_frames, model_->config.encoded_frames(samples));
    }
  }
  for (Arm& arm : arms_) {
    if (arm.failed) continue;
    enter(&arm, "prepare");
    try {
      const int64_t before = kept_memory(device_);
      arm.rules.emplace(*arm.decoder, model_->config);
      call(arm, [&] {
        pipeline_ ? pipeline_->prepare(*arm.decoder, limits) : arm.decoder->prepare(model_, limits);
      });
      const int64_t kept = kept_memory(device_) - before;
      if (kept >= 0) arm.kept_bytes = kept;
      if (pipeline_) call(arm, [&] { warm_up(*arm.decoder); });
      if (const auto& options = inputs_.config().confidence;
          options && arm.description.head != Head::none)
        arm.confidence.emplace(with_blank_penalty(model_, blank_penalty_of(*arm.decoder)),
                               arm.description.head, *options);
      arm.boosted = boosted_words(arm.decoder->boosted_words(), inputs_.normalizer());
      arm.biases = compile_biases(*arm.decoder, dataset_.dataset.utterances, inputs_.normalizer());
      if (!arm.biases.empty()) arm.description.exactness = Description::Exactness::approximate;
    } catch (...) {
      fail_stage(failure_text());
    }
    leave();
  }
}

void CaseGroupRunner::warm_up(Decoder& decoder) {
  int64_t rows = 0, samples = 0;  // of the batch that takes the most memory
  for (const auto& batch : batches_) {
    size_t longest = 0;
    for (const size_t i : batch) longest = std::max(longest, dataset_.audio[i].size());
    const auto here = static_cast<int64_t>(batch.size());
    if (here * static_cast<int64_t>(longest) <= rows * samples) continue;
    rows = here;
    samples = static_cast<int64_t>(longest);
  }
  pipeline_->warm_up(decoder, rows, samples);
}

void CaseGroupRunner::call(const Arm& arm, const std::function<void()>& work,
                           const SharedTensors* batch) const {
  if (!weights_) return work();
  batch == nullptr ? call_decoder(*arm.decoder, {&*weights_}, work)
                   : call_decoder(*arm.decoder, {&*weights_, batch}, work);
}

void CaseGroupRunner::require_memory() const {
  const int64_t free = free_memory(device_);
  for (const auto& batch : batches_) {
    const size_t longest =
        *std::ranges::max_element(batch, {}, [&](size_t i) { return dataset_.audio[i].size(); });
    require_encoder_memory(*model_, static_cast<int64_t>(batch.size()),
                           static_cast<int64_t>(dataset_.audio[longest].size()), free,
                           dataset_.dataset.utterances[longest].id);
  }
}

std::vector<RoundResult> CaseGroupRunner::empty_results() const {
  const size_t utterances = dataset_.dataset.utterances.size();
  std::vector<RoundResult> results(arms_.size());
  for (RoundResult& result : results) {
    result.hypotheses.resize(utterances);
    result.words.resize(utterances);
    if (inputs_.config().confidence) result.evidence.resize(utterances);
  }
  return results;
}

std::vector<RoundResult> CaseGroupRunner::round(int64_t number, RoundKind kind) {
  std::optional<CaseRange> of_case;  // decoders that share a round have theirs in each batch
  if (arms_.size() == 1) of_case.emplace(arms_.front().plan.case_name);
  const ScopedRange range(RangeName::round, number);
  std::vector<RoundResult> results = empty_results();
  const std::vector<size_t> order =
      round_order(arms_.size(), number, inputs_.config().protocol.seed);
  for (size_t i = 0; i < order.size(); ++i) results[order[i]].order = static_cast<int64_t>(i);
  if (pipeline_) {
    overlapped_round(order, kind, results);
  } else {
    for (const auto& batch : batches_) {
      check_interrupt();
      const EncodedBatch encoded = run_batch(batch, order, results);
      verify(
          batch, [&]() -> const EncodedBatch& { return encoded; }, results);
      on_batch_();
    }
  }
  if (replay_) replay_->release();
  // If the baseline failed half way, only some batches were compared with it, so there is no grade.
  for (size_t a = 0; a < arms_.size(); ++a) {
    const size_t baseline = baseline_of(arms_[a]);
    if (baseline < arms_.size() && arms_[baseline].failed) results[a].compared = false;
  }
  return results;
}

std::optional<EnergyUse> CaseGroupRunner::energy(Arm& arm, double seconds,
                                                 const EnergyCounter& counter) {
  if (arm.failed) return std::nullopt;
  EnergyUse use;
  EnergyMeter meter(counter);
  const auto begin = Clock::now();
  while (use.seconds < seconds) {
    if (pipeline_) {
      overlapped_pass(arm, "energy", batches_);
    } else {
      isolated_pass(arm, "energy");
    }
    if (arm.failed) return std::nullopt;
    use.audio_seconds += dataset_.audio_seconds;
    ++use.passes;
    use.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  const auto power = meter.end();
  if (!power) return std::nullopt;
  use.power = *power;
  return use;
}

void CaseGroupRunner::isolated_pass(Arm& arm, const char* stage) {
  for (const auto& batch : batches_) {
    check_interrupt();
    enter(&arm, stage);
    try {
      RegionTimes times;
      const Clips clips = clips_of(batch);
      const ScopedRange range(batch_size(*model_, clips));
      const EncodedBatch encoded = arm.biases.with_biases(
          encode_batch(*model_, *encoder_, clips, clock_, times, &memory_), batch);
      call(arm, [&] {
        decode_batch(*arm.decoder, *model_, encoded, *arm.rules, clock_, times,
                     /*sync_debug=*/false);
      });
    } catch (...) {
      fail_stage(failure_text());
    }
    leave();
    if (arm.failed) return;
  }
}

EncodedBatch CaseGroupRunner::run_batch(const std::vector<size_t>& utterances,
                                        const std::vector<size_t>& order,
                                        std::vector<RoundResult>& results) {
  EncodedBatch batch;
  const auto alive = [](const Arm& arm) { return !arm.failed; };
  if (std::none_of(arms_.begin(), arms_.end(), alive)) return batch;
  const Clips clips = clips_of(utterances);
  const ScopedRange range(batch_size(*model_, clips));
  RegionTimes shared;
  enter(nullptr, "encoder");
  try {
    batch = encode_batch(*model_, *encoder_, clips, clock_, shared, &memory_);
  } catch (...) {
    fail_stage(failure_text());
  }
  leave();
  std::optional<SharedTensors> shared_batch;
  if (weights_ && batch.frames.defined()) {
    shared_batch.emplace(std::map<std::string, at::Tensor>{{"the encoder's frames", batch.frames},
                                                           {"the lengths", batch.lengths}});
    synchronize(device_);  // the next regions begin on an idle device
  }
  for (const size_t a : order) {
    Arm& arm = arms_[a];
    if (arm.failed) continue;
    RoundResult& result = results[a];
    RegionTimes times = shared;
    enter(&arm, "decode");
    std::optional<CaseRange> of_case;
    if (arms_.size() > 1) of_case.emplace(arm.plan.case_name);
    try {
      Decoded decoded;
      const auto decode = [&] {
        const PeakMemory peak(device_);
        decoded = decode_batch(*arm.decoder, *model_, arm.biases.with_biases(batch, utterances),
                               *arm.rules, clock_, times, inputs_.config().sync_debug,
                               arm.confidence ? &*arm.confidence : nullptr);
        result.decode_bytes = std::max(result.decode_bytes.value_or(0), peak.bytes());
      };
      call(arm, decode, shared_batch ? &*shared_batch : nullptr);
      result.seconds += times.total();
      take(arm, utterances, std::move(decoded), times,
           {.total_seconds = times.total(), .latency_seconds = times.total()}, result);
    } catch (...) {
      fail_stage(failure_of(utterances));
    }
    leave();
  }
  return batch;
}

void CaseGroupRunner::take(const Arm& arm, const std::vector<size_t>& utterances, Decoded decoded,
                           const RegionTimes& times, BatchTime of_batch,
                           RoundResult& result) const {
  for (const size_t i : utterances) of_batch.audio_seconds += dataset_.seconds[i];
  of_batch.decode_seconds = times.seconds(Region::decode);
  result.times += times;
  result.batches.push_back(of_batch);
  for (size_t i = 0; i < utterances.size(); ++i) {
    if (decoded.hypotheses[i].nan) {
      throw std::runtime_error(
          fmt::format("{} of utterance '{}'", nan_problem(*arm.decoder), id_of(utterances, i)));
    }
    result.hypotheses[utterances[i]] = std::move(decoded.hypotheses[i]);
    result.words[utterances[i]] = inputs_.normalizer().words(decoded.texts[i]);
    if (!decoded.evidence.empty())
      result.evidence[utterances[i]] = std::move(decoded.evidence[i].front());
  }
  for (const auto& [name, count] : decoded.counters) result.counters[name] += count;
}

FailureText CaseGroupRunner::failure_of(const std::vector<size_t>& utterances) const {
  try {
    throw;
  } catch (const WrongResult& e) {
    if (e.row() < 0) return {e.what()};
    return {fmt::format("{} (utterance '{}')", e.what(),
                        id_of(utterances, static_cast<size_t>(e.row())))};
  } catch (...) {
    return failure_text();
  }
}

const std::string& CaseGroupRunner::id_of(const std::vector<size_t>& utterances, size_t row) const {
  return dataset_.dataset.utterances[utterances[row]].id;
}

size_t CaseGroupRunner::baseline_of(const Arm& arm) const {
  for (size_t i = 0; i < arms_.size(); ++i) {
    if (arms_[i].spec->id == arm.plan.compared_to) return i;
  }
  return arms_.size();
}

void CaseGroupRunner::verify(const std::vector<size_t>& utterances,
                             const ReplayCheck::BatchSource& batch,
                             std::vector<RoundResult>& results) {
  std::vector<std::vector<Proof>> proofs(arms_.size());
  for (size_t a = 0; a < arms_.size(); ++a) {
    Arm& arm = arms_[a];
    proofs[a].assign(utterances.size(), Proof::none);
    if (arm.failed || !replay_) continue;
    enter(&arm, "verify");
    try {
      proofs[a] = replay_->check(*arm.decoder, arm.biases, utterances, batch, results[a].hypotheses,
                                 dataset_.dataset.utterances, results[a].replay);
    } catch (...) {
      fail_stage(failure_text());
    }
    leave();
  }
  for (size_t a = 0; a < arms_.size(); ++a)
    if (!arms_[a].failed) compare_results(arms_[a], utterances, proofs[a], results);
}

void CaseGroupRunner::compare_results(Arm& arm, const std::vector<size_t>& utterances,
                                      const std::vector<Proof>& proofs,
                                      std::vector<RoundResult>& results) const {
  const auto a = static_cast<size_t>(&arm - arms_.data());
  if (!isolated_.empty()) {
    if (!results[a].isolated) results[a].isolated.emplace();
    add_grades(utterances, proofs, isolated_[a], results[a], /*same_score_kind=*/true,
               *results[a].isolated);
  }
  const size_t baseline = baseline_of(arm);
  if (baseline == arms_.size() || baseline == a || arms_[baseline].failed) return;
  results[a].compared = true;
  const bool same_score_kind = arm.description.score_kind == arms_[baseline].description.score_kind;
  add_grades(utterances, proofs, results[baseline], results[a], same_score_kind, results[a].graded);
}

void CaseGroupRunner::add_grades(const std::vector<size_t>& utterances,
                                 const std::vector<Proof>& proofs, const RoundResult& baseline,
                                 const RoundResult& result, bool same_score_kind,
                                 GradeCounts& graded) const {
  for (size_t row = 0; row < utterances.size(); ++row) {
    const size_t i = utterances[row];
    const Hypothesis &base = baseline.hypotheses[i], &other = result.hypotheses[i];
    const auto &base_words = baseline.words[i], &words = result.words[i];
    const Comparison comparison =
        compare(base, other, base_words == words, proofs[row], model_->dtype, same_score_kind);
    graded.add(comparison, [&] {
      const auto samples = static_cast<int64_t>(dataset_.audio[i].size());
      const auto frame_at = [&](const Hypothesis& h) {
        return comparison.token < h.frames.size() ? h.frames[comparison.token]
                                                  : model_->config.encoded_frames(samples);
      };
      const int64_t frame = std::min<int64_t>(frame_at(base), frame_at(other));
      const auto [left, right] = differing_words(base_words, words);
      return FirstDifference{dataset_.dataset.utterances[i].id, frame,
                             static_cast<double>(frame) * model_->config.frame_seconds(), left,
                             right};
    });
  }
}

}  // namespace rtfx
