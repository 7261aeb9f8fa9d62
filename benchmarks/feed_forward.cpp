// The first product of a feed-forward layer with its SiLU, in three forms: cuBLASLt's product
// alone, the encoder's SiLU kernel behind it, and one kernel of CUTLASS. That kernel is timed in
// several schedules, tiles and clusters, whose bits must be equal. It needs a GPU of compute
// capability 9.0.
//
// Each benchmark times all three forms alternately, so that a change of the clock affects all. Its
// counters are the microseconds of one product and the ratio fused / (cublas + silu). It first
// checks the results (feed_forward_kernels.h says how), and fails where they are wrong. Times are
// those of recorded graphs, since the encoder runs as recorded graphs, too.
//
// The benchmarks few_rows/ time the encoder's other products of few rows: cuBLASLt's and those of
// CUTLASS. A product that is added to the frames is also timed together with the norm that follows.
// Their results are tested in tests/gpu/linear_gpu_test.cpp.
#include <benchmark/benchmark.h>
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <iterator>
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
constexpr int32_t kSets = 4;      // inputs and outputs that take turns, like those of layers
constexpr int32_t kLaunches = 16;
constexpr size_t kWeightBytes = 128
                                << 20;  // of weights that take turns: more than the L2 cache has
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

/// Records the work that `work` enqueues, and replays it.
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

struct Shape {
  int32_t in, out;
};

/// cuBLASLt's product with the algorithm that it thinks fastest, called as in linear.cpp. The
/// result is bf16 with bias, or the same added to the present values, or float32 sums without bias.
class CublasProduct {
 public:
  enum class Result { replace, add, sums };

  CublasProduct(const Shape& shape, int32_t rows, Result result) : result_(result) {
    const auto in = static_cast<uint64_t>(shape.in), out = static_cast<uint64_t>(shape.out);
    const bool sums = result == Result::sums;
    const cudaDataType_t output = sums ? CUDA_R_32F : CUDA_R_16BF;
    RTFX_CUBLAS(cublasLtCreate(&handle_));
    RTFX_CUBLAS(cublasLtMatmulDescInit(&description_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    if (!sums) set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    RTFX_CUBLAS(cublasLtMatrixLayoutInit(&weight_, CUDA_R_16BF, in, out, shape.in));
    RTFX_CUBLAS(
        cublasLtMatrixLayoutInit(&input_, CUDA_R_16BF, in, static_cast<uint64_t>(rows), shape.in));
    RTFX_CUBLAS(
        cublasLtMatrixLayoutInit(&output_, output, out, static_cast<uint64_t>(rows), shape.out));
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

  void launch(const Product& work, cudaStream_t stream) {
    if (result_ != Result::sums) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, work.bias);
    const float one = 1, beta = result_ == Result::add ? 1 : 0;
    RTFX_CUBLAS(cublasLtMatmul(handle_, &description_, &one, work.weight, &weight_, work.x, &input_,
                               &beta, work.y, &output_, work.y, &output_, &algorithm_.algo,
                               workspace_.get(), kWorkspace, stream));
  }

 private:
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    RTFX_CUBLAS(cublasLtMatmulDescSetAttribute(&description_, attribute, &value, sizeof(value)));
  }

  Result result_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDescOpaque_t description_;
  cublasLtMatrixLayoutOpaque_t weight_, input_, output_;
  cublasLtMatmulHeuristicResult_t algorithm_;
  std::shared_ptr<void> workspace_;
};

/// Returns random weights that take turns.
std::vector<std::shared_ptr<void>> weights_of(const Shape& shape, cudaStream_t stream) {
  const int64_t elements = int64_t{shape.in} * shape.out;
  std::vector<std::shared_ptr<void>> weights(kWeightBytes / 2 / static_cast<size_t>(elements));
  uint32_t seed = 0;
  for (std::shared_ptr<void>& one : weights) {
    one = device_memory(static_cast<size_t>(elements) * 2);
    fill(one.get(), elements, seed += 2, 1 / std::sqrt(static_cast<float>(shape.in)), stream);
  }
  return weights;
}

/// Inputs and outputs of `rows` rows, and the recorded products of cuBLASLt.
class Problem {
 public:
  Problem(int32_t rows, cudaStream_t stream)
      : rows_(rows),
        stream_(stream),
        product_({kIn, kOut}, rows, CublasProduct::Result::replace),
        bias_(device_memory(2 * kOut)),
        present_(device_memory(elements() * 2)),
        first_variant_(device_memory(elements() * 2)),
        sums_(device_memory(elements() * 4)) {
    fill(bias_.get(), kOut, 0, 0.5F, stream);
    for (uint32_t set = 0; set < kSets; ++set) {
      inputs_.push_back(device_memory(static_cast<size_t>(rows) * kIn * 2));
      outputs_.push_back(device_memory(elements() * 2));
      fill(inputs_.back().get(), static_cast<int64_t>(rows) * kIn, 2 * set + 1, 1, stream);
    }
    weights_ = weights_of({kIn, kOut}, stream);
    const auto with_silu = [&](const Product& work) {
      product_.launch(work, stream_);
      silu(Precision::bf16, work.y, rows_, kOut, {work.y, nullptr}, stream_);
    };
    Product first = work(0);
    first.y = present_.get();
    with_silu(first);
    first.y = sums_.get();
    CublasProduct({kIn, kOut}, rows, CublasProduct::Result::sums).launch(first, stream);
    first.y = first_variant_.get();
    variants().front().launch(first, stream);
    RTFX_CUDA(cudaStreamSynchronize(stream));
    alone_ = recorded([&](const Product& work) { product_.launch(work, stream_); });
    with_silu_ = recorded(with_silu);
  }

  const Recorded& alone() const { return *alone_; }
  const Recorded& with_silu() const { return *with_silu_; }
  std::unique_ptr<Recorded> fused(const Variant& variant) const {
    return recorded([&](const Product& work) { variant.launch(work, stream_); });
  }

  Differences differences(const Variant& variant) const {
    const int32_t few = rows_ < kFewRows ? rows_ : kFewRows;
    const auto fused = device_memory(elements() * 2);
    const auto few_rows = device_memory(static_cast<size_t>(few) * kOut * 2);
    const auto counts = device_memory(sizeof(Differences));
    Product of = work(0);
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
  Product work(size_t launch) const {
    return {inputs_[launch % kSets].get(),
            weights_[launch % weights_.size()].get(),
            bias_.get(),
            outputs_[launch % kSets].get(),
            rows_,
            kIn,
            kOut};
  }
  std::unique_ptr<Recorded> recorded(const std::function<void(const Product&)>& launch) const {
    return std::make_unique<Recorded>(stream_, [&] {
      for (size_t i = 0; i < kLaunches; ++i) launch(work(i));
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

/// A product of the encoder that has few rows.
struct FewRowsProduct {
  const char* name;
  Shape shape;
  bool add;  // the result is added to the frames, and a norm follows
};
constexpr FewRowsProduct kFewRowsProducts[] = {{"feed_forward_second", {4096, 1024}, true},
                                               {"attention_out_or_pointwise2", {1024, 1024}, true},
                                               {"qkv", {1024, 3072}, false},
                                               {"pointwise1", {1024, 2048}, false}};

void measure_few_rows(benchmark::State& state, const FewRowsProduct& product, int32_t rows,
                      cudaStream_t stream) {
  const auto [in, out] = product.shape;
  const size_t outputs = static_cast<size_t>(rows) * static_cast<size_t>(out);
  const auto weights = weights_of(product.shape, stream);
  const auto x = device_memory(2 * static_cast<size_t>(rows) * static_cast<size_t>(in)),
             y = device_memory(2 * outputs), normed = device_memory(2 * outputs),
             sums = device_memory(4 * kParts * outputs),
             bias = device_memory(2 * static_cast<size_t>(out));
  fill(x.get(), int64_t{rows} * in, 1, 1, stream);
  fill(y.get(), int64_t{rows} * out, 3, 1, stream);
  fill(bias.get(), out, 5, 0.5F, stream);
  using Result = CublasProduct::Result;
  CublasProduct cublas(product.shape, rows, product.add ? Result::add : Result::replace);
  const NormWeights norm{bias.get(), bias.get()};
  const auto recorded = [&](const std::function<void(const Product&)>& launch) {
    Product of{x.get(), nullptr, bias.get(), y.get(), rows, in, out};
    const auto each = [&] {
      for (const std::shared_ptr<void>& weight : weights) {
        of.weight = weight.get();
        launch(of);
      }
    };
    each();  // at their first call, libraries do work that a recording does not allow
    RTFX_CUDA(cudaStreamSynchronize(stream));
    return Recorded(stream, each);
  };
  const auto by_cublas = [&](const Product& of) { cublas.launch(of, stream); };
  const auto by_cutlass = [&](Product of) {
    if (!product.add) return few_rows_product(Precision::bf16, of, stream);
    of.bias = nullptr;
    of.y = sums.get();
    product_parts(Precision::bf16, of, stream);
  };
  const Recorded cublas_alone = recorded(by_cublas), cutlass_alone = recorded(by_cutlass);
  // These include the norm, too, if the product is added to the frames.
  const Recorded with_cublas = recorded([&](const Product& of) {
    by_cublas(of);
    if (product.add)
      layer_norm(Precision::bf16, y.get(), rows, out, norm, {normed.get(), nullptr}, stream);
  });
  const Recorded with_cutlass = recorded([&](const Product& of) {
    by_cutlass(of);
    if (product.add) {
      add_norm(Precision::bf16, y.get(), rows, out,
               {static_cast<const float*>(sums.get()), bias.get()}, norm, normed.get(), stream);
    }
  });
  const Recorded* const all[] = {&cublas_alone, &cutlass_alone, &with_cublas, &with_cutlass};
  double seconds[std::size(all)] = {};
  for (const Recorded* one : all) one->seconds();
  for (auto _ : state) {
    const double before = seconds[3];
    for (size_t i = 0; i < std::size(all); ++i) seconds[i] += all[i]->seconds();
    for (size_t i = std::size(all); i-- > 0;) seconds[i] += all[i]->seconds();
    state.SetIterationTime(seconds[3] - before);
  }
  const double microseconds =
      1e6 / (2.0 * static_cast<double>(weights.size()) * static_cast<double>(state.iterations()));
  state.counters["cublas_us"] = seconds[0] * microseconds;
  state.counters["cutlass_us"] = seconds[1] * microseconds;
  if (product.add) {
    state.counters["cublas_norm_us"] = seconds[2] * microseconds;
    state.counters["cutlass_norm_us"] = seconds[3] * microseconds;
  }
  state.counters["ratio"] = seconds[3] / seconds[2];
}

void add_benchmark(const std::string& name, const std::function<void(benchmark::State&)>& body) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [body](benchmark::State& state) {
                                 try {
                                   body(state);
                                 } catch (const std::exception& e) {
                                   state.SkipWithError(e.what());
                                 }
                               })
      ->Unit(benchmark::kMicrosecond)
      ->Iterations(kTurns)
      ->DisplayAggregatesOnly(true)
      ->UseManualTime();
}

int run(int argc, char** argv) {
  // Options of the command line come later, so they win.
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
      add_benchmark(name, [&problems, rows, variant, stream](benchmark::State& state) {
        std::unique_ptr<Problem>& problem = problems[rows];
        if (!problem) problem = std::make_unique<Problem>(rows, stream);
        measure(state, *problem, variant);
      });
    }
  }
  for (const FewRowsProduct& product : kFewRowsProducts) {
    for (const int32_t rows : {16, 64, 128}) {
      const std::string name =
          std::string("few_rows/") + product.name + "/" + std::to_string(rows) + "rows";
      add_benchmark(name, [&product, rows, stream](benchmark::State& state) {
        measure_few_rows(state, product, rows, stream);
      });
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
