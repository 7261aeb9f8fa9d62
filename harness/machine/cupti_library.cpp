#include "harness/machine/cupti_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <vector>

namespace rtfx {
namespace {

std::vector<std::filesystem::path> library_candidates() {
  const std::string name = "libcupti.so.13";
  std::vector<std::filesystem::path> candidates = {name};
  if (void* runtime = dlsym(RTLD_DEFAULT, "cudaGetDeviceCount"); runtime != nullptr) {
    Dl_info info{};  // of libcudart, which lies in the same folder of a wheel
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
