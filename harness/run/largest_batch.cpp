#include "harness/run/largest_batch.h"

#include <c10/cuda/CUDACachingAllocator.h>

#include <algorithm>

#include "harness/config/batches.h"
#include "harness/run/case_group.h"
#include "speech/pipeline/encoder_memory_check.h"

namespace rtfx {
namespace {

constexpr int64_t kPrecision = 32;

/// The least number of bytes that the encoder needs for the group's largest batch.
int64_t reckoned_bytes(Workspace& workspace, const CaseGroup& group, const AcousticModel& model) {
  const Config& config = workspace.config();
  const LoadedDataset& dataset = workspace.datasets()[group.dataset];
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

/// Whether a round of the group runs without an error of memory.
bool round_fits(Workspace& workspace, const CaseGroup& group, at::Device device) {
  bool fits = true;
  {
    const auto on_failure = [&](const Arm&, const std::string&, const std::string& message) {
      if (message.starts_with("out of memory")) fits = false;
    };
    CaseGroupRunner runner(workspace, group, device, on_failure, [] {});
    runner.prepare();
    const auto alive = [](const Arm& arm) { return !arm.failed; };
    if (fits && std::ranges::any_of(runner.arms(), alive)) runner.round(0);
  }
  c10::cuda::CUDACachingAllocator::emptyCache();
  return fits;
}

}  // namespace

int64_t largest_that_fits(int64_t most, const std::function<bool(int64_t)>& fits) {
  // From above: a round of large batches is a short one.
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

int64_t largest_batch(Workspace& workspace, CaseGroup group, at::Device device) {
  const LoadedDataset& dataset = workspace.datasets()[group.dataset];
  if (dataset.failure) return 1;
  const auto model = workspace.model(group.model, device, group.dtype);
  const auto fits = [&](int64_t size) {
    group.rule.size = static_cast<double>(size);
    const int64_t needed = reckoned_bytes(workspace, group, *model);
    const int64_t free = free_memory(device);
    if (!device.is_cuda()) return needed <= free / 2;
    return needed <= free && round_fits(workspace, group, device);
  };
  return std::max<int64_t>(1, largest_that_fits(static_cast<int64_t>(dataset.audio.size()), fits));
}

}  // namespace rtfx
