// The first product of a feed-forward layer with its SiLU, in three forms: cuBLASLt's product
// alone, the encoder's SiLU kernel behind it, and one kernel of CUTLASS. That kernel is timed in
// several schedules, tiles and clusters, whose bits must be equal. It needs a GPU of compute
// capability 9.0.
//
// Each benchmark times all three forms by turns, so that a change of the clock meets all. Its
// counters are the microseconds of one product and the ratio fused / (cublas + silu). Before, it
// checks the results (feed_forward_kernels.h says how), and fails where they are wrong. Times are
// those of recorded graphs, as the encoder runs.
#include <benchmark/benchmark.h>
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/gpu/check.h"
#include "benchmarks/feed_forward_kernels.h"

namespace rtfx::bench_feed_forward {
namespace {

constexpr int32_t kIn = 1024, kOut = 4096;
constexpr int32_t kRows[] = {16, 64, 128, 256, 512, 1250, 2500, 5300, 10600, 21000};
constexpr int32_t kFewRows = 77;  // no multiple of a tile
constexpr int32_t kSets = 4;      // inputs, weights and outputs that take turns, as of layers
constexpr int32_t kLaunches = 16;
constexpr int32_t kTurns = 5;
constexpr size_t kWorkspace = 32 << 20;  // bytes, as models/encoder/fused/linear.cpp

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string(call) + ": " + cublasLtGetStatusString(status));
}
#define RTFX_CUBLAS(call) check((call), #call)

std::shared_ptr<void> device_memory(size_t bytes) {
  void* memory = nullptr;
  RTFX_CUDA(cudaMalloc(&memory, bytes));
  RTFX_CUDA(cudaMemset(memory, 0xff, bytes));  // NaN
  RTFX_CUDA(cudaDeviceSynchronize());          // other streams do not wait for it
  return {memory, [](void* p) { cudaFree(p); }};
}

/// Records what `work` enqueues, and replays it.
class Recorded {
 public:
  Recorded(cudaStream_t stream, const std::function<void()>& work) : stream_(stream) {
    RTFX_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    work();
    cudaGraph_t graph = nullptr;
    RTFX_CUDA(cudaStreamEndCapture(stream, &graph));
    const cudaError_t error = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    RTFX_CUDA(error);
    RTFX_CUDA(cudaEventCreate(&start_));
    RTFX_CUDA(cudaEventCreate(&stop_));
  }
  ~Recorded() {
    cudaEventDestroy(start_);
    cudaEventDestroy(stop_);
    cudaGraphExecDestroy(executable_);
  }
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;

  /// Returns the seconds of one replay, and waits for its end.
  double seconds() const {
    RTFX_CUDA(cudaEventRecord(start_, stream_));
    RTFX_CUDA(cudaGraphLaunch(executable_, stream_));
    RTFX_CUDA(cudaEventRecord(stop_, stream_));
    RTFX_CUDA(cudaEventSynchronize(stop_));
    float milliseconds = 0;
    RTFX_CUDA(cudaEventElapsedTime(&milliseconds, start_, stop_));
    return milliseconds / 1e3;
  }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t executable_ = nullptr;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
};

/// cuBLASLt's product with the algorithm that it thinks fastest, as linear.cpp calls it: bf16 with
/// bias, or float32 sums without.
class CublasProduct {
 public:
  CublasProduct(int32_t rows, bool sums) : sums_(sums) {
    const cudaDataType_t output = sums ? CUDA_R_32F : CUDA_R_16BF;
    RTFX_CUBLAS(cublasLtCreate(&handle_));
    RTFX_CUBLAS(cublasLtMatmulDescInit(&description_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    if (!sums) set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    RTFX_CUBLAS(cublasLtMatrixLayoutInit(&weight_, CUDA_R_16BF, kIn, kOut, kIn));
    RTFX_CUBLAS(
        cublasLtMatrixLayoutInit(&input_, CUDA_R_16BF, kIn, static_cast<uint64_t>(rows), kIn));
    RTFX_CUBLAS(
        cublasLtMatrixLayoutInit(&output_, output, kOut, static_cast<uint64_t>(rows), kOut));
    cublasLtMatmulPreferenceOpaque_t preference;
    RTFX_CUBLAS(cublasLtMatmulPreferenceInit(&preference));
    RTFX_CUBLAS(cublasLtMatmulPreferenceSetAttribute(
        &preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspace, sizeof(kWorkspace)));
    int results = 0;
    RTFX_CUBLAS(cublasLtMatmulAlgoGetHeuristic(handle_, &description_, &weight_, &input_, &output_,
                                               &output_, &preference, 1, &algorithm_, &results));
    if (results == 0) throw std::runtime_error("cuBLASLt has no algorithm for this product");
    workspace_ = device_memory(kWorkspace);
  }
  ~CublasProduct() { cublasLtDestroy(handle_); }
  CublasProduct(const CublasProduct&) = delete;
  CublasProduct& operator=(const CublasProduct&) = delete;

  void launch(const SiluProduct& work, cudaStream_t stream) {
    if (!sums_) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, work.bias);
    const float one = 1, zero = 0;
    RTFX_CUBLAS(cublasLtMatmul(handle_, &description_, &one, work.weight, &weight_, work.x, &input_,
                               &zero, work.y, &output_, work.y, &output_, &algorithm_.algo,
                               workspace_.get(), kWorkspace, stream));
  }

 private:
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    RTFX_CUBLAS(cublasLtMatmulDescSetAttribute(&description_, attribute, &value, sizeof(value)));
  }

  bool sums_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDescOpaque_t description_;
  cublasLtMatrixLayoutOpaque_t weight_, input_, output_;
  cublasLtMatmulHeuristicResult_t algorithm_;
  std::shared_ptr<void> workspace_;
};

/// Inputs and outputs of so many rows, and the recorded products of cuBLASLt.
class Problem {
 public:
  Problem(int32_t rows, cudaStream_t stream)
      : rows_(rows),
        stream_(stream),
        product_(rows, false),
        bias_(device_memory(2 * kOut)),
        present_(device_memory(elements() * 2)),
        first_variant_(device_memory(elements() * 2)),
        sums_(device_memory(elements() * 4)) {
    fill(bias_.get(), kOut, 0, 0.5F, stream);
    for (uint32_t set = 0; set < kSets; ++set) {
      inputs_.push_back(device_memory(static_cast<size_t>(rows) * kIn * 2));
      weights_.push_back(device_memory(static_cast<size_t>(kOut) * kIn * 2));
      outputs_.push_back(device_memory(elements() * 2));
      fill(inputs_.back().get(), static_cast<int64_t>(rows) * kIn, 2 * set + 1, 1, stream);
      fill(weights_.back().get(), int64_t{kOut} * kIn, 2 * set + 2, 1.F / 32, stream);
    }
    const auto with_silu = [&](const SiluProduct& work) {
      product_.launch(work, stream_);
      silu(Precision::bf16, work.y, rows_, kOut, {work.y, nullptr}, stream_);
    };
    SiluProduct first = work(0);
    first.y = present_.get();
    with_silu(first);
    first.y = sums_.get();
    CublasProduct(rows, true).launch(first, stream);
    first.y = first_variant_.get();
    variants().front().launch(first, stream);
    RTFX_CUDA(cudaStreamSynchronize(stream));
    alone_ = recorded([&](const SiluProduct& work) { product_.launch(work, stream_); });
    with_silu_ = recorded(with_silu);
  }

  const Recorded& alone() const { return *alone_; }
  const Recorded& with_silu() const { return *with_silu_; }
  std::unique_ptr<Recorded> fused(const Variant& variant) const {
    return recorded([&](const SiluProduct& work) { variant.launch(work, stream_); });
  }

  Differences differences(const Variant& variant) const {
    const int32_t few = rows_ < kFewRows ? rows_ : kFewRows;
    const auto fused = device_memory(elements() * 2);
    const auto few_rows = device_memory(static_cast<size_t>(few) * kOut * 2);
    const auto counts = device_memory(sizeof(Differences));
    SiluProduct of = work(0);
    of.y = fused.get();
    variant.launch(of, stream_);
    of.y = few_rows.get();
    of.rows = few;
    variant.launch(of, stream_);
    RTFX_CUDA(cudaMemsetAsync(counts.get(), 0, sizeof(Differences), stream_));
    compare({static_cast<const float*>(sums_.get()), bias_.get(), present_.get(), fused.get(),
             few_rows.get(), first_variant_.get(), rows_, kOut, few},
            static_cast<Differences*>(counts.get()), stream_);
    Differences found{};
    RTFX_CUDA(
        cudaMemcpyAsync(&found, counts.get(), sizeof(found), cudaMemcpyDeviceToHost, stream_));
    RTFX_CUDA(cudaStreamSynchronize(stream_));
    return found;
  }

  size_t elements() const { return static_cast<size_t>(rows_) * kOut; }

 private:
  SiluProduct work(size_t set) const {
    return {inputs_[set].get(),
            weights_[set].get(),
            bias_.get(),
            outputs_[set].get(),
            rows_,
            kIn,
            kOut};
  }
  std::unique_ptr<Recorded> recorded(const std::function<void(const SiluProduct&)>& launch) const {
    return std::make_unique<Recorded>(stream_, [&] {
      for (size_t i = 0; i < kLaunches; ++i) launch(work(i % kSets));
    });
  }

  int32_t rows_;
  cudaStream_t stream_;
  CublasProduct product_;
  std::shared_ptr<void> bias_, present_, first_variant_, sums_;
  std::vector<std::shared_ptr<void>> inputs_, weights_, outputs_;
  std::unique_ptr<Recorded> alone_, with_silu_;
};

void measure(benchmark::State& state, const Problem& problem, const Variant& variant) {
  const Differences found = problem.differences(variant);
  const auto counted = [&](const char* what, unsigned long long count) {
    if (count != 0) state.SkipWithError((std::to_string(count) + what).c_str());
    return count != 0;
  };
  if (counted(" elements are wrong", found.wrong)) return;
  if (counted(" elements are too far from the present path's", found.too_far)) return;
  if (counted(" elements of the first rows depend on the number of rows", found.few_differ)) return;
  if (counted(" elements have other bits than the encoder's", found.first_differ)) return;

  const std::unique_ptr<Recorded> recorded = problem.fused(variant);
  double alone = 0, with_silu = 0, fused = 0;
  recorded->seconds();
  for (auto _ : state) {
    const double before = fused;
    alone += problem.alone().seconds();
    with_silu += problem.with_silu().seconds();
    fused += recorded->seconds();
    fused += recorded->seconds();
    with_silu += problem.with_silu().seconds();
    alone += problem.alone().seconds();
    state.SetIterationTime(fused - before);
  }
  const double microseconds = 1e6 / (2.0 * kLaunches * static_cast<double>(state.iterations()));
  const auto elements = static_cast<double>(problem.elements());
  state.counters["cublas_us"] = alone * microseconds;
  state.counters["cublas_silu_us"] = with_silu * microseconds;
  state.counters["fused_us"] = fused * microseconds;
  state.counters["ratio"] = fused / with_silu;
  state.counters["tflops"] = 2 * elements * kIn / (fused * microseconds) * 1e-6;
  state.counters["differ"] = static_cast<double>(found.differ) / elements;
  state.counters["differ_more"] = static_cast<double>(found.differ_by_more_than_a_unit) / elements;
}

int run(int argc, char** argv) {
  // Options of the command line come later and count.
  std::vector<std::string> options = {argv[0], "--benchmark_repetitions=5",
                                      "--benchmark_counters_tabular=true"};
  options.insert(options.end(), argv + 1, argv + argc);
  std::vector<char*> arguments;
  for (std::string& option : options) arguments.push_back(option.data());
  int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 2;
  int devices = 0, major = 0, minor = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0) {
    RTFX_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    RTFX_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
  }
  if (major != 9 || minor != 0) {
    std::fputs("rtfx_bench_feed_forward: no GPU of compute capability 9.0, nothing to measure\n",
               stderr);
    return 1;
  }
  cudaStream_t stream = nullptr;
  RTFX_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::map<int32_t, std::unique_ptr<Problem>> problems;  // each is made when it is first measured
  for (const int32_t rows : kRows) {
    for (const Variant& variant : variants()) {
      if (rows < variant.fewest_rows || rows > variant.most_rows) continue;
      const std::string name = variant.name + "/" + std::to_string(rows) + "rows";
      benchmark::RegisterBenchmark(name.c_str(),
                                   [&problems, rows, variant, stream](benchmark::State& state) {
                                     try {
                                       std::unique_ptr<Problem>& problem = problems[rows];
                                       if (!problem)
                                         problem = std::make_unique<Problem>(rows, stream);
                                       measure(state, *problem, variant);
                                     } catch (const std::exception& e) {
                                       state.SkipWithError(e.what());
                                     }
                                   })
          ->Unit(benchmark::kMicrosecond)
          ->Iterations(kTurns)
          ->DisplayAggregatesOnly(true)
          ->UseManualTime();
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace rtfx::bench_feed_forward

int main(int argc, char** argv) {
  try {
    return rtfx::bench_feed_forward::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rtfx_bench_feed_forward: %s\n", e.what());
    return 1;
  }
}
