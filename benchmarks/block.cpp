// Compares rtfx's own operations of a block of threads, and its barrier of a grid, with those of
// CUB and of cooperative groups, on a GPU. Each benchmark times both kernels of a pair alternately,
// so that a change of the clock affects both. Its counters are the nanoseconds of one operation and
// their ratio, own / library. The repetitions, 20 unless an option says otherwise, give the
// interval of the ratio.
#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "base/gpu/check.h"
#include "benchmarks/block_kernels.h"

namespace rtfx::bench_block {
namespace {

constexpr int32_t kRounds = 5000;  // operations of a launch
constexpr int32_t kTurns = 10;     // each of own, library, library, own

template <class T>
std::shared_ptr<T> device_memory(size_t count) {
  T* memory = nullptr;
  RTFX_CUDA(cudaMalloc(reinterpret_cast<void**>(&memory), count * sizeof(T)));
  return {memory, [](T* p) { cudaFree(p); }};
}

class Device {
 public:
  Device() {
    int device = 0;
    RTFX_CUDA(cudaGetDevice(&device));
    RTFX_CUDA(cudaDeviceGetAttribute(&processors_, cudaDevAttrMultiProcessorCount, device));
    const auto blocks = static_cast<size_t>(most_blocks());
    results_ = device_memory<uint64_t>(blocks * kMostThreads);
    barrier_ = device_memory<unsigned>(1);
    slots_ = device_memory<uint32_t>(2 * blocks);
    RTFX_CUDA(cudaEventCreate(&start_));
    RTFX_CUDA(cudaEventCreate(&stop_));
  }
  ~Device() {
    cudaEventDestroy(start_);
    cudaEventDestroy(stop_);
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int32_t processors() const { return processors_; }
  int32_t most_blocks() const { return 2 * processors_; }

  /// Returns the seconds of one launch, and waits for its end.
  double seconds(Launch launch, int32_t blocks) const {
    RTFX_CUDA(cudaMemsetAsync(barrier_.get(), 0, sizeof(unsigned), nullptr));
    RTFX_CUDA(cudaEventRecord(start_, nullptr));
    launch({blocks, kRounds, results_.get(), barrier_.get(), slots_.get()}, nullptr);
    RTFX_CUDA(cudaEventRecord(stop_, nullptr));
    RTFX_CUDA(cudaEventSynchronize(stop_));
    float milliseconds = 0;
    RTFX_CUDA(cudaEventElapsedTime(&milliseconds, start_, stop_));
    return milliseconds / 1e3;
  }

  /// Returns what all threads of a launch computed.
  std::vector<uint64_t> results(Launch launch, int32_t blocks, int32_t threads) const {
    std::vector<uint64_t> values(static_cast<size_t>(blocks) * static_cast<size_t>(threads));
    RTFX_CUDA(cudaMemset(results_.get(), 0xff, values.size() * sizeof(uint64_t)));
    seconds(launch, blocks);
    RTFX_CUDA(cudaMemcpy(values.data(), results_.get(), values.size() * sizeof(uint64_t),
                         cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  int32_t processors_ = 0;
  std::shared_ptr<uint64_t> results_;
  std::shared_ptr<unsigned> barrier_;
  std::shared_ptr<uint32_t> slots_;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
};

void compare(benchmark::State& state, const Device& device, const Pair& pair, int32_t blocks) {
  if (device.results(pair.own, blocks, pair.threads) !=
      device.results(pair.library, blocks, pair.threads)) {
    state.SkipWithError("own and library give different results");
    return;
  }
  double own = 0, library = 0;
  for (auto _ : state) {
    const double before = own;
    own += device.seconds(pair.own, blocks);
    library += device.seconds(pair.library, blocks);
    library += device.seconds(pair.library, blocks);
    own += device.seconds(pair.own, blocks);
    state.SetIterationTime(own - before);
  }
  const double operations = 2.0 * kRounds * static_cast<double>(state.iterations());
  state.counters["own_ns"] = own * 1e9 / operations;
  state.counters["library_ns"] = library * 1e9 / operations;
  state.counters["ratio"] = own / library;
}

/// Registers a pair for each number of blocks that kernels have: one block for one utterance, and
/// one or two blocks on each multiprocessor.
void add(const Device& device, const Pair& pair) {
  std::vector<int32_t> grids = {device.processors()};
  if (!pair.grid) grids.push_back(1);
  if (!pair.grid && pair.threads == 512) grids.push_back(2 * device.processors());
  std::sort(grids.begin(), grids.end());
  for (const int32_t blocks : grids) {
    const std::string name = pair.name + "/" + std::to_string(blocks) + "blocks";
    benchmark::RegisterBenchmark(
        name.c_str(),
        [&device, pair, blocks](benchmark::State& s) { compare(s, device, pair, blocks); })
        ->Unit(benchmark::kMicrosecond)
        ->Iterations(kTurns)
        ->DisplayAggregatesOnly(true)
        ->UseManualTime();
  }
}

int run(int argc, char** argv) {
  // Options of the command line come later, so they win.
  std::vector<std::string> options = {argv[0], "--benchmark_repetitions=20",
                                      "--benchmark_enable_random_interleaving=true"};
  options.insert(options.end(), argv + 1, argv + argc);
  std::vector<char*> arguments;
  for (std::string& option : options) arguments.push_back(option.data());
  int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 2;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::fputs("rtfx_bench_block: no GPU, nothing to measure\n", stderr);
    return 1;
  }
  const Device device;
  benchmark::AddCustomContext("rounds", std::to_string(kRounds));
  const std::vector<Pair> all = pairs();
  for (const Pair& pair : all) add(device, pair);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace rtfx::bench_block

int main(int argc, char** argv) {
  try {
    return rtfx::bench_block::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rtfx_bench_block: %s\n", e.what());
    return 1;
  }
}
