#include "harness/machine/device_memory.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <shared_mutex>
#include <vector>

#include "algorithms/gpu/graph.h"
#include "speech/runtime/device.h"

namespace rtfx {

namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

c10::CachingAllocator::Stat allocated(at::Device device) {
  const auto stats = allocator::getDeviceStats(device.index());
  return stats.allocated_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
}

/// Returns the addresses of the workspaces of both cuBLAS libraries, for each handle and stream.
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
                    const std::set<size_t>& excluded_blocks) {
  int64_t bytes = 0;
  for (const auto& segment : segments) {
    const bool of_graph = segment.owner_private_pool_id != c10::MempoolId_t{0, 0};
    bytes += static_cast<int64_t>(of_graph ? segment.total_size : segment.allocated_size);
    size_t address = segment.address;
    for (const auto& block : segment.blocks) {
      if (!of_graph && block.allocated && excluded_blocks.contains(address))
        bytes -= static_cast<int64_t>(block.size);
      address += block.size;
    }
  }
  return bytes;
}

int64_t kept_memory(at::Device device) {
  if (!device.is_cuda()) return 0;
  synchronize(device);
  release_cached_memory();  // also frees the pools of deleted graphs
  auto segments = allocator::snapshot({0, 0}, /*include_traces=*/false).segments;
  std::erase_if(segments, [&](const auto& segment) { return segment.device != device.index(); });
  return kept_memory(segments, cublas_workspaces());
}

PeakMemory::PeakMemory(at::Device device) : device_(device) {
  if (!device_.is_cuda()) return;
  {
    // cuBLAS takes its workspace at the first product.
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

namespace {

std::vector<std::filesystem::path> library_candidates() {
  const std::string name = "libcupti.so.13";
  std::vector<std::filesystem::path> candidates = {name};
  if (void* runtime = dlsym(RTLD_DEFAULT, "cudaGetDeviceCount"); runtime != nullptr) {
    Dl_info info{};  // facts about libcudart, which is in the same folder of a wheel
    if (dladdr(runtime, &info) != 0 && info.dli_fname != nullptr)
      candidates.push_back(std::filesystem::path(info.dli_fname).parent_path() / name);
  }
  candidates.emplace_back("/usr/local/cuda/extras/CUPTI/lib64/" + name);
  candidates.emplace_back("/usr/local/cuda/lib64/" + name);
  return candidates;
}

template <typename Function>
void look_up(void* handle, const char* name, Function& function, std::string& problem) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (function == nullptr) problem = fmt::format("libcupti.so.13 has no function {}", name);
}

}  // namespace

bool CuptiLibrary::load(std::string& problem) {
  void* handle = nullptr;
  std::string tried;
  for (const std::filesystem::path& candidate : library_candidates()) {
    handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) break;
    tried += (tried.empty() ? "" : ", ") + candidate.string();
  }
  if (handle == nullptr) {
    problem = fmt::format(
        "libcupti.so.13 is not installed (looked for {}); it comes with LibTorch "
        "for CUDA 13 and with the CUDA toolkit",
        tried);
    return false;
  }
  look_up(handle, "cuptiGetVersion", get_version, problem);
  look_up(handle, "cuptiGetResultString", get_result_string, problem);
  look_up(handle, "cuptiSubscribe", subscribe, problem);
  look_up(handle, "cuptiUnsubscribe", unsubscribe, problem);
  look_up(handle, "cuptiGetTimestamp", get_timestamp, problem);
  look_up(handle, "cuptiGetCallbackName", get_callback_name, problem);
  look_up(handle, "cuptiActivityRegisterCallbacks", activity_register_callbacks, problem);
  look_up(handle, "cuptiActivitySetAttribute", activity_set_attribute, problem);
  look_up(handle, "cuptiActivityEnable", activity_enable, problem);
  look_up(handle, "cuptiActivityDisable", activity_disable, problem);
  look_up(handle, "cuptiActivityEnableDeviceGraph", activity_enable_device_graph, problem);
  look_up(handle, "cuptiActivityEnableDriverApi", activity_enable_driver_api, problem);
  look_up(handle, "cuptiActivityEnableRuntimeApi", activity_enable_runtime_api, problem);
  look_up(handle, "cuptiActivityFlushAll", activity_flush_all, problem);
  look_up(handle, "cuptiActivityGetNextRecord", activity_get_next_record, problem);
  look_up(handle, "cuptiActivityGetNumDroppedRecords", activity_get_num_dropped_records, problem);
  if (!problem.empty()) return false;
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(get_version), &info) != 0 && info.dli_fname != nullptr)
    path = info.dli_fname;
  get_version(&version);
  return true;
}

std::string CuptiLibrary::text(CUptiResult result) const {
  const char* name = nullptr;
  if (get_result_string(result, &name) != CUPTI_SUCCESS || name == nullptr) name = "error";
  return fmt::format("{} ({})", name, static_cast<int>(result));
}

}  // namespace rtfx
