// Measures how long a checkpoint takes to load, and how much memory, compared with reading the
// file.
//   rtfx_bench_checkpoint_load --checkpoint=FILE [Google Benchmark's own options]
// In `cold` passes, the file's pages are dropped from memory before each pass. `peak_per_weights`
// is the greatest memory held while loading, mapped pages included, divided by the bytes of the
// weights in the wanted dtype.
#include <ATen/ATen.h>
#include <benchmark/benchmark.h>
#include <c10/core/InferenceMode.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <torch/cuda.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "models/acoustic_model.h"
#include "models/load_checkpoint.h"

namespace {

std::string checkpoint_file;
constexpr const char* kJoined[] = {".linear_q.", ".linear_k.", ".linear_v."};

void drop_from_memory(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  ::close(file);
}

/// Returns a field of /proc/self/status in bytes.
double status_bytes(const std::string& field) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(field + ":")) return 1024 * std::stod(line.substr(field.size() + 1));
  return 0;
}

void forget_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

/// Reads the file like `cat FILE > /dev/null`.
void read_file(benchmark::State& state, bool cold) {
  std::vector<char> buffer(1 << 17);
  int64_t bytes = 0;
  for (auto _ : state) {
    if (cold) {
      state.PauseTiming();
      drop_from_memory(checkpoint_file);
      state.ResumeTiming();
    }
    const int file = ::open(checkpoint_file.c_str(), O_RDONLY | O_CLOEXEC);
    for (ssize_t got = 0; (got = ::read(file, buffer.data(), buffer.size())) > 0;) bytes += got;
    ::close(file);
  }
  state.SetBytesProcessed(bytes);
}

void load(benchmark::State& state, at::Device device, at::ScalarType dtype, bool cold) {
  const c10::InferenceMode inference;
  double peak = 0;
  for (auto _ : state) {
    state.PauseTiming();
    if (cold) drop_from_memory(checkpoint_file);
    forget_peak();
    const double before = status_bytes("VmRSS");
    state.ResumeTiming();
    const rtfx::Checkpoint checkpoint = rtfx::load_checkpoint(checkpoint_file);
    const auto model = rtfx::AcousticModel::build(checkpoint, device, dtype);
    // A weight that is a view of the file is loaded once its pages are. Not all weights stay views:
    // the model joins the maps of queries, keys and values.
    if (device.is_cpu()) {
      for (const auto& [name, tensor] : checkpoint.weights) {
        const bool joined = std::ranges::any_of(
            kJoined, [&](const char* part) { return name.find(part) != std::string::npos; });
        if (tensor.scalar_type() == dtype && !joined)
          benchmark::DoNotOptimize(tensor.sum().data_ptr());
      }
    }
    if (device.is_cuda()) torch::cuda::synchronize();
    state.PauseTiming();
    peak =
        (status_bytes("VmHWM") - before) /
        static_cast<double>(checkpoint.parameters * static_cast<int64_t>(c10::elementSize(dtype)));
    state.ResumeTiming();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) *
                          static_cast<int64_t>(std::filesystem::file_size(checkpoint_file)));
  state.counters["peak_per_weights"] = peak;
}

void add(const std::string& name, auto function) {
  benchmark::RegisterBenchmark(name.c_str(), function)
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime()
      ->MeasureProcessCPUTime();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string flag = "--checkpoint=";
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.starts_with(flag)) {
      checkpoint_file = argument.substr(flag.size());
    } else {
      argv[kept++] = argv[i];
    }
  }
  argc = kept;
  if (checkpoint_file.empty() || !std::filesystem::exists(checkpoint_file)) {
    fmt::print(
        stderr,
        "rtfx_bench_checkpoint_load: no file '{}'; give --checkpoint=FILE, a .nemo file of some "
        "GB (benchmarks/make_checkpoint.py makes one)\n",
        checkpoint_file);
    return 2;
  }
  for (const bool cold : {false, true}) {
    const char* const state = cold ? "cold" : "warm";
    add(fmt::format("read_file/{}", state), [=](benchmark::State& s) { read_file(s, cold); });
    for (const auto& [type, dtype] :
         {std::pair("fp32", at::kFloat), std::pair("bf16", at::kBFloat16)}) {
      add(fmt::format("load/cpu/{}/{}", type, state),
          [=, d = dtype](benchmark::State& s) { load(s, at::kCPU, d, cold); });
      if (torch::cuda::is_available()) {
        add(fmt::format("load/cuda/{}/{}", type, state),
            [=, d = dtype](benchmark::State& s) { load(s, at::kCUDA, d, cold); });
      }
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  try {
    benchmark::RunSpecifiedBenchmarks();
  } catch (const rtfx::UserError& error) {
    fmt::print(stderr, "rtfx_bench_checkpoint_load: {}\n", error.what());
    return 1;
  }
  return 0;
}
