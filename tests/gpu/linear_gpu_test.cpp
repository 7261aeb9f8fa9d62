// Products in fp8 against those of the same numbers in float32, also where rows are as few as in
// small steps of streams.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>

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

}  // namespace
}  // namespace rtfx
