// Each kernel of the fused encoder starts while the previous kernel runs. It must wait before it
// reads what the previous one writes, and before it overwrites what the previous one reads.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/checkpoint/precision_of.h"
#include "models/checkpoint/tensor_data.h"
#include "models/encoder/fused/kernels.h"
#include "tests/support/late_copy.h"

namespace rtfx {
namespace {

constexpr int64_t kRows = 103;
constexpr int32_t kLongest = 70;

class DependentLaunches : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
    torch_guard_.emplace();
    stream_guard_.emplace(c10::cuda::getStreamFromPool());
    at::manual_seed(17);
    offsets_ = on_gpu(at::tensor(std::vector<int32_t>{0, 70, 70}));
    lengths_ = on_gpu(at::tensor(std::vector<int32_t>{70, 0, 33}));
  }

  static at::Tensor on_gpu(const at::Tensor& tensor) { return tensor.to(at::Device(at::kCUDA, 0)); }
  static at::Tensor floats(at::IntArrayRef sizes) { return on_gpu(at::randn(sizes)); }
  static at::Tensor longs(const std::vector<int64_t>& values) { return on_gpu(at::tensor(values)); }
  at::Tensor random(at::IntArrayRef sizes) const { return on_gpu(at::randn(sizes).to(GetParam())); }
  at::Tensor zeros(at::IntArrayRef sizes) const {
    return on_gpu(at::zeros(sizes, at::TensorOptions(GetParam())));
  }
  Precision precision() const { return half_precision_of(GetParam(), "a test"); }
  static cudaStream_t stream() { return c10::cuda::getCurrentCUDAStream().stream(); }
  RowLayout layout() const {
    return {data_of<int32_t>(offsets_), data_of<int32_t>(lengths_), 3, kLongest};
  }

  /// Runs `call` after a slow copy, either launched or recorded.
  static void run_late(const at::Tensor& from, const at::Tensor& to, bool recorded,
                       const std::function<void()>& call) {
    const auto work = [&] {
      test::late_copy(from.const_data_ptr(), to.mutable_data_ptr(),
                      static_cast<int64_t>(from.nbytes()), stream());
      call();
    };
    if (!recorded) return work();
    at::cuda::CUDAGraph graph;
    graph.capture_begin();
    work();
    graph.capture_end();
    graph.replay();
    c10::cuda::getCurrentCUDAStream().synchronize();
  }

  /// Expects that `call` waits before it reads `input` and before it writes `output`. Both may be
  /// the same tensor.
  static void expect_waits(const std::string& name, const at::Tensor& input,
                           const at::Tensor& output, const std::function<void()>& call) {
    const bool in_place = output.is_same(input);
    if (!in_place) output.zero_();
    const at::Tensor given = input.clone();
    call();
    const at::Tensor expected = output.clone();
    input.zero_();
    call();
    ASSERT_FALSE(output.equal(expected)) << name << " gives the same for zeros";
    for (const bool recorded : {false, true}) {
      input.zero_();
      run_late(given, input, recorded, call);
      EXPECT_TRUE(output.equal(expected)) << name << " reads too early, recorded: " << recorded;
      if (in_place) continue;
      const at::Tensor kept = at::ones_like(output);
      input.copy_(given);
      output.zero_();
      run_late(output, kept, recorded, call);
      EXPECT_TRUE(kept.equal(at::zeros_like(kept)))
          << name << " writes too early, recorded: " << recorded;
    }
  }

  at::Tensor offsets_, lengths_;

 private:
  std::optional<c10::InferenceMode> torch_guard_;
  std::optional<c10::cuda::CUDAStreamGuard> stream_guard_;
};

TEST_P(DependentLaunches, Rows) {
  constexpr int32_t kWidth = 1024;
  const at::Tensor x = random({kRows, kWidth}), y = zeros({kRows, kWidth}),
                   weight = random({kWidth});
  const NormWeights norm{weight.const_data_ptr(), weight.const_data_ptr()};
  const ProductInput product{y.mutable_data_ptr(), nullptr};
  expect_waits("layer_norm", x, y, [&] {
    layer_norm(precision(), x.const_data_ptr(), kRows, kWidth, norm, product, stream());
  });
  expect_waits("layer_norms", x, y, [&] {
    layer_norms(precision(), x.mutable_data_ptr(), kRows, kWidth, norm, norm, product, stream());
  });
  expect_waits("silu", x, y,
               [&] { silu(precision(), x.const_data_ptr(), kRows, kWidth, product, stream()); });
  const at::Tensor bytes = zeros({kRows, kWidth}).to(at::kByte), scales = floats({kRows});
  expect_waits("silu in 8 bits", x, bytes, [&] {
    silu(precision(), x.const_data_ptr(), kRows, kWidth,
         {bytes.mutable_data_ptr(), scales.mutable_data_ptr<float>()}, stream());
  });
  const at::Tensor padded = random({3, kLongest, kWidth});
  expect_waits("layer_norm_padded", x, padded, [&] {
    layer_norm_padded(precision(), x.const_data_ptr(), kWidth, norm, layout(),
                      padded.mutable_data_ptr(), stream());
  });
  const at::Tensor sums = floats({kParts, kRows, kWidth}), rows = x.clone();
  const ProductParts parts{data_of<float>(sums), weight.const_data_ptr()};
  expect_waits("add_norm", rows, rows, [&] {
    add_norm(precision(), rows.mutable_data_ptr(), kRows, kWidth, parts, norm, y.mutable_data_ptr(),
             stream());
  });
  expect_waits("add_norms", rows, rows, [&] {
    add_norms(precision(), rows.mutable_data_ptr(), kRows, kWidth, parts, norm, norm,
              y.mutable_data_ptr(), stream());
  });
  expect_waits("add_norm_padded", sums, padded, [&] {
    add_norm_padded(precision(), x.const_data_ptr(), kRows, kWidth, parts, norm, layout(),
                    padded.mutable_data_ptr(), stream());
  });
  expect_waits("pack_rows", padded, y, [&] {
    pack_rows(precision(), padded.const_data_ptr(), kLongest, kWidth, layout(),
              y.mutable_data_ptr(), stream());
  });
}

TEST_P(DependentLaunches, SiluProduct) {
  if (const auto* const gpu = at::cuda::getCurrentDeviceProperties();
      gpu->major != 9 || gpu->minor != 0)
    GTEST_SKIP() << "the product wants compute capability 9.0";
  for (const int32_t rows : {16, 103, 500, 900}) {  // covers each of its kernels
    const at::Tensor x = random({rows, 256}), weight = random({512, 256}), bias = random({512}),
                     y = zeros({rows, 512});
    expect_waits("silu_product of " + std::to_string(rows), x, y, [&] {
      silu_product(precision(),
                   {x.const_data_ptr(), weight.const_data_ptr(), bias.const_data_ptr(),
                    y.mutable_data_ptr(), rows, 256, 512},
                   stream());
    });
  }
}

TEST_P(DependentLaunches, ProductsOfFewRows) {
  if (const auto* const gpu = at::cuda::getCurrentDeviceProperties();
      gpu->major != 9 || gpu->minor != 0)
    GTEST_SKIP() << "the product wants compute capability 9.0";
  for (const int32_t rows : {16, 103}) {  // covers each of its kernels
    const at::Tensor x = random({rows, 256}), weight = random({512, 256}),
                     y = floats({kParts, rows, 512}), z = zeros({rows, 512});
    expect_waits("product_parts of " + std::to_string(rows), x, y, [&] {
      product_parts(precision(),
                    {x.const_data_ptr(), weight.const_data_ptr(), nullptr, y.mutable_data_ptr(),
                     rows, 256, 512},
                    stream());
    });
    expect_waits("few_rows_product of " + std::to_string(rows), x, z, [&] {
      few_rows_product(precision(),
                       {x.const_data_ptr(), weight.const_data_ptr(), weight.const_data_ptr(),
                        z.mutable_data_ptr(), rows, 256, 512},
                       stream());
    });
  }
}

TEST_P(DependentLaunches, Attention) {
  constexpr int32_t kWidth = 256, kAttended = 50;
  const at::Tensor qkv = random({kRows, 3 * kWidth}), positions = random({255, kWidth}),
                   bias = random({kWidth}), y = zeros({kRows, kWidth}),
                   ring = zeros({3, kAttended + kLongest, 2 * kWidth}), slots = longs({2, 1, 0}),
                   encoded = longs({9, 0, 50});
  const LayerRings rings{ring.mutable_data_ptr(),
                         nullptr,
                         data_of<int64_t>(slots),
                         data_of<int64_t>(encoded),
                         kAttended,
                         0,
                         kLongest};
  expect_waits("keep_keys", qkv, ring,
               [&] { keep_keys(qkv.const_data_ptr(), kWidth, rings, layout(), stream()); });
  for (const LayerRings* const of : {static_cast<const LayerRings*>(nullptr), &rings}) {
    const at::Tensor& input = of == nullptr ? qkv : ring;
    expect_waits(of == nullptr ? "attend" : "attend in streams", input, y, [&] {
      attend(precision(),
             {qkv.const_data_ptr(), positions.const_data_ptr(), bias.const_data_ptr(),
              bias.const_data_ptr(), y.mutable_data_ptr(), kWidth, 2, 128, -1, -1, 0, of},
             layout(), stream());
    });
  }
}

TEST_P(DependentLaunches, Convolutions) {
  constexpr int32_t kWidth = 256, kMel = 80, kChannels = 16;
  const at::Tensor gates = random({kRows, 2 * kWidth}), bias = floats({kWidth}),
                   norm = random({kWidth}), y = zeros({kRows, kWidth});
  for (const int32_t kernel : {9, 15}) {
    for (const bool normed : {false, true}) {
      const at::Tensor weight = floats({kernel, kWidth});
      NormWeights of{};
      if (normed) of = {norm.const_data_ptr(), norm.const_data_ptr()};
      expect_waits("convolve_time " + std::to_string(kernel), gates, y, [&] {
        convolve_time(precision(),
                      {gates.const_data_ptr(), data_of<float>(weight), data_of<float>(bias), of,
                       y.mutable_data_ptr(), kWidth, kernel, kernel / 2, nullptr},
                      layout(), stream());
      });
    }
  }

  const at::Tensor of = longs({128, 51}), plan = on_gpu(at::zeros({5, 2}, at::kInt)),
                   counts = longs({0, 0}), features = floats({2, kMel, 128}),
                   weight = floats({9, kChannels}), first = zeros({64, kMel / 4, kChannels}),
                   strided = zeros({32, kMel / 8, kChannels});
  auto* const levels = plan.mutable_data_ptr<int32_t>();
  int32_t* const offsets = levels + 8;
  expect_waits("plan_layout", of, plan, [&] {
    plan_layout({data_of<int64_t>(of), nullptr, levels, nullptr, offsets,
                 counts.mutable_data_ptr<int64_t>(), 2, 3, false, 0},
                stream());
  });
  const auto* const data = data_of<float>(weight);
  expect_waits("first_convolutions", features, first, [&] {
    first_convolutions(
        precision(),
        {data_of<float>(features), levels, nullptr, offsets, data, data, data_of<float>(bias),
         data_of<float>(bias), first.mutable_data_ptr(), 2, kMel, 128, kChannels, 1, 32, 1},
        stream());
  });
  expect_waits("depthwise_stride", first, strided, [&] {
    depthwise_stride(
        precision(),
        {first.const_data_ptr(), levels + 4, nullptr, offsets, data, data_of<float>(bias),
         strided.mutable_data_ptr(), 2, kMel / 4, kMel / 8, kChannels, 1, 16, 0},
        stream());
  });
}

TEST_P(DependentLaunches, Features) {
  constexpr int32_t kCount = 101, kFft = 512, kBins = 257, kMel = 80, kHop = 160;
  const at::Tensor audio = floats({2, 16000}), lengths = longs({16000, 7000}),
                   window = floats({kFft}), spectra = floats({2, kCount, kBins, 2}),
                   filters = floats({kMel, kBins}).abs(), counts = longs({0, 0}),
                   frames = floats({2, kCount, kFft}), values = floats({2, kMel, kCount});
  std::vector<int32_t> bounds;
  for (int32_t mel = 0; mel < kMel; ++mel) bounds.insert(bounds.end(), {3 * mel, 3 * mel + 7});
  const at::Tensor ranges = on_gpu(at::tensor(bounds));
  const auto* const samples = data_of<int64_t>(lengths);
  expect_waits("cut_windows", audio, frames, [&] {
    cut_windows({data_of<float>(audio), samples, data_of<float>(window),
                 frames.mutable_data_ptr<float>(), 16000, 2, kCount, kFft, kHop, 0.97F},
                stream());
  });
  expect_waits("mel_values", spectra, values, [&] {
    mel_values({static_cast<const float2*>(spectra.const_data_ptr()), samples,
                data_of<float>(filters), data_of<int32_t>(ranges), values.mutable_data_ptr<float>(),
                2, kCount, kBins, kMel, kHop, 1e-5F, false},
               stream());
  });
  expect_waits("normalise_features", values, values, [&] {
    normalise_features({values.mutable_data_ptr<float>(), samples,
                        counts.mutable_data_ptr<int64_t>(), 2, kMel, kCount, kHop},
                       stream());
  });
}

INSTANTIATE_TEST_SUITE_P(Types, DependentLaunches, testing::Values(at::kBFloat16, at::kHalf),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

}  // namespace
}  // namespace rtfx
