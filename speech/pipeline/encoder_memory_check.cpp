#include "speech/pipeline/encoder_memory_check.h"

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
#include "speech/runtime/cpu_share.h"

namespace rtfx {
namespace {

/// The machine's, of memory that needs no swapping; the largest number where it does not say.
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
  if (model.encoder->fused())
    return fused_encoder_bytes(model.config.encoder, features.mel_bins, rows, frames);
  return encoder_bytes(model.config.encoder, features.mel_bins, rows, frames,
                       static_cast<int64_t>(c10::elementSize(model.encoder_dtype)));
}

void require_encoder_memory(const AcousticModel& model, int64_t rows, int64_t samples, int64_t free,
                            const std::string& where) {
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
      rows > 1 ? "use a smaller batch size"
               : "cut it into shorter recordings, or use a model of limited attention context");
}

}  // namespace rtfx
