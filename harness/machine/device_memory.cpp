#include "harness/machine/device_memory.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <shared_mutex>

#include "speech/runtime/device.h"

namespace rtfx {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

c10::CachingAllocator::Stat allocated(at::Device device) {
  const auto stats = allocator::getDeviceStats(device.index());
  return stats.allocated_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
}

/// Where both of cuBLAS's libraries work, for each handle and stream.
std::set<size_t> cublas_workspaces() {
  std::set<size_t> addresses;
  for (at::cuda::WorkspaceMapWithMutex* workspaces :
       {&at::cuda::cublas_handle_stream_to_workspace(),
        &at::cuda::cublaslt_handle_stream_to_workspace()}) {
    const std::shared_lock lock(workspaces->mutex);
    for (const auto& [of, memory] : workspaces->map)
      addresses.insert(reinterpret_cast<size_t>(memory.get()));
  }
  return addresses;
}

}  // namespace

int64_t kept_memory(const std::vector<c10::CachingDeviceAllocator::SegmentInfo>& segments,
                    const std::set<size_t>& nobodys) {
  int64_t bytes = 0;
  for (const auto& segment : segments) {
    const bool of_graph = segment.owner_private_pool_id != c10::MempoolId_t{0, 0};
    bytes += static_cast<int64_t>(of_graph ? segment.total_size : segment.allocated_size);
    size_t address = segment.address;
    for (const auto& block : segment.blocks) {
      if (!of_graph && block.allocated && nobodys.contains(address))
        bytes -= static_cast<int64_t>(block.size);
      address += block.size;
    }
  }
  return bytes;
}

int64_t kept_memory(at::Device device) {
  if (!device.is_cuda()) return 0;
  synchronize(device);
  allocator::emptyCache();  // the pools of graphs that are gone
  auto segments = allocator::snapshot({0, 0}, /*include_traces=*/false).segments;
  std::erase_if(segments, [&](const auto& segment) { return segment.device != device.index(); });
  return kept_memory(segments, cublas_workspaces());
}

PeakMemory::PeakMemory(at::Device device) : device_(device) {
  if (!device_.is_cuda()) return;
  {
    // cuBLAS takes its memory at the first product.
    const at::Tensor one = at::ones({1, 1}, at::device(device_));
    at::mm(one, one);
    at::cuda::getCUDABlasLtWorkspace();
  }
  allocator::resetPeakStats(device_.index());
  before_ = allocated(device_).current;
}

int64_t PeakMemory::bytes() const {
  return device_.is_cuda() ? allocated(device_).peak - before_ : 0;
}

}  // namespace rtfx
