#include "harness/run/largest_batch.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <string>

#include "algorithms/gpu/graph.h"
#include "speech/pipeline/encoder_memory.h"

namespace rtfx {

namespace {

constexpr int64_t kPrecision = 32;

/// Returns the least number of bytes that the encoder needs for the group's largest batch.
int64_t reckoned_bytes(LoadedInputs& inputs, const CaseGroup& group, const AcousticModel& model) {
  const Config& config = inputs.config();
  const LoadedDataset& dataset = inputs.datasets()[group.dataset];
  int64_t most = 0;
  for (const auto& batch :
       make_batches(dataset.seconds, config.sort, group.rule, config.protocol.seed)) {
    size_t longest = 0;
    for (const size_t i : batch) longest = std::max(longest, dataset.audio[i].size());
    most = std::max(most, least_encoder_memory(model, static_cast<int64_t>(batch.size()),
                                               static_cast<int64_t>(longest)));
  }
  return most;
}

/// Returns whether a round of the group runs without an error of memory.
bool round_fits(LoadedInputs& inputs, const CaseGroup& group, at::Device device,
                const std::function<void(CaseGroupRunner&)>& begin) {
  bool fits = true;
  {
    const auto on_failure = [&](const Arm&, const std::string&, const FailureText& failure) {
      if (failure.out_of_memory) fits = false;
    };
    CaseGroupRunner runner(inputs, group, device, on_failure, [] {});
    begin(runner);
    runner.prepare();
    const auto alive = [](const Arm& arm) { return !arm.failed; };
    if (fits && std::ranges::any_of(runner.arms(), alive)) runner.round(0, RoundKind::trial);
  }
  release_cached_memory();
  return fits;
}

}  // namespace

int64_t largest_that_fits(int64_t most, const std::function<bool(int64_t)>& fits) {
  // The search goes from large to small, since a round of large batches is short.
  int64_t good = most, bad = most + 1;
  while (good > 0 && !fits(good)) {
    bad = good;
    good /= 2;
  }
  while (bad - good > std::max<int64_t>(1, good / kPrecision)) {
    const int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

std::optional<int64_t> largest_batch(LoadedInputs& inputs, CaseGroup group, at::Device device,
                                     const std::function<void(CaseGroupRunner&)>& begin) {
  const LoadedDataset& dataset = inputs.datasets()[group.dataset];
  if (dataset.failure) return std::nullopt;
  std::shared_ptr<const AcousticModel> model;
  try {
    model = inputs.model(group.model, device, group.dtype);
    // CaseGroupRunner::prepare() meets the error again and reports it
  } catch (const std::exception&) {
    return std::nullopt;
  }
  const auto fits = [&](int64_t size) {
    group.rule.size = static_cast<double>(size);
    const int64_t needed = reckoned_bytes(inputs, group, *model);
    const int64_t free = free_memory(device);
    if (!device.is_cuda()) return needed <= free / 2;
    return needed <= free && round_fits(inputs, group, device, begin);
  };
  return std::max<int64_t>(1, largest_that_fits(static_cast<int64_t>(dataset.audio.size()), fits));
}

}  // namespace rtfx
