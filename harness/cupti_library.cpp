#include "harness/cupti_library.h"

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
#define RTFX_LOOK_UP(name)                                               \
  name = reinterpret_cast<decltype(name)>(dlsym(handle, "cupti" #name)); \
  if (name == nullptr) problem = "libcupti.so.13 has no function cupti" #name;
  RTFX_CUPTI_FUNCTIONS(RTFX_LOOK_UP)
#undef RTFX_LOOK_UP
  if (!problem.empty()) return false;
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(GetVersion), &info) != 0 && info.dli_fname != nullptr)
    path = info.dli_fname;
  GetVersion(&version);
  return true;
}

std::string CuptiLibrary::text(CUptiResult result) const {
  const char* name = nullptr;
  if (GetResultString(result, &name) != CUPTI_SUCCESS || name == nullptr) name = "error";
  return fmt::format("{} ({})", name, static_cast<int>(result));
}

}  // namespace rtfx
