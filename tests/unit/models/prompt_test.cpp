// Tests encoders whose frames are conditioned on prompts: the layers, the prompts of rows and of
// streams, and the names of languages.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "models/encoder/prompt_kernel.h"
#include "models/settings/config_reader.h"
#include "models/streaming/cached_encoder.h"
#include "models/tokenizers/nemo_tokenizers.h"
#include "tests/support/encoder_variants.h"
#include "tests/support/random_weights.h"
#include "tests/support/small_model.h"
#include "tests/support/stream_runs.h"
#include "tests/support/user_error.h"

namespace rtfx {
namespace {

using test::Samples;

ModelConfig prompt_config() {
  ModelConfig config = test::small_config();
  test::prompts(config);
  return config;
}

/// Computes the prompt layers as NeMo writes them, with a one-hot vector behind each frame.
at::Tensor by_definition(const at::Tensor& frames, const std::vector<int64_t>& prompts,
                         const StateDict& weights, int64_t count) {
  const at::Tensor one_hot = at::one_hot(at::tensor(prompts), count).to(at::kFloat);
  const at::Tensor both =
      at::cat({frames, one_hot.unsqueeze(1).expand({-1, frames.size(1), -1})}, 2);
  const auto linear = [&](const at::Tensor& x, const std::string& name) {
    return at::linear(x, weights.at(name + ".weight"), weights.at(name + ".bias"));
  };
  return linear(linear(both, "prompt_kernel.0").relu(), "prompt_kernel.2");
}

TEST(Prompts, EachRowIsConditionedOnItsOwn) {
  const c10::InferenceMode inference;
  const ModelConfig config = prompt_config();
  StateDict weights = test::random_state_dict(config, 3);
  for (const char* bias : {"prompt_kernel.0.bias", "prompt_kernel.2.bias"})
    weights[bias] = at::randn(weights[bias].sizes());
  ModelConfig without = config;
  without.prompt = {};
  StateDict plain = weights;
  std::erase_if(plain, [](const auto& w) { return w.first.starts_with("prompt_kernel."); });
  const auto build = [](const ModelConfig& settings, const StateDict& values) {
    Checkpoint checkpoint;
    checkpoint.config = settings;
    checkpoint.weights = values;
    return AcousticModel::build(checkpoint, at::kCPU, at::kFloat);
  };
  const auto model = build(config, weights), bare = build(without, plain);
  Features features{at::randn({3, 80, 96}), at::tensor({96, 40, 70}, at::kLong)};
  const Encoded frames = (*bare->encoder)(features);
  const auto expect = [&](const std::vector<int64_t>& prompts) {
    const Encoded found = (*model->encoder)(features);
    const at::Tensor expected = by_definition(frames.frames, prompts, weights, config.prompt.count);
    EXPECT_TRUE(at::equal(found.lengths, frames.lengths));
    for (int64_t row = 0; row < 3; ++row) {
      const int64_t length = frames.lengths[row].item<int64_t>();
      EXPECT_TRUE(at::allclose(found.frames[row].narrow(0, 0, length),
                               expected[row].narrow(0, 0, length), 1e-4, 1e-5))
          << row;
    }
  };
  expect({3, 3, 3});  // the standard prompt
  features.prompts = at::tensor({4, 0, 1}, at::kLong);
  expect({4, 0, 1});
}

TEST(Prompts, StreamsHaveTheirOwn) {
  const c10::InferenceMode inference;
  std::vector<Samples> all;
  for (const int64_t samples : {16000, 5000, 9000, 20000, 12800})
    all.push_back(test::noise(samples, static_cast<uint64_t>(samples)));
  for (const bool buffered : {false, true}) {
    ModelConfig config = prompt_config();
    test::streaming(config);
    const auto model = test::random_model(config, 7);
    StreamOptions options{.streams = 4, .rows = 3};
    // The buffer is so long that every utterance is one chunk.
    if (buffered) options.buffer = BufferSeconds{.chunk = 2, .left = 1, .right = 0.96};
    const auto streamed = test::stream(*make_encoder_streams(model, options), all, 4, 3000, 11);
    for (size_t i = 0; i < all.size(); ++i) {
      const auto samples = static_cast<int64_t>(all[i].size());
      at::Tensor wave = at::zeros({1, samples});
      std::copy(all[i].begin(), all[i].end(), wave.data_ptr<float>());
      Features features = (*model->features)(wave, at::tensor({samples}, at::kLong));
      features.prompts = at::tensor({static_cast<int64_t>(i % 3)}, at::kLong);  // as stream() says
      const Encoded whole = (*model->encoder)(features);
      const at::Tensor expected = whole.frames[0].narrow(0, 0, whole.lengths.item<int64_t>());
      ASSERT_EQ(streamed[i].frames.sizes(), expected.sizes()) << samples;
      EXPECT_LT(test::largest(streamed[i].frames, expected), 1e-4) << samples << buffered;
    }
  }
}

TEST(Prompts, LanguagesAreNames) {
  ModelConfig config = prompt_config();
  EXPECT_EQ(config.prompt.of("de-DE", "here"), 1);
  EXPECT_EQ(config.prompt.or_standard(std::nullopt), 3);
  EXPECT_EQ(config.prompt.or_standard(2), 2);
  EXPECT_EQ(test::user_error([&] { config.prompt.of("de-DA", "--language"); }),
            "--language: unknown language 'de-DA'; did you mean 'de-DE'? allowed: auto, de-DE, "
            "en-US");
  select_language(config, "en-US", "here");
  EXPECT_EQ(config.prompt.or_standard(std::nullopt), 0);
  config.prompt.standard = -1;
  EXPECT_EQ(test::user_error([&] { config.prompt.or_standard(std::nullopt); }),
            "language: the model needs a language for each utterance; state one (--language, or "
            "\"lang\" in a manifest): auto, de-DE, en-US");
  EXPECT_EQ(test::user_error([&] { test::small_config().prompt.of("de-DE", "--language"); }),
            "--language: the model takes no language, here 'de-DE'; leave it out, or choose a "
            "prompt-conditioned model");
}

TEST(Prompts, AModelWithoutAStandardOneNeedsThem) {
  const c10::InferenceMode inference;
  ModelConfig config = prompt_config();
  test::streaming(config);
  config.prompt.standard = -1;
  const auto model = test::random_model(config, 1);
  Features features{at::randn({1, 80, 40}), at::tensor({40}, at::kLong)};
  EXPECT_THROW((*model->encoder)(features), UserError);
  features.prompts = at::tensor({4}, at::kLong);
  EXPECT_NO_THROW((*model->encoder)(features));
  const auto streams = make_encoder_streams(model, {.streams = 1});
  EXPECT_THROW(streams->open(), UserError);
  EXPECT_EQ(streams->free_streams(), 1);
  EXPECT_NO_THROW(streams->open(2));
}

TEST(Prompts, AreReadFromNemosSettings) {
  ModelConfig expected = prompt_config();
  expected.durations = {};
  const StateDict weights = test::random_state_dict(expected, 1);
  const auto parse = [&](const std::string& yaml, std::vector<std::string>& notices) {
    return read_config(YamlView(yaml, "model.nemo"), weights, notices);
  };
  const std::string target = "target: a.EncDecRNNTBPEModelWithPrompt\n";
  std::vector<std::string> notices;
  const ModelConfig config = parse(
      target + "model_defaults: {num_prompts: 5, prompt_dictionary: {en-US: 0, de-DE: 1, auto: 3}}",
      notices);
  EXPECT_TRUE(notices.empty());
  EXPECT_EQ(config.prompt.count, 5);
  EXPECT_EQ(config.prompt.width, 24);
  EXPECT_EQ(config.prompt.standard, 3);
  EXPECT_EQ(config.prompt.languages, expected.prompt.languages);
  EXPECT_EQ(count_parameters(config), count_parameters(expected));
  EXPECT_EQ(canonical_state_dict(weights, config, "m").size(), weights.size());
  const ModelConfig nameless =
      parse(target + "model_defaults: {num_prompts: 128, prompt_dictionary: {en-US: 0}}", notices);
  EXPECT_EQ(nameless.prompt.count, 5) << "tensors decide";
  EXPECT_EQ(nameless.prompt.standard, -1);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_HAS(
      test::user_error([&] { parse("model_defaults: {prompt_dictionary: {en-US: 5}}", notices); }),
      "prompt_dictionary.en-US");
}

TEST(Prompts, TagsOfLanguagesAreRemovedAsNemoDoes) {
  const std::vector<std::string> labels = {"a", " ", "<en-US>", "<de-DE", ">", "<EN-us>", "."};
  const auto plain = character_tokenizer(labels), tagged = without_language_tags(plain);
  const auto text = [&](const std::vector<int32_t>& ids) { return tagged->text(ids); };
  EXPECT_EQ(text({0, 1, 2}), "a");
  EXPECT_EQ(text({1, 0, 2, 0, 1, 1, 2, 1, 0, 1}), "aa a");
  EXPECT_EQ(text({0, 1, 3, 4, 0}), "aa");
  EXPECT_EQ(text({0, 3, 0}), "a<de-DEa") << "no tag";
  EXPECT_EQ(text({0, 5}), "a<EN-us>") << "no tag";
  EXPECT_EQ(text({2}), "");
  EXPECT_EQ(plain->text(std::vector<int32_t>{0, 1, 2}), "a <en-US>");
  const std::vector<TokenWord> words =
      token_words(*tagged, std::vector<int32_t>{0, 0, 1, 2, 1, 0, 1, 3, 4});
  ASSERT_EQ(words.size(), 2u);
  EXPECT_EQ(words[0].text, "aa");
  EXPECT_EQ(words[1].text, "a");
}

}  // namespace
}  // namespace rtfx
