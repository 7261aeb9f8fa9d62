#include "harness/cli/doctor.h"

#include <ATen/Parallel.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDAFunctions.h>
#include <fmt/format.h>

#include <fstream>
#include <thread>

#include "algorithms/gpu/graph.h"
#include "base/error.h"
#include "harness/machine/conditions.h"
#include "harness/machine/cupti_library.h"
#include "harness/machine/wait_policy.h"
#include "harness/profile/ncu_counters.h"
#include "harness/profile/nsight_session.h"
#include "speech/runtime/build.h"
#include "speech/runtime/device.h"

namespace rtfx {
namespace {

/// `problem`: why not; empty when all is well.
void report(const char* what, const std::string& problem, const std::string& good,
            const char* bad = "no") {
  fmt::print("{:<5} {:<20} {}\n", problem.empty() ? "ok" : bad, what,
             problem.empty() ? good : problem);
}

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

void report_cpu() {
  report("CPU", "",
         fmt::format("{}, {} cores, {} threads by default", device_name(at::kCPU),
                     std::thread::hardware_concurrency(), at::get_num_threads()));
  const std::string governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (!governor.empty()) {
    report("CPU governor",
           governor == "performance" ? "" : governor + ": clocks follow the load, RTFx with them",
           governor, "note");
  }
  const bool waits = !first_line("/proc/self/schedstat").empty();
  report("waiting for a CPU",
         waits ? "" : "the kernel keeps no schedstat: a busy machine stays unseen",
         "is measured; rounds that waited are tagged", "note");
  const std::string policy = wait_policy();
  report("waiting threads",
         policy == "passive"
             ? ""
             : policy + ": not passive; on a busy machine, threads that wait take the others' time",
         policy, "note");
}

void report_gpu(at::DeviceIndex index) {
  const at::Device device(at::kCUDA, index);
  const cudaDeviceProp& p = *at::cuda::getDeviceProperties(index);
  const bool built = p.major >= 8;
  report(fmt::format("GPU {}", index).c_str(),
         built
             ? ""
             : fmt::format("{}: compute capability {}.{}, 8.0 is needed", p.name, p.major, p.minor),
         fmt::format("{}, {:.0f} GiB, compute capability {}.{}", p.name,
                     static_cast<double>(p.totalGlobalMem) / (1U << 30U), p.major, p.minor));
  std::string problem;
  const auto nvml = Nvml::open(pci_bus_id(device), problem);
  if (!nvml) return report("  clocks", problem + ": rtfx gate refuses runs without clocks", "");
  const GpuState state = nvml->state();
  std::string throttle;
  for (const std::string& name : throttle_names(state.throttle_reasons)) throttle += " " + name;
  report("  clocks", throttle.empty() ? "" : "throttled:" + throttle,
         fmt::format("SM {:.0f} of {:.0f} MHz, memory {:.0f} MHz, {:.0f} °C, {:.0f} W",
                     state.sm_clock_mhz, nvml->max_sm_clock_mhz(), state.memory_clock_mhz,
                     state.temperature_c, state.power_w),
         "note");
}

void report_gpus() {
  const int count = c10::cuda::device_count();
  report("CUDA",
         count > 0 ? "" : "no GPU, or no driver that serves this CUDA runtime: see nvidia-smi",
         fmt::format("{} GPU(s)", count));
  for (int i = 0; i < count; ++i) report_gpu(static_cast<at::DeviceIndex>(i));
  if (count > 0) report("conditional nodes", conditional_nodes_missing(), "in CUDA graphs");
  CuptiLibrary cupti;
  std::string problem;
  cupti.load(problem);
  report("CUPTI", problem, "rtfx profile shows what the GPU does: " + cupti.path);
  const std::string nsys = find_nsys().string(), ncu = find_ncu().string();
  report("Nsight Systems", nsys.empty() ? "no nsys: rtfx profile --nsys records elsewhere" : "",
         "rtfx profile --nsys: " + nsys, "note");
  report("Nsight Compute", ncu.empty() ? "no ncu: rtfx profile --roofline reckons" : "",
         "rtfx profile --roofline counts: " + ncu, "note");
}

}  // namespace

int doctor() {
  const std::string warning = build_warning();
  report("build", warning, version_text());
  report_cpu();
  report_gpus();
  return warning.empty() ? kOk : kFailed;
}

}  // namespace rtfx
