#include "speech/pipeline/encoder_memory.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "base/error.h"
#include "base/gpu/check.h"
#include "models/encoder/encoder.h"
#include "speech/runtime/device.h"

namespace rtfx {

namespace {

/// Returns the bytes of the machine's memory that are available without swapping. Returns the
/// largest number where the machine does not state it.
int64_t available_bytes() {
  std::ifstream in("/proc/meminfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("MemAvailable:")) return std::stoll(line.substr(13)) * 1024;
  }
  return std::numeric_limits<int64_t>::max();
}

int64_t resident_bytes() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

int64_t free_memory(const at::Device& device) {
  if (device.is_cuda()) {
    using c10::CachingAllocator::StatType;
    const auto index = device.index();
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(index);
    const auto all = static_cast<size_t>(StatType::AGGREGATE);
    const int64_t kept = stats.reserved_bytes[all].current - stats.allocated_bytes[all].current;
    const c10::cuda::CUDAGuard guard(device);
    size_t unused = 0, total = 0;
    RTFX_CUDA(cudaMemGetInfo(&unused, &total));
    return static_cast<int64_t>(unused) + kept;
  }
  const int64_t available = available_bytes();
  const auto limit = group_limits().memory_bytes;
  return limit ? std::min(available, *limit - resident_bytes()) : available;
}

int64_t least_encoder_memory(const AcousticModel& model, int64_t rows, int64_t samples) {
  const FeatureConfig& features = model.config.features;
  const int64_t frames = features.frames(samples);
  if (model.encoder->is_fused())
    return fused_encoder_bytes(model.config.encoder, features.mel_bins, rows, frames);
  return encoder_bytes(model.config.encoder, features.mel_bins, rows, frames,
                       static_cast<int64_t>(c10::elementSize(model.encoder_dtype)));
}

bool fits_easily(const AcousticModel& model, int64_t rows, int64_t samples, int64_t free) {
  return 2 * least_encoder_memory(model, rows, samples) <= free;
}

double fitting_batch_seconds(const AcousticModel& model, int64_t free, size_t in_flight) {
  constexpr double kLeast = 30, kMost = 2400;  // seconds
  constexpr double kShare = 0.5;               // share of memory; the known need is a lower limit
  constexpr int64_t kUtterances = 64, kSeconds = 10;
  const FeatureConfig& features = model.config.features;
  const int64_t samples = kSeconds * features.sample_rate;
  const double encoding = static_cast<double>(least_encoder_memory(model, kUtterances, samples)) /
                          static_cast<double>(kUtterances * kSeconds);
  // Counts the samples, the features in single precision, and the frames, which later steps copy
  // once.
  const auto frames = static_cast<double>(model.config.encoded_frames(samples)) / kSeconds;
  const double kept = 4.0 * static_cast<double>(features.sample_rate) +
                      4.0 * static_cast<double>(features.mel_bins * features.sample_rate) /
                          static_cast<double>(features.hop) +
                      2 * frames * static_cast<double>(model.config.encoder.width) *
                          static_cast<double>(c10::elementSize(model.dtype));
  const double seconds =
      kShare * static_cast<double>(free) / (encoding + static_cast<double>(in_flight) * kept);
  return std::clamp(seconds, kLeast, kMost);
}

namespace {

void require_memory(const AcousticModel& model, int64_t rows, int64_t samples, int64_t free,
                    const std::string& where, const char* remedy) {
  constexpr double kGiB = 1 << 30;
  const int64_t needed = least_encoder_memory(model, rows, samples);
  if (needed <= free) return;
  const double seconds =
      static_cast<double>(samples) / static_cast<double>(model.config.features.sample_rate);
  throw UserError(
      where,
      fmt::format(
          "encoding {}{:.0f} s of audio needs at least {:.1f} GiB, of which {:.1f} are free",
          rows > 1 ? fmt::format("{} utterances of up to ", rows) : "", seconds,
          static_cast<double>(needed) / kGiB, static_cast<double>(free) / kGiB),
      remedy);
}

}  // namespace

void require_encoder_memory(const AcousticModel& model, int64_t rows, int64_t samples, int64_t free,
                            const std::string& where) {
  require_memory(
      model, rows, samples, free, where,
      rows > 1 ? "use a smaller batch size"
               : "cut it into shorter recordings, or use a model of limited attention context");
}

int64_t fitting_chunks(const AcousticModel& model, int64_t most, int64_t samples, int64_t free,
                       const std::string& where) {
  require_memory(model, 1, samples, free, where,
                 "choose shorter chunks, or use a model of limited attention context");
  int64_t chunks = most;
  while (chunks > 1 && !fits_easily(model, chunks, samples, free)) --chunks;
  return chunks;
}

}  // namespace rtfx
