// Products in fp8, and products with SiLU, against those of the same numbers in float32, also where
// rows are as few as in small steps of streams.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDAGuard.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "models/encoder/fused/kernels.h"
#include "models/encoder/fused/linear.h"

namespace rtfx {
namespace {

const at::Device kGpu(at::kCUDA, 0);

/// Rows of e4m3 with a scale for each.
LinearInput quantised(const at::Tensor& rows) {
  const at::Tensor scales = (rows.abs().amax(1) / 448).clamp_min(1e-12);
  return {(rows / scales.unsqueeze(1)).to(at::kFloat8_e4m3fn), scales};
}

at::Tensor dequantised(const LinearInput& x) {
  return x.values.to(at::kFloat) * x.scales.unsqueeze(1);
}

class StreamFp8Products : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
    if (at::cuda::getCurrentDeviceProperties()->major != 9) GTEST_SKIP() << "fp8 wants Hopper";
    torch_guard_.emplace();
    at::globalContext().setAllowTF32CuBLAS(false);
    at::manual_seed(5);
  }

  /// How Linear multiplies: as cuBLASLt can, or with the scales behind the product.
  enum class Way { any, scales_afterwards };

  at::Tensor product(const Linear& map, const LinearInput& x, const at::Tensor& before, Way way,
                     Linear::Result result) const {
    const at::Tensor y = before.clone();
    way == Way::any ? map(x, y, result) : map.scale_afterwards(x, y, result);
    return y;
  }

 private:
  std::optional<c10::InferenceMode> torch_guard_;
};

struct Shape {
  int64_t in, out;
};
/// Those of layers 256 and 1,024 wide, and one for which few rows are reported to have no product.
constexpr Shape kShapes[] = {{256, 768}, {1024, 4096}, {4096, 1024}, {1024, 3072}, {9216, 3072}};

TEST_P(StreamFp8Products, EqualThoseInFloat32) {
  for (const auto& [in, out] : kShapes) {
    const at::Tensor weight = at::randn({out, in}), bias = at::randn({out});
    const Linear map(weight, bias, kGpu, GetParam(), /*eight_bits=*/true);
    const at::Tensor rounded_weight = dequantised(quantised(weight.to(kGpu)));
    const at::Tensor rounded_bias = bias.to(kGpu).to(GetParam()).to(at::kFloat);
    for (const int64_t rows : {1, 2, 9, 14, 64, 127, 256, 300}) {
      // Rows of very different sizes.
      const LinearInput x = quantised(at::randn({rows, in}).to(kGpu) *
                                      at::exp2(at::arange(rows).to(kGpu) % 9 - 4).unsqueeze(1));
      const at::Tensor sums = at::linear(dequantised(x), rounded_weight, rounded_bias);
      const at::Tensor before = at::randn({rows, out}).to(kGpu).to(GetParam());
      const at::Tensor largest = sums.abs().amax(1, true) + 1;
      for (const Way way : {Way::any, Way::scales_afterwards}) {
        const auto expect = [&](Linear::Result result, const at::Tensor& expected) {
          const at::Tensor y = product(map, x, before, way, result).to(at::kFloat);
          EXPECT_LT(((y - expected).abs() / largest).max().item<double>(), 0x1p-7)
              << fmt::format("{} rows, {} to {}, way {}, result {}", rows, in, out,
                             static_cast<int>(way), static_cast<int>(result));
        };
        expect(Linear::Result::replace, sums);
        expect(Linear::Result::add, sums + before.to(at::kFloat));
        expect(Linear::Result::replace_relu, sums.relu());
      }
    }
  }
}

TEST_P(StreamFp8Products, RowsDependOnNoOtherRow) {
  for (const auto& [in, out] : kShapes) {
    const Linear map(at::randn({out, in}), {}, kGpu, GetParam(), /*eight_bits=*/true);
    for (const int64_t rows : {2, 14, 256}) {
      const at::Tensor x = at::randn({rows, in}).to(kGpu);
      at::Tensor others = 1000 * at::randn({rows, in}).to(kGpu);
      others[1].fill_(std::nan(""));  // such as rows without a stream may hold
      others[0].copy_(x[0]);
      const at::Tensor before = at::zeros({rows, out}).to(kGpu).to(GetParam());
      for (const Way way : {Way::any, Way::scales_afterwards}) {
        const auto first_row = [&](const at::Tensor& all) {
          return product(map, quantised(all), before, way, Linear::Result::replace)[0];
        };
        EXPECT_TRUE(first_row(x).equal(first_row(others))) << rows << ' ' << in << ' ' << out;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, StreamFp8Products, testing::Values(at::kBFloat16, at::kHalf),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

/// On GPUs of compute capability 9.0 these are one kernel, elsewhere two.
class SiluProducts : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
    torch_guard_.emplace();
    at::globalContext().setAllowTF32CuBLAS(false);
    at::manual_seed(6);
  }

  static at::Tensor on_gpu(at::IntArrayRef sizes) {
    return at::randn(sizes).to(GetParam()).to(kGpu);
  }
  /// Weights of sums about as large as x.
  static at::Tensor weight_of(const Shape& shape) {
    return at::randn({shape.out, shape.in}) / std::sqrt(static_cast<double>(shape.in));
  }
  static at::Tensor product(const Linear& map, const at::Tensor& x) {
    // NaN, to see that every element is written and no old one is read.
    const at::Tensor y = at::full({x.size(0), map.width()}, std::nan(""), x.options());
    map({x, {}}, y, Linear::Result::replace_silu);
    return y;
  }
  /// Half of the distance of neighbours around 1.
  static double half_unit() { return GetParam() == at::kBFloat16 ? 0x1p-8 : 0x1p-11; }

 private:
  std::optional<c10::InferenceMode> torch_guard_;
};

/// Widths that are multiples of a tile and such that are none.
constexpr Shape kSiluShapes[] = {{1024, 4096}, {512, 2048}, {176, 704}, {64, 256}, {16, 8}};

TEST_P(SiluProducts, EqualThoseInFloat32) {
  for (const Shape& shape : kSiluShapes) {
    const at::Tensor weight = weight_of(shape), bias = at::randn({shape.out});
    for (const at::Tensor& added : {bias, at::Tensor()}) {
      const Linear map(weight, added, kGpu, GetParam(), /*eight_bits=*/false);
      const auto in_float32 = [&](const at::Tensor& values) {
        return values.defined() ? values.to(GetParam()).to(kGpu).to(at::kFloat) : values;
      };
      for (const int64_t rows : {0, 1, 14, 63, 64, 65, 128, 129, 300, 768, 845}) {
        const at::Tensor x = on_gpu({rows, shape.in});
        const at::Tensor sums = at::linear(x.to(at::kFloat), in_float32(weight), in_float32(added));
        const at::Tensor expected = at::silu(sums);
        at::Tensor allowed = half_unit() * expected.abs() + 2e-4;  // 2e-4: the order of sums
        // A sum that is rounded before SiLU, whose slope is at most 1.1
        if (!map.fuses_silu()) allowed += 1.1 * half_unit() * sums.abs();
        const at::Tensor far =
            ((product(map, x).to(at::kFloat) - expected).abs() <= allowed).logical_not();
        EXPECT_EQ(far.sum().item<int64_t>(), 0) << fmt::format(
            "{} rows, {} to {}, bias {}", rows, shape.in, shape.out, added.defined());
      }
    }
  }
}

/// Two kernels are a product by cuBLASLt, which rounds, and SiLU of that.
TEST_P(SiluProducts, AreCloseToThoseOfTwoKernels) {
  for (const Shape& shape : kSiluShapes) {
    const Linear map(weight_of(shape), at::randn({shape.out}), kGpu, GetParam(), false);
    const at::Tensor x = on_gpu({300, shape.in}),
                     rounded = at::empty({300, shape.out}, x.options());
    map({x, {}}, rounded);
    const at::Tensor sums = rounded.to(at::kFloat), two = at::silu(sums);
    const at::Tensor allowed = half_unit() * (2 * two.abs() + 1.1 * sums.abs()) + 2e-4;
    const at::Tensor apart = (product(map, x).to(at::kFloat) - two).abs();
    EXPECT_TRUE((apart <= allowed).all().item<bool>()) << shape.in << " to " << shape.out;
  }
}

TEST_P(SiluProducts, BitsOfARowDependOnNoOtherRow) {
  for (const Shape& shape : kSiluShapes) {
    const Linear map(weight_of(shape), at::randn({shape.out}), kGpu, GetParam(), false);
    if (!map.fuses_silu()) GTEST_SKIP() << "cuBLASLt chooses by the number of rows";
    const int64_t most = std::end(kSiluRows)[-1] + 700;  // by the kernel for most rows
    const at::Tensor x = on_gpu({most, shape.in}), all = product(map, x);
    for (const int64_t rows : {1, 2, 14, 64, 65, 128, 129, 500, 768, 769})
      EXPECT_TRUE(product(map, x.narrow(0, 0, rows)).equal(all.narrow(0, 0, rows)))
          << fmt::format("{} rows, {} to {}", rows, shape.in, shape.out);
    // Other places, beside rows such as those without a stream may hold.
    const at::Tensor moved = at::full({most + 89, shape.in}, std::nan(""), x.options());
    moved.narrow(0, 77, most).copy_(x);
    EXPECT_TRUE(product(map, moved).narrow(0, 77, most).equal(all)) << shape.in;
    EXPECT_TRUE(
        product(map, moved.narrow(0, 30, 200)).narrow(0, 47, 153).equal(all.narrow(0, 0, 153)))
        << shape.in;
  }
}

/// In CUDA graphs, as encoders run: the launch neither allocates nor waits.
TEST_P(SiluProducts, EqualThemselvesInAGraph) {
  const Linear map(weight_of({1024, 4096}), at::randn({4096}), kGpu, GetParam(), false);
  const at::Tensor x = on_gpu({333, 1024}), y = at::zeros({333, 4096}, x.options());
  const at::Tensor expected = product(map, x);
  c10::cuda::getCurrentCUDAStream().synchronize();
  const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  map({x, {}}, y, Linear::Result::replace_silu);
  graph.capture_end();
  graph.replay();
  c10::cuda::getCurrentCUDAStream().synchronize();
  EXPECT_TRUE(y.equal(expected));
}

INSTANTIATE_TEST_SUITE_P(Types, SiluProducts, testing::Values(at::kBFloat16, at::kHalf),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

}  // namespace
}  // namespace rtfx
