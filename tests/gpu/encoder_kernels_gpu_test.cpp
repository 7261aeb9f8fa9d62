// Tests each kernel of the fused encoder by itself, for racecheck, which fails at the whole encoder
// whichever kernel it checks. So the tests run no matrix products between the kernels. A repeated
// call has to give the same bits. fused_encoder_gpu_test.cpp tests that they are the right ones.
// Here, convolutions over time and norms are compared with float64 too.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "models/checkpoint/precision_of.h"
#include "models/checkpoint/tensor_data.h"
#include "models/encoder/fused/kernels.h"

namespace rtfx {
namespace {

const at::Device kGpu(at::kCUDA, 0);
constexpr int64_t kRows = 128;

class EncoderKernels : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
    torch_guard_.emplace();
    at::manual_seed(17);
    offsets_ = ints({0, 70, 70});
    lengths_ = ints({70, 0, 33});
  }

  static at::Tensor ints(std::vector<int32_t> values) { return at::tensor(values).to(kGpu); }
  static at::Tensor longs(std::vector<int64_t> values) { return at::tensor(values).to(kGpu); }
  static at::Tensor floats(at::IntArrayRef sizes) { return at::randn(sizes).to(kGpu); }
  at::Tensor random(at::IntArrayRef sizes) const {
    return at::randn(sizes).to(GetParam()).to(kGpu);
  }
  at::Tensor zeros(at::IntArrayRef sizes) const {
    return at::zeros(sizes, at::TensorOptions(GetParam())).to(kGpu);
  }
  static at::Tensor bytes(at::IntArrayRef sizes) {
    return at::zeros(sizes, at::TensorOptions(at::kByte)).to(kGpu);
  }
  Precision precision() const { return half_precision_of(GetParam(), "a test"); }
  cudaStream_t stream() const { return c10::cuda::getCurrentCUDAStream().stream(); }
  RowLayout layout() const {
    return {data_of<int32_t>(offsets_), data_of<int32_t>(lengths_), 3, 70};
  }

  /// Returns the convolution over time of whole utterances, without a norm if `norm` is undefined.
  at::Tensor convolve(const at::Tensor& gates, const at::Tensor& weight, const at::Tensor& bias,
                      const at::Tensor& norm, int left, const RowLayout& rows, int run = 0) const {
    const auto width = static_cast<int32_t>(bias.size(0));
    at::Tensor output = zeros({kRows, width});
    NormWeights of{};
    if (norm.defined()) of = {norm.const_data_ptr(), norm.const_data_ptr()};
    convolve_time(precision(),
                  {gates.const_data_ptr(), data_of<float>(weight), data_of<float>(bias), of,
                   output.mutable_data_ptr(), width, static_cast<int32_t>(weight.size(0)), left,
                   nullptr, run},
                  rows, stream());
    return output;
  }

  /// Expects that `run` returns the same finite tensors in two calls.
  static void expect_same(const std::string& what,
                          const std::function<std::vector<at::Tensor>()>& run) {
    std::vector<at::Tensor> first, second;
    for (std::vector<at::Tensor>* all : {&first, &second})
      for (const at::Tensor& one : run()) all->push_back(one.cpu());
    for (size_t i = 0; i < first.size(); ++i) {
      EXPECT_TRUE(first[i].equal(second[i])) << what << ' ' << i;
      EXPECT_TRUE(!first[i].is_floating_point() || first[i].isfinite().all().item<bool>())
          << what << ' ' << i;
    }
  }

  at::Tensor offsets_, lengths_;

 private:
  std::optional<c10::InferenceMode> torch_guard_;
};

TEST_P(EncoderKernels, Attention) {
  for (const auto& [width, heads] :
       {std::pair{256, 2}, std::pair{128, 2}, std::pair{176, 4}, std::pair{200, 2}}) {
    const at::Tensor qkv = random({kRows, 3 * width}), positions = random({255, width}),
                     u = random({width}), v = random({width});
    for (const auto& [left, right, chunk] :
         {std::tuple{-1, -1, 0}, std::tuple{5, 5, 0}, std::tuple{8, 0, 4}}) {
      expect_same("attend " + std::to_string(width),
                  [&, left = left, right = right, chunk = chunk, width = width, heads = heads] {
                    at::Tensor output = zeros({kRows, width});
                    attend(precision(),
                           {qkv.const_data_ptr(), positions.const_data_ptr(), u.const_data_ptr(),
                            v.const_data_ptr(), output.mutable_data_ptr(), width, heads, 128, left,
                            right, chunk, nullptr},
                           layout(), stream());
                    return std::vector<at::Tensor>{output};
                  });
    }
  }
}

TEST_P(EncoderKernels, Streams) {
  const at::Tensor offsets = ints({0, 3}), lengths = ints({3, 2});
  const RowLayout step{data_of<int32_t>(offsets), data_of<int32_t>(lengths), 2, 3};
  const at::Tensor slots = longs({2, 0}), encoded = longs({9, 0});
  for (const auto& [width, heads] : {std::pair{256, 2}, std::pair{128, 2}, std::pair{176, 4}}) {
    const at::Tensor qkv = random({6, 3 * width}), positions = random({255, width}),
                     u = random({width}), v = random({width}), kept = random({4, 9, 2 * width}),
                     gated = random({4, 11, width}), gates = random({6, 2 * width}),
                     weight = floats({9, width}), bias = floats({width});
    expect_same("streams " + std::to_string(width), [&, width = width, heads = heads] {
      at::Tensor keys = kept.clone(), heard = gated.clone(), seen = zeros({6, width}),
                 mixed = zeros({6, width});
      const LayerRings rings{keys.mutable_data_ptr(),
                             heard.mutable_data_ptr(),
                             data_of<int64_t>(slots),
                             data_of<int64_t>(encoded),
                             6,
                             8,
                             3};
      keep_keys(qkv.const_data_ptr(), width, rings, step, stream());
      attend(precision(),
             {qkv.const_data_ptr(), positions.const_data_ptr(), u.const_data_ptr(),
              v.const_data_ptr(), seen.mutable_data_ptr(), width, heads, 128, 6, 2, 0, &rings},
             step, stream());
      convolve_time(precision(),
                    {gates.const_data_ptr(),
                     data_of<float>(weight),
                     data_of<float>(bias),
                     {},
                     mixed.mutable_data_ptr(),
                     width,
                     9,
                     8,
                     &rings},
                    step, stream());
      return std::vector<at::Tensor>{keys, heard, seen, mixed};
    });
  }
}

TEST_P(EncoderKernels, ConvolutionOverTime) {
  for (const int width : {176, 1024}) {
    const at::Tensor gates = random({kRows, 2 * width}), norm = random({width}),
                     bias = floats({width});
    for (const auto& [kernel, left] : {std::pair{9, 4}, std::pair{9, 8}, std::pair{31, 15}}) {
      const at::Tensor weight = floats({kernel, width});
      for (const bool normed : {false, true}) {
        expect_same("convolve_time " + std::to_string(width), [&, left = left] {
          return std::vector<at::Tensor>{
              convolve(gates, weight, bias, normed ? norm : at::Tensor(), left, layout())};
        });
      }
    }
  }
}

/// Returns the greatest of the rows' relative errors.
double greatest_error(const at::Tensor& rows, const at::Tensor& expected) {
  const at::Tensor errors = (rows.to(at::kDouble) - expected).norm(2, 1) / expected.norm(2, 1);
  return errors.max().item<double>();
}

/// Returns a bound of the relative error. Values are rounded twice, after the gate and at the end,
/// each time by at most half of this bound.
double epsilon_of(at::ScalarType type) { return type == at::kHalf ? 0x1p-10 : 0x1p-7; }

/// Returns SiLU of the convolution over time of `seen` [frames + kernel - 1, width], with a norm
/// between them where `norm` is defined.
at::Tensor expected_frames(const at::Tensor& seen, const at::Tensor& weight, const at::Tensor& bias,
                           const at::Tensor& norm) {
  const at::Tensor windows = seen.unfold(0, weight.size(0), 1);  // [frames, width, kernel]
  at::Tensor frames = (windows * weight.t().to(at::kDouble)).sum(2) + bias.to(at::kDouble);
  if (norm.defined()) {
    const at::Tensor factors = norm.to(at::kDouble);
    frames = at::layer_norm(frames, {frames.size(1)}, factors, factors, 1e-5);
  }
  return at::silu(frames);
}

/// Returns the product of one half of the gates with the sigmoid of the other half (GLU), in
/// float64.
at::Tensor gated_frames(const at::Tensor& gates) {
  const int64_t width = gates.size(1) / 2;
  const at::Tensor wide = gates.to(at::kDouble);
  return wide.slice(1, 0, width) * wide.slice(1, width).sigmoid();
}

TEST_P(EncoderKernels, ConvolutionIsRightForAnyRun) {
  for (const int width : {176, 1024}) {
    const at::Tensor gates = random({kRows, 2 * width}), norm = random({width}),
                     bias = floats({width});
    for (const auto& [kernel, left] : {std::pair{9, 4}, std::pair{9, 8}, std::pair{31, 15}}) {
      const at::Tensor weight = floats({kernel, width});
      for (const bool normed : {false, true}) {
        const auto convolved = [&, left = left](const RowLayout& rows, int run) {
          return convolve(gates, weight, bias, normed ? norm : at::Tensor(), left, rows, run);
        };
        const std::string what = std::to_string(width) + " wide, kernel " + std::to_string(kernel) +
                                 " left " + std::to_string(left) + (normed ? ", normed" : "");
        const at::Tensor output = convolved(layout(), 0);
        for (const int run : {8, 16, 24, 32, 128})
          EXPECT_TRUE(output.equal(convolved(layout(), run))) << what << ", run " << run;

        const at::Tensor offset = ints({70}), length = ints({33});
        const RowLayout alone{data_of<int32_t>(offset), data_of<int32_t>(length), 1, 33};
        EXPECT_TRUE(output.slice(0, 70, 103).equal(convolved(alone, 0).slice(0, 70, 103))) << what;
        EXPECT_TRUE(output.slice(0, 103).eq(0).all().item<bool>()) << what;

        for (const auto& [first, frames] : {std::pair{0, 70}, std::pair{70, 33}}) {
          const at::Tensor seen = at::constant_pad_nd(
              gated_frames(gates.slice(0, first, first + frames)), {0, 0, left, kernel - 1 - left});
          const at::Tensor expected =
              expected_frames(seen, weight, bias, normed ? norm : at::Tensor());
          EXPECT_LT(greatest_error(output.slice(0, first, first + frames), expected),
                    epsilon_of(GetParam()))
              << what;
        }
      }
    }
  }
}

/// Tests several steps, of a stream whose ring buffer wraps and of a stream that begins.
TEST_P(EncoderKernels, StreamsDoNotDependOnTheRun) {
  constexpr int kFrames = 21, kRing = 8 + kFrames;
  const at::Tensor offsets = ints({0, 21}), lengths = ints({21, 13});
  const RowLayout step{data_of<int32_t>(offsets), data_of<int32_t>(lengths), 2, kFrames};
  const at::Tensor slots = longs({2, 0}), encoded = longs({50, 3});
  for (const int width : {176, 1024}) {
    const at::Tensor gates = random({2 * kFrames, 2 * width}), norm = random({width}),
                     ring = random({3, kRing, width}), weight = floats({9, width}),
                     bias = floats({width});
    for (const bool normed : {false, true}) {
      const auto convolved = [&](int run) {
        at::Tensor heard = ring.clone(), output = zeros({2 * kFrames, width});
        const LayerRings rings{nullptr,
                               heard.mutable_data_ptr(),
                               data_of<int64_t>(slots),
                               data_of<int64_t>(encoded),
                               0,
                               8,
                               kFrames};
        NormWeights of{};
        if (normed) of = {norm.const_data_ptr(), norm.const_data_ptr()};
        convolve_time(precision(),
                      {gates.const_data_ptr(), data_of<float>(weight), data_of<float>(bias), of,
                       output.mutable_data_ptr(), width, 9, 8, &rings, run},
                      step, stream());
        return std::pair{output, heard};
      };
      const auto [output, heard] = convolved(0);
      for (const int run : {8, 16, 32}) {
        const auto [same, kept] = convolved(run);
        EXPECT_TRUE(output.equal(same)) << width << " wide, run " << run;
        EXPECT_TRUE(heard.equal(kept)) << width << " wide, run " << run;
      }

      for (const auto& [utterance, slot, before, frames] :
           {std::tuple{0, 2, 50, 21}, std::tuple{1, 0, 3, 13}}) {
        const at::Tensor gated =
            gated_frames(gates.slice(0, utterance * kFrames, utterance * kFrames + frames));
        std::vector<at::Tensor> seen;
        for (int frame = before - 8; frame < before; ++frame) {
          seen.push_back(frame < 0 ? at::zeros_like(gated.slice(0, 0, 1))
                                   : ring[slot][frame % kRing].to(at::kDouble).unsqueeze(0));
        }
        at::Tensor kept = at::empty_like(gated);
        for (int f = 0; f < frames; ++f) kept[f].copy_(heard[slot][(before + f) % kRing]);
        EXPECT_LT(greatest_error(kept, gated), epsilon_of(GetParam())) << width << " wide";
        seen.push_back(gated);
        const at::Tensor expected =
            expected_frames(at::cat(seen), weight, bias, normed ? norm : at::Tensor());
        const at::Tensor rows = output.slice(0, utterance * kFrames, utterance * kFrames + frames);
        EXPECT_LT(greatest_error(rows, expected), epsilon_of(GetParam())) << width << " wide";
      }
    }
  }
}

/// Tests more rows than the kernel has warps, so that warps take several rows.
TEST_P(EncoderKernels, NormsOfManyRows) {
  constexpr int64_t kMany = 7001, kPart = 1000;
  for (const int width : {176, 256, 1024, 2048}) {
    const at::Tensor x = random({kMany, width}), weight = random({width}), bias = random({width});
    const NormWeights norm{weight.const_data_ptr(), bias.const_data_ptr()};
    const auto normed = [&](int64_t first, int64_t rows, bool twice) {
      const at::Tensor part = x.slice(0, first, first + rows).clone();
      at::Tensor y = zeros({rows, width});
      if (twice) {
        layer_norms(precision(), part.mutable_data_ptr(), rows, width, norm, norm,
                    {y.mutable_data_ptr(), nullptr}, stream());
      } else {
        layer_norm(precision(), part.const_data_ptr(), rows, width, norm,
                   {y.mutable_data_ptr(), nullptr}, stream());
      }
      return std::pair{part, y};
    };
    for (const bool twice : {false, true}) {
      const auto [once, all] = normed(0, kMany, twice);
      for (int64_t first = 0; first < kMany; first += kPart) {
        const int64_t rows = std::min(kPart, kMany - first);
        const auto [x_part, y_part] = normed(first, rows, twice);
        EXPECT_TRUE(all.slice(0, first, first + rows).equal(y_part)) << width << ' ' << first;
        EXPECT_TRUE(once.slice(0, first, first + rows).equal(x_part)) << width << ' ' << first;
      }
      const auto reference = [&](const at::Tensor& rows) {
        return at::layer_norm(rows.to(at::kDouble), {width}, weight.to(at::kDouble),
                              bias.to(at::kDouble), 1e-5);
      };
      if (twice) {
        EXPECT_LT(greatest_error(once, reference(x)), epsilon_of(GetParam())) << width;
      }
      EXPECT_LT(greatest_error(all, reference(once)), epsilon_of(GetParam())) << width;
    }
  }
}

TEST_P(EncoderKernels, Rows) {
  for (const int width : {176, 1024}) {
    const at::Tensor x = random({kRows, width}), weight = random({width}),
                     padded = random({3, 70, width});
    const NormWeights norm{weight.const_data_ptr(), weight.const_data_ptr()};
    for (const bool eight_bits : {false, true}) {
      expect_same("norms of " + std::to_string(width), [&] {
        std::vector<at::Tensor> out;
        const auto product = [&] {
          at::Tensor values = eight_bits ? bytes({kRows, width}) : zeros({kRows, width});
          out.push_back(values);
          at::Tensor scales = at::zeros({kRows}).to(kGpu);
          out.push_back(scales);
          return ProductInput{values.mutable_data_ptr(),
                              eight_bits ? scales.mutable_data_ptr<float>() : nullptr};
        };
        layer_norm(precision(), x.const_data_ptr(), kRows, width, norm, product(), stream());
        at::Tensor frames = x.clone();
        layer_norms(precision(), frames.mutable_data_ptr(), kRows, width, norm, norm, product(),
                    stream());
        silu(precision(), x.const_data_ptr(), kRows, width, product(), stream());
        at::Tensor all = zeros({3, 70, width}), packed = zeros({kRows, width});
        layer_norm_padded(precision(), x.const_data_ptr(), width, norm, layout(),
                          all.mutable_data_ptr(), stream());
        pack_rows(precision(), padded.const_data_ptr(), 70, width, layout(),
                  packed.mutable_data_ptr(), stream());
        out.insert(out.end(), {frames, all, packed});
        return out;
      });
    }
  }
}

TEST_P(EncoderKernels, SubSampling) {
  constexpr int32_t kChannels = 16, kMel = 80, kFrames = 128, kOut = 32;
  const at::Tensor features = floats({2, kMel, kFrames}), of = longs({128, 51}),
                   weight = floats({9, kChannels}), bias = floats({kChannels}),
                   image = random({kOut << 1, kMel / 4, kChannels});
  for (const bool causal : {false, true}) {
    expect_same("sub-sampling", [&] {
      at::Tensor lengths = ints(std::vector<int32_t>(8, 0)), offsets = ints({0, 0}),
                 encoded = longs({0, 0}), first = zeros({kOut << 1, kMel / 4 + 1, kChannels}),
                 strided = zeros({kOut, kMel / 8 + 1, kChannels});
      auto* const levels = lengths.mutable_data_ptr<int32_t>();
      plan_layout(
          {data_of<int64_t>(of), nullptr, levels, nullptr, offsets.mutable_data_ptr<int32_t>(),
           encoded.mutable_data_ptr<int64_t>(), 2, 3, causal, 0},
          stream());
      const auto* const data = data_of<float>(weight);
      const int32_t before = causal ? 2 : 1;
      const auto halved = [&](int32_t extent) {
        return causal ? extent / 2 + 1 : (extent + 1) / 2;
      };
      first_convolutions(
          precision(),
          {data_of<float>(features), levels, nullptr, data_of<int32_t>(offsets), data, data,
           data_of<float>(bias), data_of<float>(bias), first.mutable_data_ptr(), 2, kMel, kFrames,
           kChannels, before, halved(halved(kFrames)), 1},
          stream());
      const int32_t bins = kMel / 4;
      depthwise_stride(precision(),
                       {image.const_data_ptr(), levels + 4, nullptr, data_of<int32_t>(offsets),
                        data, data_of<float>(bias), strided.mutable_data_ptr(), 2, bins,
                        halved(bins), kChannels, before, halved(halved(halved(kFrames))), 0},
                       stream());
      return std::vector<at::Tensor>{lengths, offsets, encoded, first, strided};
    });
  }
}

TEST_P(EncoderKernels, FeaturesOfAudio) {
  constexpr int32_t kCount = 101, kFft = 512, kBins = 257, kMel = 80, kHop = 160;
  const at::Tensor audio = floats({2, 16000}), lengths = longs({16000, 7000}),
                   window = floats({kFft}), spectra = floats({2, kCount, kBins, 2}),
                   filters = floats({kMel, kBins}).abs();
  std::vector<int32_t> bounds;
  for (int32_t mel = 0; mel < kMel; ++mel) bounds.insert(bounds.end(), {3 * mel, 3 * mel + 7});
  const at::Tensor ranges = ints(bounds);
  expect_same("features", [&] {
    at::Tensor frames = at::zeros({2, kCount, kFft}).to(kGpu),
               values = at::zeros({2, kMel, kCount}).to(kGpu), counts = longs({0, 0});
    const auto* const samples = data_of<int64_t>(lengths);
    cut_windows({data_of<float>(audio), samples, data_of<float>(window),
                 frames.mutable_data_ptr<float>(), 16000, 2, kCount, kFft, kHop, 0.97F},
                stream());
    mel_values({static_cast<const float2*>(spectra.const_data_ptr()), samples,
                data_of<float>(filters), data_of<int32_t>(ranges), values.mutable_data_ptr<float>(),
                2, kCount, kBins, kMel, kHop, 1e-5F, false},
               stream());
    normalise_features({values.mutable_data_ptr<float>(), samples,
                        counts.mutable_data_ptr<int64_t>(), 2, kMel, kCount, kHop},
                       stream());
    return std::vector<at::Tensor>{frames, values, counts};
  });
}

/// Tests utterances whose lengths are no multiples of any run.
TEST_P(EncoderKernels, SubSamplingDoesNotDependOnTheRun) {
  constexpr int32_t kChannels = 16, kMel = 80, kFrames = 203, kOut = 90;
  const at::Tensor features = floats({2, kMel, kFrames}), weight1 = floats({9, kChannels}),
                   weight2 = floats({9, kChannels}), bias1 = floats({kChannels}),
                   bias2 = floats({kChannels}), offsets = ints({0, 26});
  for (const bool causal : {false, true}) {
    const auto halved = [&](int32_t extent) { return causal ? extent / 2 + 1 : (extent + 1) / 2; };
    const int32_t first = halved(kFrames), second = halved(first);
    const at::Tensor lengths = ints({kFrames, 77, first, halved(77), second, halved(halved(77))});
    const auto convolved = [&](int32_t run) {
      at::Tensor output = zeros({kOut << 1, halved(halved(kMel)), kChannels});
      first_convolutions(
          precision(),
          {data_of<float>(features), data_of<int32_t>(lengths), nullptr, data_of<int32_t>(offsets),
           data_of<float>(weight1), data_of<float>(weight2), data_of<float>(bias1),
           data_of<float>(bias2), output.mutable_data_ptr(), 2, kMel, kFrames, kChannels,
           causal ? 2 : 1, second, 1, run},
          stream());
      return output;
    };
    const at::Tensor by_eights = convolved(8);
    EXPECT_GT(by_eights.count_nonzero().item<int64_t>(), (second + 19) * 20 * kChannels / 2);
    for (const int32_t run : {0, 1, 2})
      EXPECT_TRUE(by_eights.equal(convolved(run))) << causal << ", run " << run;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, EncoderKernels, testing::Values(at::kBFloat16, at::kHalf),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

}  // namespace
}  // namespace rtfx
