// Kernels of the fused encoder: convolution over time, norms, activation and attention, as they are
// and as they were before, on a GPU. Each benchmark first checks that both give the same bits,
// then times both by turns, so that a change of the clock meets both. Counters: microseconds of one
// launch now and before, and their ratio, now / before.
#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/gpu/check.h"
#include "benchmarks/encoder_rows_before.h"
#include "models/encoder/fused/kernels.h"

namespace rtfx::bench_rows {
namespace {

constexpr int32_t kWidth = 1024, kWide = 4 * kWidth;
constexpr int32_t kLaunches = 20;  // of a recorded graph
constexpr int32_t kTurns = 25;     // each of now, before, before, now

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count) : count_(count) {
    T* memory = nullptr;
    RTFX_CUDA(cudaMalloc(reinterpret_cast<void**>(&memory), count * sizeof(T)));
    memory_ = {memory, [](T* p) { cudaFree(p); }};
    RTFX_CUDA(cudaMemset(memory, 0, count * sizeof(T)));
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) { put(values); }

  T* data() const { return memory_.get(); }
  void put(const std::vector<T>& values) const {
    RTFX_CUDA(cudaMemcpy(data(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  std::vector<T> values() const {
    std::vector<T> values(count_);
    RTFX_CUDA(cudaMemcpy(values.data(), data(), count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  size_t count_;
  std::shared_ptr<T> memory_;
};

/// Elements of 16 bits.
using Elements = DeviceArray<uint16_t>;

std::vector<float> random_floats(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<uint16_t> random_elements(Precision precision, size_t count, unsigned seed) {
  std::vector<uint16_t> elements;
  elements.reserve(count);
  // A million numbers suffice; what follows repeats them.
  const std::vector<float> values = random_floats(std::min<size_t>(count, 1000003), seed);
  for (size_t i = 0; i < count; ++i) {
    const float value = values[i % values.size()];
    const auto bits = precision == Precision::bf16
                          ? std::bit_cast<uint16_t>(from_float<__nv_bfloat16>(value))
                          : std::bit_cast<uint16_t>(from_float<__half>(value));
    elements.push_back(bits);
  }
  return elements;
}

/// Two kernels for the same work.
struct Pair {
  std::function<void(cudaStream_t)> now, before;
  std::function<void()> reset;                  // of what they change in place; may be empty
  std::function<std::vector<uint16_t>()> bits;  // of all that they write
};

/// Utterances of 40 to 126 frames, 83 on average, as in a batch of LibriSpeech.
struct Layout {
  std::vector<int32_t> offsets, lengths;
  int32_t rows = 0;

  explicit Layout(int32_t all_rows) {
    for (int32_t i = 0; rows < all_rows; ++i) add(std::min(40 + i * 37 % 87, all_rows - rows));
  }
  Layout(int32_t utterances, int32_t frames) {
    for (int32_t i = 0; i < utterances; ++i) add(frames);
  }

 private:
  void add(int32_t length) {
    offsets.push_back(rows);
    lengths.push_back(length);
    rows += length;
  }
};

Pair convolution(Precision precision, const Layout& layout, int32_t kernel, bool normed,
                 bool streams, int32_t run) {
  const auto utterances = static_cast<int32_t>(layout.lengths.size());
  const int32_t longest = *std::max_element(layout.lengths.begin(), layout.lengths.end());
  const auto wide = static_cast<size_t>(layout.rows) * kWidth;
  const auto offsets = std::make_shared<DeviceArray<int32_t>>(layout.offsets);
  const auto lengths = std::make_shared<DeviceArray<int32_t>>(layout.lengths);
  const auto gates = std::make_shared<Elements>(random_elements(precision, 2 * wide, 1));
  const auto norm = std::make_shared<Elements>(random_elements(precision, kWidth, 2));
  const auto weight =
      std::make_shared<DeviceArray<float>>(random_floats(static_cast<size_t>(kernel) * kWidth, 3));
  const auto bias = std::make_shared<DeviceArray<float>>(random_floats(kWidth, 4));
  const auto output = std::make_shared<Elements>(wide);
  const size_t kept =
      streams ? static_cast<size_t>(utterances) * static_cast<size_t>(kernel - 1 + longest) * kWidth
              : 1;
  const std::vector<uint16_t> first_ring = random_elements(precision, kept, 5);
  const auto ring = std::make_shared<Elements>(first_ring);
  std::vector<int64_t> slots, encoded;
  for (int32_t i = 0; i < utterances; ++i) slots.push_back(i), encoded.push_back(11 * i);
  const auto slot_array = std::make_shared<DeviceArray<int64_t>>(slots);
  const auto encoded_array = std::make_shared<DeviceArray<int64_t>>(encoded);
  const LayerRings rings{nullptr,    ring->data(), slot_array->data(), encoded_array->data(), 0,
                         kernel - 1, longest};
  const auto launch = [=](cudaStream_t stream, bool old) {
    NormWeights norms{};
    if (normed) norms = {norm->data(), norm->data()};
    const int32_t left = streams ? kernel - 1 : (kernel - 1) / 2;
    const TimeConvolution in{gates->data(),
                             weight->data(),
                             bias->data(),
                             norms,
                             output->data(),
                             kWidth,
                             kernel,
                             left,
                             streams ? &rings : nullptr,
                             run};
    const RowLayout rows{offsets->data(), lengths->data(), utterances, longest};
    (old ? before::convolve_time : rtfx::convolve_time)(precision, in, rows, stream);
  };
  return {[=](cudaStream_t stream) { launch(stream, false); },
          [=](cudaStream_t stream) { launch(stream, true); },
          [=] {
            ring->put(first_ring);
            RTFX_CUDA(cudaMemset(output->data(), 0xff, wide * sizeof(uint16_t)));
          },
          [=] {
            std::vector<uint16_t> all = output->values();
            const std::vector<uint16_t> in_ring = ring->values();
            all.insert(all.end(), in_ring.begin(), in_ring.end());
            return all;
          }};
}

enum class Rows { norm, norm_fp8, norms, norms_fp8, silu, silu_fp8 };

Pair rows_of(Rows kind, Precision precision, int32_t rows) {
  const bool eight_bits =
      kind == Rows::norm_fp8 || kind == Rows::norms_fp8 || kind == Rows::silu_fp8;
  const bool silu = kind == Rows::silu || kind == Rows::silu_fp8;
  const bool twice = kind == Rows::norms || kind == Rows::norms_fp8;
  const int32_t width = silu ? kWide : kWidth;
  const size_t count = static_cast<size_t>(rows) * static_cast<size_t>(width);
  const std::vector<uint16_t> first_x = random_elements(precision, count, 1);
  const auto x = std::make_shared<Elements>(first_x);
  const auto norm = std::make_shared<Elements>(random_elements(precision, kWidth, 2));
  const auto bias = std::make_shared<Elements>(random_elements(precision, kWidth, 3));
  const auto y = std::make_shared<Elements>(count);
  const auto scales = std::make_shared<DeviceArray<float>>(static_cast<size_t>(rows));
  const auto launch = [=](cudaStream_t stream, bool old) {
    const NormWeights weights{norm->data(), bias->data()};
    const ProductInput to{y->data(), eight_bits ? scales->data() : nullptr};
    if (silu) {
      (old ? before::silu : rtfx::silu)(precision, x->data(), rows, width, to, stream);
    } else if (twice) {
      (old ? before::layer_norms : rtfx::layer_norms)(precision, x->data(), rows, width, weights,
                                                      weights, to, stream);
    } else {
      (old ? before::layer_norm : rtfx::layer_norm)(precision, x->data(), rows, width, weights, to,
                                                    stream);
    }
  };
  return {[=](cudaStream_t stream) { launch(stream, false); },
          [=](cudaStream_t stream) { launch(stream, true); },
          [=] {
            x->put(first_x);
            RTFX_CUDA(cudaMemset(y->data(), 0xff, count * sizeof(uint16_t)));
            RTFX_CUDA(cudaMemset(scales->data(), 0xff, static_cast<size_t>(rows) * sizeof(float)));
          },
          [=] {
            std::vector<uint16_t> all = y->values();
            for (const uint16_t bits : x->values()) all.push_back(bits);
            for (const float scale : scales->values()) {
              const uint32_t bits = std::bit_cast<uint32_t>(scale);
              all.push_back(static_cast<uint16_t>(bits >> 16));
              all.push_back(static_cast<uint16_t>(bits));
            }
            return all;
          }};
}

/// 8 heads, all frames of an utterance. In streams a step sees `past` frames before it.
Pair attention(Precision precision, const Layout& layout, int32_t past) {
  constexpr int32_t kHeads = 8, kReach = 256;
  const auto utterances = static_cast<int32_t>(layout.lengths.size());
  const int32_t longest = *std::max_element(layout.lengths.begin(), layout.lengths.end());
  const auto wide = static_cast<size_t>(layout.rows) * kWidth;
  const auto offsets = std::make_shared<DeviceArray<int32_t>>(layout.offsets);
  const auto lengths = std::make_shared<DeviceArray<int32_t>>(layout.lengths);
  const auto qkv = std::make_shared<Elements>(random_elements(precision, 3 * wide, 1));
  const auto positions =
      std::make_shared<Elements>(random_elements(precision, (2 * kReach - 1) * kWidth, 2));
  const auto u = std::make_shared<Elements>(random_elements(precision, kWidth, 3));
  const auto v = std::make_shared<Elements>(random_elements(precision, kWidth, 4));
  const auto output = std::make_shared<Elements>(wide);
  const size_t kept = static_cast<size_t>(utterances) * static_cast<size_t>(past + longest) * 2;
  const auto ring =
      std::make_shared<Elements>(random_elements(precision, past > 0 ? kept * kWidth : 1, 5));
  std::vector<int64_t> slots, encoded;
  for (int32_t i = 0; i < utterances; ++i) slots.push_back(i), encoded.push_back(11 * i);
  const auto slot_array = std::make_shared<DeviceArray<int64_t>>(slots);
  const auto encoded_array = std::make_shared<DeviceArray<int64_t>>(encoded);
  const LayerRings rings{ring->data(), nullptr, slot_array->data(), encoded_array->data(), past, 0,
                         longest};
  const auto launch = [=](cudaStream_t stream, bool old) {
    const RelativeAttentionInput in{qkv->data(),
                                    positions->data(),
                                    u->data(),
                                    v->data(),
                                    output->data(),
                                    kWidth,
                                    kHeads,
                                    kReach,
                                    -1,
                                    -1,
                                    1,
                                    past > 0 ? &rings : nullptr};
    const RowLayout rows{offsets->data(), lengths->data(), utterances, longest};
    (old ? before::attend : rtfx::attend)(precision, in, rows, stream);
  };
  return {[=](cudaStream_t stream) { launch(stream, false); },
          [=](cudaStream_t stream) { launch(stream, true); },
          [=] { RTFX_CUDA(cudaMemset(output->data(), 0xff, wide * sizeof(uint16_t))); },
          [=] { return output->values(); }};
}

/// kLaunches of a kernel in a recorded graph, which spares the gaps between launches.
class Graph {
 public:
  explicit Graph(const std::function<void(cudaStream_t)>& launch) {
    RTFX_CUDA(cudaStreamCreate(&stream_));
    RTFX_CUDA(cudaEventCreate(&start_));
    RTFX_CUDA(cudaEventCreate(&stop_));
    RTFX_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal));
    for (int32_t i = 0; i < kLaunches; ++i) launch(stream_);
    cudaGraph_t graph = nullptr;
    RTFX_CUDA(cudaStreamEndCapture(stream_, &graph));
    RTFX_CUDA(cudaGraphInstantiate(&graph_, graph, 0));
    cudaGraphDestroy(graph);
  }
  ~Graph() {
    cudaGraphExecDestroy(graph_);
    cudaEventDestroy(start_);
    cudaEventDestroy(stop_);
    cudaStreamDestroy(stream_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Returns the seconds of one launch, and waits for its end.
  double seconds() const {
    RTFX_CUDA(cudaEventRecord(start_, stream_));
    RTFX_CUDA(cudaGraphLaunch(graph_, stream_));
    RTFX_CUDA(cudaEventRecord(stop_, stream_));
    RTFX_CUDA(cudaEventSynchronize(stop_));
    float milliseconds = 0;
    RTFX_CUDA(cudaEventElapsedTime(&milliseconds, start_, stop_));
    return milliseconds / 1e3 / kLaunches;
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
};

std::vector<uint16_t> bits_of(const Pair& pair, const std::function<void(cudaStream_t)>& launch) {
  pair.reset();
  RTFX_CUDA(cudaDeviceSynchronize());
  launch(nullptr);
  RTFX_CUDA(cudaDeviceSynchronize());
  return pair.bits();
}

void compare(benchmark::State& state, const Pair& pair) {
  const std::vector<uint16_t> expected = bits_of(pair, pair.before);
  const std::vector<uint16_t> found = bits_of(pair, pair.now);
  size_t different = 0;
  for (size_t i = 0; i < found.size(); ++i) different += found[i] != expected[i] ? 1 : 0;
  state.counters["different"] = static_cast<double>(different);
  if (different > 0) {
    const std::string message = std::to_string(different) + " of " + std::to_string(found.size()) +
                                " 16-bit words differ from those before";
    state.SkipWithError(message.c_str());
    return;
  }
  const Graph now(pair.now), before(pair.before);
  now.seconds(), before.seconds();
  double of_now = 0, of_before = 0;
  for (auto _ : state) {
    const double start = of_now;
    of_now += now.seconds();
    of_before += before.seconds();
    of_before += before.seconds();
    of_now += now.seconds();
    state.SetIterationTime((of_now - start) / 2);
  }
  const double turns = 2.0 * static_cast<double>(state.iterations());
  state.counters["now_us"] = of_now * 1e6 / turns;
  state.counters["before_us"] = of_before * 1e6 / turns;
  state.counters["ratio"] = of_now / of_before;
}

/// make() allocates the arrays of a benchmark, when it runs.
void add(const std::string& name, const std::function<Pair()>& make) {
  benchmark::RegisterBenchmark(name.c_str(), [make](benchmark::State& s) { compare(s, make()); })
      ->Unit(benchmark::kMicrosecond)
      ->Iterations(kTurns)
      ->UseManualTime();
}

void add_all() {
  for (const int32_t rows : {1250, 5300, 10600}) {
    const std::string size = "/rows:" + std::to_string(rows);
    for (const int32_t run : {0, 8, 16, 24, 32}) {
      const std::string name = size + "/run:" + std::to_string(run);
      for (const bool normed : {false, true}) {
        add((normed ? "convolve_norm/kernel:9" : "convolve/kernel:9") + name,
            [=] { return convolution(Precision::bf16, Layout(rows), 9, normed, false, run); });
      }
    }
    add("attend" + size, [=] { return attention(Precision::bf16, Layout(rows), 0); });
    for (const auto& [name, kind] :
         {std::pair{"norm", Rows::norm}, std::pair{"norm_fp8", Rows::norm_fp8},
          std::pair{"norms", Rows::norms}, std::pair{"norms_fp8", Rows::norms_fp8},
          std::pair{"silu", Rows::silu}, std::pair{"silu_fp8", Rows::silu_fp8}}) {
      add(name + size, [=, kind = kind] { return rows_of(kind, Precision::bf16, rows); });
    }
  }
  for (const bool normed : {false, true}) {
    const std::string name = normed ? "convolve_norm" : "convolve";
    add(name + "/kernel:31/rows:5300",
        [=] { return convolution(Precision::bf16, Layout(5300), 31, normed, false, 0); });
    add(name + "/kernel:9/rows:5300/fp16",
        [=] { return convolution(Precision::fp16, Layout(5300), 9, normed, false, 0); });
    for (const int32_t streams : {8, 256}) {
      add(name + "/kernel:9/streams:" + std::to_string(streams) + "/frames:14",
          [=] { return convolution(Precision::bf16, Layout(streams, 14), 9, normed, true, 0); });
    }
  }
  for (const int32_t streams : {8, 256}) {
    add("attend/streams:" + std::to_string(streams) + "/frames:14",
        [=] { return attention(Precision::bf16, Layout(streams, 14), 56); });
  }
  add("norms/rows:5300/fp16", [] { return rows_of(Rows::norms, Precision::fp16, 5300); });
  add("silu/rows:5300/fp16", [] { return rows_of(Rows::silu, Precision::fp16, 5300); });
}

int run(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::fputs("rtfx_bench_encoder_rows: no GPU, nothing to measure\n", stderr);
    return 1;
  }
  add_all();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace rtfx::bench_rows

int main(int argc, char** argv) {
  try {
    return rtfx::bench_rows::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rtfx_bench_encoder_rows: %s\n", e.what());
    return 1;
  }
}
