// Compares streams on a GPU with those on the CPU, and their step as a CUDA graph with the launched
// step.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include "algorithms/gpu/graph.h"
#include "models/streaming/cached_encoder.h"
#include "tests/support/encoder_variants.h"
#include "tests/support/small_model.h"
#include "tests/support/stream_runs.h"

namespace rtfx {
namespace {

using test::Samples;

class GpuStreams : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
    torch_guard_.emplace();
  }

  std::shared_ptr<const AcousticModel> model(at::Device device, at::ScalarType dtype = at::kFloat,
                                             bool prompts = false) const {
    ModelConfig config = test::small_config();
    test::streaming(config);
    if (prompts) test::prompts(config);
    return test::random_model(config, 7, device, dtype);
  }

  const at::Device gpu_{at::kCUDA, 0};

 private:
  std::optional<c10::InferenceMode> torch_guard_;
};

TEST_F(GpuStreams, EqualTheCpus) {
  std::vector<Samples> all;
  for (const int64_t samples : {0, 1, 1280, 5000, 16000, 31111})
    all.push_back(test::noise(samples, static_cast<uint64_t>(samples)));
  for (const auto& [buffered, prompts] :
       {std::pair{false, false}, {true, false}, {false, true}, {true, true}}) {
    StreamOptions options{.streams = 4, .rows = 3};
    if (buffered) options.buffer = BufferSeconds{.chunk = 0.4, .left = 0.8, .right = 0.2};
    const auto run = [&, prompts = prompts](at::Device device) {
      return test::stream(*make_encoder_streams(model(device, at::kFloat, prompts), options), all,
                          4, 3000, 11);
    };
    const auto found = run(gpu_), expected = run(at::kCPU);
    for (size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(found[i].frames.sizes(), expected[i].frames.sizes());
      EXPECT_LT(test::largest(found[i].frames.cpu(), expected[i].frames), 1e-3);
    }
  }
}

TEST_F(GpuStreams, AStepCanBeRecorded) {
  constexpr int64_t kRows = 3;
  for (const auto& [fused, prompts] :
       {std::pair{false, false}, {true, false}, {false, true}, {true, true}}) {
    const auto model = this->model(gpu_, fused ? at::kBFloat16 : at::kFloat, prompts);
    ASSERT_EQ(model->encoder->is_fused(), fused);
    const auto make = [&] { return make_cached_encoder(model, model->config.encoder, kRows); };
    const auto of_launches = make(), of_recording = make();
    CachedEncoder &launched = *of_launches, &recorded = *of_recording;
    const StepSizes& sizes = launched.sizes();
    const int64_t chunk = sizes.chunk_size[1], window = chunk + sizes.pre_encode_cache_size[1];
    const auto on_gpu = at::TensorOptions(gpu_);
    CachedStep step{at::zeros({kRows, 80, chunk}, on_gpu),
                    at::zeros({CachedStep::kControlRows, kRows}, on_gpu.dtype(at::kLong))};
    // At their first call, libraries allocate and choose algorithms, which a recording forbids.
    recorded(step);
    at::Tensor output;
    const Graph graph = Graph::record([&](GraphRecorder&) { output = recorded(step); });
    for (int64_t slot = 0; slot < kRows; ++slot) recorded.clear(slot);
    for (int64_t i = 0; i < 5; ++i) {
      step.features.normal_();
      const int64_t encoded = i * sizes.valid_out_len;
      const int64_t begin = i == 0 ? 16 : 0, spare = launched.spare_slot();
      // Two streams change places, and the third row has no stream.
      const int64_t prompt = i % 2;  // models with prompts read it
      step.control.copy_(
          at::tensor({begin, begin, int64_t{0}, window, window, int64_t{0}, encoded, encoded,
                      int64_t{0}, i % 2, 1 - i % 2, spare, prompt, 1 - prompt, int64_t{0}})
              .view({CachedStep::kControlRows, kRows}));
      const at::Tensor expected = launched(step);
      graph.launch(c10::cuda::getCurrentCUDAStream().stream());
      EXPECT_LT(test::largest(output.narrow(0, 0, 2), expected.narrow(0, 0, 2)), 1e-5)
          << i << " fused " << fused << " prompts " << prompts;
    }
  }
}

}  // namespace
}  // namespace rtfx
