#include "speech/runtime/device.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/Type.h>
#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>

#include "base/error.h"
#include "speech/runtime/cpu_share.h"

namespace rtfx {

namespace {

std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown CPU";
}

}  // namespace

at::Device parse_device(const std::string& name, const std::string& where) {
  const int count = c10::cuda::device_count();
  if (name == "cpu" || (name == "auto" && count == 0)) return at::kCPU;
  if (name == "auto") return {at::kCUDA, 0};
  int index = 0;
  if (name.starts_with("cuda:")) {
    const auto [end, error] = std::from_chars(name.data() + 5, name.data() + name.size(), index);
    if (error != std::errc() || end != name.data() + name.size() || index < 0) index = -1;
  } else if (name != "cuda") {
    index = -1;
  }
  if (name.starts_with("gpu")) {  // By its letters, 'cpu' would be the nearest.
    throw UserError(where, fmt::format("unknown device '{}'", name),
                    "did you mean 'cuda'? allowed: auto, cpu, cuda, cuda:N");
  }
  if (index < 0)
    throw unknown_name(where, "device", name,
                       std::vector<std::string>{"auto", "cpu", "cuda", "cuda:N"});
  if (index >= count) {
    throw UserError(where, fmt::format("no device '{}': this machine has {} GPU(s)", name, count),
                    "use cpu, or check the driver with nvidia-smi");
  }
  return {at::kCUDA, static_cast<at::DeviceIndex>(index)};
}

DeviceScope::DeviceScope(int64_t threads, const std::string& device, const std::string& where)
    : device_(parse_device(device, where)), guard_(device_) {
  const bool given = std::getenv("OMP_NUM_THREADS") != nullptr;
  if (threads == 0 && !given)
    threads = std::min<int64_t>(at::get_num_threads(), fair_threads(/*processes=*/1));
  if (threads > 0) at::set_num_threads(static_cast<int>(threads));
}

void synchronize(at::Device device) {
  if (device.is_cuda()) c10::cuda::device_synchronize();
}

std::string device_name(at::Device device) {
  return device.is_cuda() ? std::string(at::cuda::getDeviceProperties(device.index())->name)
                          : cpu_name();
}

std::string describe_failure() {
  std::string text;
  bool memory = false;
  try {
    throw;
  } catch (const std::bad_alloc& e) {
    text = e.what();
    memory = true;
  } catch (const c10::Error& e) {
    text = e.what_without_backtrace();
  } catch (const std::exception& e) {
    text = e.what();
  } catch (...) {
    return fmt::format("an exception of type {}, which is no std::exception",
                       c10::demangle(abi::__cxa_current_exception_type()->name()));
  }
  memory = memory || text.find("out of memory") != std::string::npos ||
           text.find("can't allocate memory") != std::string::npos;
  return memory ? "out of memory: " + text + "; use smaller batches" : text;
}

}  // namespace rtfx
