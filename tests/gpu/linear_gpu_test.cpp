// Compares products in fp8 and products with SiLU with float32, on the same rounded numbers. Small
// numbers of rows, as in small steps of streams, are included. Products in parts, and the norms
// that add them, are compared with float64.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDAGuard.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "models/checkpoint/precision_of.h"
#include "models/checkpoint/tensor_data.h"
#include "models/encoder/fused/kernels.h"
#include "models/encoder/fused/linear.h"

namespace rtfx {
namespace {

const at::Device kGpu(at::kCUDA, 0);

/// Returns rows in e4m3, with a scale for each row.
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

  /// How Linear applies the scales: as cuBLASLt can, or after the product.
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
/// Shapes of layers 256 and 1,024 wide, and one for which cuBLASLt reportedly lacks a product of
/// few rows.
constexpr Shape kShapes[] = {{256, 768}, {1024, 4096}, {4096, 1024}, {1024, 3072}, {9216, 3072}};

TEST_P(StreamFp8Products, EqualThoseInFloat32) {
  for (const auto& [in, out] : kShapes) {
    const at::Tensor weight = at::randn({out, in}), bias = at::randn({out});
    const Linear map(weight, bias, kGpu, GetParam(), /*eight_bits=*/true);
    const at::Tensor rounded_weight = dequantised(quantised(weight.to(kGpu)));
    const at::Tensor rounded_bias = bias.to(kGpu).to(GetParam()).to(at::kFloat);
    for (const int64_t rows : {1, 2, 9, 14, 64, 127, 256, 300}) {
      // The magnitudes of the rows differ widely.
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
      others[1].fill_(std::nan(""));  // rows without a stream may hold NaN
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

/// On GPUs of compute capability 9.0 a product with SiLU is one kernel, elsewhere two.
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
  /// Returns weights for which the sums are about as large as x.
  static at::Tensor weight_of(const Shape& shape) {
    return at::randn({shape.out, shape.in}) / std::sqrt(static_cast<double>(shape.in));
  }
  static at::Tensor product(const Linear& map, const at::Tensor& x) {
    // NaN shows elements that are not written, and old ones that are read.
    const at::Tensor y = at::full({x.size(0), map.width()}, std::nan(""), x.options());
    map({x, {}}, y, Linear::Result::replace_silu);
    return y;
  }
  /// Returns half of the distance between neighbouring numbers around 1.
  static double half_unit() { return GetParam() == at::kBFloat16 ? 0x1p-8 : 0x1p-11; }

 private:
  std::optional<c10::InferenceMode> torch_guard_;
};

/// Some widths are multiples of a tile, and others are not.
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
        at::Tensor allowed = half_unit() * expected.abs() + 2e-4;  // 2e-4 for the order of sums
        // The sum is rounded before SiLU, whose slope is at most 1.1.
        if (!map.fuses_silu()) allowed += 1.1 * half_unit() * sums.abs();
        const at::Tensor far =
            ((product(map, x).to(at::kFloat) - expected).abs() <= allowed).logical_not();
        EXPECT_EQ(far.sum().item<int64_t>(), 0) << fmt::format(
            "{} rows, {} to {}, bias {}", rows, shape.in, shape.out, added.defined());
      }
    }
  }
}

/// The two kernels are a product by cuBLASLt, which rounds its result, and SiLU of that result.
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
    const int64_t most = std::end(kSiluRows)[-1] + 700;  // takes the kernel for many rows
    const at::Tensor x = on_gpu({most, shape.in}), all = product(map, x);
    for (const int64_t rows : {1, 2, 14, 64, 65, 128, 129, 500, 768, 769})
      EXPECT_TRUE(product(map, x.narrow(0, 0, rows)).equal(all.narrow(0, 0, rows)))
          << fmt::format("{} rows, {} to {}", rows, shape.in, shape.out);
    // The rows move to other places, beside rows of NaN, which rows without a stream may hold.
    const at::Tensor moved = at::full({most + 89, shape.in}, std::nan(""), x.options());
    moved.narrow(0, 77, most).copy_(x);
    EXPECT_TRUE(product(map, moved).narrow(0, 77, most).equal(all)) << shape.in;
    EXPECT_TRUE(
        product(map, moved.narrow(0, 30, 200)).narrow(0, 47, 153).equal(all.narrow(0, 0, 153)))
        << shape.in;
  }
}

/// Encoders run in CUDA graphs, so the launch must neither allocate nor wait.
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

/// Only GPUs of compute capability 9.0 have products of few rows.
class ProductsOfFewRows : public SiluProducts {
 protected:
  void SetUp() override {
    SiluProducts::SetUp();
    if (IsSkipped()) return;
    const auto* const gpu = at::cuda::getCurrentDeviceProperties();
    if (gpu->major != 9 || gpu->minor != 0) GTEST_SKIP() << "wants compute capability 9.0";
  }

  struct Map {
    explicit Map(const Shape& shape)
        : weight(weight_of(shape)),
          bias(at::randn({shape.out})),
          linear(weight, bias, kGpu, GetParam(), /*eight_bits=*/false, /*factor=*/0.5) {}
    /// Halves and rounds weights or biases as `linear` does.
    static at::Tensor halved(const at::Tensor& of) {
      return (of * 0.5).to(kGpu).to(GetParam()).to(at::kDouble);
    }
    at::Tensor weight, bias;
    Linear linear;
  };

  /// Returns the sums of all parts [kParts, rows, out].
  static at::Tensor sums_of(const Linear& map, const at::Tensor& x) {
    const at::Tensor sums =
        at::full({kParts, x.size(0), map.width()}, std::nan(""), x.options().dtype(at::kFloat));
    map.parts({x, {}}, sums);
    return sums;
  }

  static cudaStream_t stream() { return c10::cuda::getCurrentCUDAStream().stream(); }
  static Precision precision() { return half_precision_of(GetParam(), "a test"); }
  static at::Tensor normed(const at::Tensor& rows, const at::Tensor& weight) {
    return at::layer_norm(rows.to(at::kDouble), {rows.size(1)}, weight.to(at::kDouble),
                          weight.to(at::kDouble), 1e-5);
  }

  /// Expects values that differ by float32 sums (`slack`) and by one rounding at most.
  static void expect_near(const at::Tensor& found, const at::Tensor& expected, double slack,
                          const std::string& what) {
    const at::Tensor allowed = half_unit() * expected.abs() + slack;
    const at::Tensor near = (found.to(at::kDouble) - expected).abs() <= allowed;
    EXPECT_EQ(near.logical_not().sum().item<int64_t>(), 0) << what;
  }
};

/// Shapes of a layer 1,024 wide, and shapes whose parts or outputs are no multiples of a tile.
constexpr Shape kPartShapes[] = {{4096, 1024}, {1024, 1024}, {512, 512}, {352, 176}, {128, 64}};
constexpr int64_t kPartRows[] = {1, 16, 63, 64, 65, 128};

TEST_P(ProductsOfFewRows, InPartsEqualThoseInFloat64) {
  for (const Shape& shape : kPartShapes) {
    const Map map(shape);
    const at::Tensor weight =
        Map::halved(map.weight).view({shape.out, kParts, -1}).permute({1, 2, 0});
    for (const int64_t rows : kPartRows) {
      const at::Tensor x = on_gpu({rows, shape.in});
      const at::Tensor expected =
          at::bmm(x.to(at::kDouble).view({rows, kParts, -1}).transpose(0, 1), weight);
      const at::Tensor sums = sums_of(map.linear, x);
      EXPECT_LE((sums.to(at::kDouble) - expected).abs().max().item<double>(), 2e-4)
          << fmt::format("{} rows, {} to {}", rows, shape.in, shape.out);
      EXPECT_TRUE(sums_of(map.linear, x).equal(sums)) << "in a second run";
    }
  }
}

TEST_P(ProductsOfFewRows, InPartsHaveBitsThatDependOnNoOtherRow) {
  for (const Shape& shape : kPartShapes) {
    const Map map(shape);
    const at::Tensor x = on_gpu({kFewRows, shape.in}), all = sums_of(map.linear, x);
    for (const int64_t rows : {1, 2, 16, 63, 64, 65, 127})
      EXPECT_TRUE(sums_of(map.linear, x.narrow(0, 0, rows)).equal(all.narrow(1, 0, rows)))
          << fmt::format("{} rows, {} to {}", rows, shape.in, shape.out);
    const at::Tensor moved = at::full_like(x, std::nan(""));
    moved.narrow(0, 77, 20).copy_(x.narrow(0, 0, 20));
    EXPECT_TRUE(sums_of(map.linear, moved).narrow(1, 77, 20).equal(all.narrow(1, 0, 20)));
    EXPECT_TRUE(
        sums_of(map.linear, moved.narrow(0, 70, 30)).narrow(1, 7, 20).equal(all.narrow(1, 0, 20)));
  }
}

TEST_P(ProductsOfFewRows, InPartsAreAddedByNorms) {
  for (const Shape& shape : kPartShapes) {
    const Map map(shape);
    const auto width = static_cast<int32_t>(shape.out);
    const at::Tensor weight = on_gpu({width});
    const NormWeights norm{weight.const_data_ptr(), weight.const_data_ptr()};
    for (const int64_t rows : kPartRows) {
      const std::string what = fmt::format("{} rows, {} to {}", rows, shape.in, shape.out);
      const at::Tensor before = on_gpu({rows, width}), x = on_gpu({rows, shape.in});
      const at::Tensor sums = sums_of(map.linear, x);
      const ProductParts parts = map.linear.parts({x, {}}, sums);
      const auto added = [&](bool twice) {
        const at::Tensor frames = before.clone(), y = at::full_like(before, std::nan(""));
        if (twice) {
          add_norms(precision(), frames.mutable_data_ptr(), rows, width, parts, norm, norm,
                    y.mutable_data_ptr(), stream());
        } else {
          add_norm(precision(), frames.mutable_data_ptr(), rows, width, parts, norm,
                   y.mutable_data_ptr(), stream());
        }
        return std::pair{frames, y};
      };
      const auto [frames, y] = added(false);
      expect_near(frames,
                  before.to(at::kDouble) + Map::halved(map.bias) + sums.to(at::kDouble).sum(0),
                  1e-5, what + ", sum");
      expect_near(y, normed(frames, weight), 1e-4, what + ", norm");
      const auto [once, twice] = added(true);
      expect_near(once, normed(frames, weight), 1e-4, what + ", first of two norms");
      expect_near(twice, normed(once, weight), 1e-4, what + ", second of two norms");
      EXPECT_TRUE(added(false).second.equal(y)) << what << ", in a second run";
      EXPECT_TRUE(added(true).second.equal(twice)) << what << ", in a second run";

      // The first utterance takes the last rows, and the second one the first rows, both with
      // padding.
      const auto some = static_cast<int32_t>(rows + 1) / 2, longest = some + 3;
      const at::Tensor offsets = at::tensor({static_cast<int32_t>(rows) - some, 0}).to(kGpu),
                       lengths = at::tensor({some, some / 2}).to(kGpu),
                       padded = at::zeros({2, longest, width}, before.options());
      const at::Tensor kept = before.clone();
      add_norm_padded(precision(), kept.const_data_ptr(), rows, width, parts, norm,
                      {data_of<int32_t>(offsets), data_of<int32_t>(lengths), 2, longest},
                      padded.mutable_data_ptr(), stream());
      const at::Tensor expected = normed(frames, weight);
      expect_near(padded[0].narrow(0, 0, some), expected.narrow(0, rows - some, some), 1e-4,
                  what + ", padded");
      expect_near(padded[1].narrow(0, 0, some / 2), expected.narrow(0, 0, some / 2), 1e-4,
                  what + ", padded");
      EXPECT_TRUE(padded[0].narrow(0, some, 3).eq(0).all().item<bool>()) << what;
      EXPECT_TRUE(padded[1].narrow(0, some / 2, longest - some / 2).eq(0).all().item<bool>());
      EXPECT_TRUE(kept.equal(before)) << what;
    }
  }
}

/// In a graph, the norm waits for the product. The next product waits for the norm, which reads the
/// same memory.
TEST_P(ProductsOfFewRows, InPartsEqualThemselvesInAGraph) {
  const Map map({1024, 1024});
  const at::Tensor x = on_gpu({64, 1024}), before = on_gpu({64, 1024}), weight = on_gpu({1024});
  const at::Tensor frames = before.clone(), y = at::zeros_like(x),
                   sums = at::zeros({kParts, 64, 1024}, x.options().dtype(at::kFloat));
  const NormWeights norm{weight.const_data_ptr(), weight.const_data_ptr()};
  const auto run = [&] {
    for (int layer = 0; layer < 8; ++layer) {
      add_norm(precision(), frames.mutable_data_ptr(), 64, 1024,
               map.linear.parts({layer == 0 ? x : y, {}}, sums), norm, y.mutable_data_ptr(),
               stream());
    }
  };
  run();
  const at::Tensor expected = y.clone();
  c10::cuda::getCurrentCUDAStream().synchronize();
  const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  run();
  graph.capture_end();
  for (int repeat = 0; repeat < 3; ++repeat) {
    frames.copy_(before);
    graph.replay();
    EXPECT_TRUE(y.equal(expected));
  }
}

/// Widths of the attention's input and of the first pointwise convolution, and two small shapes.
constexpr Shape kFewRowShapes[] = {{1024, 3072}, {1024, 2048}, {176, 528}, {64, 40}};

TEST_P(ProductsOfFewRows, EqualThoseInFloat64) {
  for (const Shape& shape : kFewRowShapes) {
    const at::Tensor weight = weight_of(shape), bias = at::randn({shape.out});
    const auto rounded = [](const at::Tensor& of) {
      return of.to(GetParam()).to(kGpu).to(at::kDouble);
    };
    for (const bool biased : {true, false}) {
      const Linear map(weight, biased ? bias : at::Tensor(), kGpu, GetParam(), false);
      const auto multiplied = [&](const at::Tensor& x) {
        const at::Tensor y = at::full({x.size(0), shape.out}, std::nan(""), x.options());
        map({x, {}}, y);
        return y;
      };
      const at::Tensor all = on_gpu({kFewRows, shape.in}), of_all = multiplied(all);
      for (const int64_t rows : kPartRows) {
        const std::string what = fmt::format("{} rows, {} to {}", rows, shape.in, shape.out);
        const at::Tensor x = all.narrow(0, 0, rows), y = multiplied(x);
        at::Tensor expected = at::mm(x.to(at::kDouble), rounded(weight).t());
        if (biased) expected += rounded(bias);
        expect_near(y, expected, 2e-4, what);
        EXPECT_TRUE(y.equal(of_all.narrow(0, 0, rows))) << what << ", the number of rows counts";
        EXPECT_TRUE(multiplied(x).equal(y)) << what << ", in a second run";
      }
      const at::Tensor moved = at::full_like(all, std::nan(""));
      moved.narrow(0, 77, 20).copy_(all.narrow(0, 0, 20));
      EXPECT_TRUE(multiplied(moved).narrow(0, 77, 20).equal(of_all.narrow(0, 0, 20)));
    }
  }
}

/// `suits_few_rows` is tested without a GPU.
TEST(FewRows, HaveOneTileForEachMultiprocessor) {
  for (const int64_t rows : {1, 64, 65, 128}) {
    EXPECT_TRUE(suits_few_rows(rows, 4096, 1024, kParts)) << rows;
    EXPECT_TRUE(suits_few_rows(rows, 1024, 1024, kParts)) << rows;
    EXPECT_TRUE(suits_few_rows(rows, 1024, 3072, 1)) << rows;
    EXPECT_TRUE(suits_few_rows(rows, 1024, 2048, 1)) << rows;
    EXPECT_FALSE(suits_few_rows(rows, 1024, 1088, kParts)) << rows << ", too many tiles";
    EXPECT_FALSE(suits_few_rows(rows, 4096, 1024, 1)) << rows << ", too many inputs";
    EXPECT_FALSE(suits_few_rows(rows, 176, 176, kParts)) << rows << ", parts are no vectors";
  }
  EXPECT_FALSE(suits_few_rows(0, 1024, 1024, kParts));
  EXPECT_FALSE(suits_few_rows(129, 1024, 1024, kParts));
}

INSTANTIATE_TEST_SUITE_P(Types, ProductsOfFewRows, testing::Values(at::kBFloat16, at::kHalf),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

}  // namespace
}  // namespace rtfx
