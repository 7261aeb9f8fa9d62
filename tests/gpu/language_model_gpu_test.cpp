// Tests language models on a GPU. Their evaluation equals the CPU's bit for bit, greedy searches
// with one equal the plain search in every form, and there is no undeclared wait.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <gtest/gtest.h>

#include "algorithms/gpu/host_read.h"
#include "algorithms/shared/ngram_lm/load_ngram_lm.h"
#include "tests/support/greedy_lm_cases.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using namespace test;

class GpuLanguageModel : public TempFolder {
 protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
  }
  const at::Device device_{at::kCUDA, 0};
};

TEST_F(GpuLanguageModel, EvaluationEqualsTheCpu) {
  std::mt19937 random(21);
  for (int trial = 0; trial < 24; ++trial) {
    const int order = 2 + trial % 4, vocabulary = order < 4 ? 300 : 7;
    const auto file = write(
        "lm.arpa", to_arpa(random_ngrams(random, order, vocabulary), TokenForm::number, random));
    const NgramLm cpu = load_ngram_lm(file, vocabulary, {}), gpu = cpu.to(device_);
    const int64_t all_states = cpu.arrays().context.size(0);
    for (const int64_t rows : {0, 1, 200}) {
      const at::Tensor states = at::randint(0, all_states, {rows}, at::kInt);
      const at::Tensor labels = at::randint(-1, vocabulary + 1, {rows, 5}, at::kLong);
      const auto same = [](const at::Tensor& on_gpu, const at::Tensor& on_cpu) {
        return at::equal(on_gpu.cpu(), on_cpu);
      };
      const at::Tensor at_gpu = states.to(device_), labels_gpu = labels.to(device_);
      const auto step = gpu.advance(at_gpu), expected = cpu.advance(states);
      EXPECT_TRUE(same(step.scores, expected.scores));
      EXPECT_TRUE(same(step.next, expected.next));
      EXPECT_TRUE(same(gpu.scores(at_gpu), expected.scores));
      const auto some = gpu.lookup(at_gpu, labels_gpu), expected_some = cpu.lookup(states, labels);
      EXPECT_TRUE(same(some.scores, expected_some.scores));
      EXPECT_TRUE(same(some.next, expected_some.next));
      EXPECT_TRUE(
          same(gpu.next_states(at_gpu, labels_gpu.select(1, 0)), expected_some.next.select(1, 0)));
      EXPECT_TRUE(same(gpu.final_scores(at_gpu), cpu.final_scores(states)));
    }
  }
}

/// Returns the exact decoders and their graph forms.
std::vector<Arm> transducer_arms() {
  std::vector<Arm> arms = lm_arms();
  for (const char* loop : {"replay", "graph"}) {
    arms.push_back({"frame_looping", {{"loop", loop}}});
    arms.push_back({"label_looping", {{"loop", loop}}});
    arms.push_back({"label_looping", {{"loop", loop}, {"window", 4}}});
  }
  return arms;
}

TEST_F(GpuLanguageModel, TransducersEqualThePlainSearch) {
  std::mt19937 random(22);
  for (int trial = 0; trial < 24 && !HasFailure(); ++trial) {
    const Case c = random_case(random, kTransducerKinds[trial % 3], trial % 4 < 2);
    const int64_t max_symbols = std::vector<int64_t>{1, 2, 3, 10}[static_cast<size_t>(trial % 4)];
    const LmCase lm =
        random_lm(random, c.model.vocabulary, path("lm" + std::to_string(trial) + ".arpa"));
    const auto bonus = [&](const auto& t, int32_t k) { return lm.bonus(t, k); };
    for (Arm arm : transducer_arms()) {
      arm.options.update({{"max_symbols", max_symbols}, {"lm", lm.option}});
      for (const auto dtype : {at::kFloat, at::kBFloat16}) {  // both hold small integers exactly
        const auto found = run(arm.name, arm.options, c, device_, dtype);
        for (size_t b = 0; b < c.rows.size(); ++b) {
          expect_same(found[b], oracle(c.model, c.rows[b], max_symbols, bonus),
                      arm.name + arm.options.dump());
        }
      }
    }
  }
}

TEST_F(GpuLanguageModel, CtcEqualsThePlainSearchForBatchesOfEveryShape) {
  std::mt19937 random(23);
  constexpr int64_t kTokens = 5;
  const LmCase lm = random_lm(random, kTokens, path("lm.arpa"));
  for (const char* loop : {"host", "replay", "graph"}) {
    const auto decoder = make_decoder("ctc_greedy", {{"loop", loop}, {"lm", lm.option}}, "");
    decoder->prepare(identity_model(kTokens, device_), {4, 20});
    for (const auto& [batch, frames] : {std::pair{4, 20}, {2, 9}, {9, 70}, {1, 1}, {9, 130}}) {
      std::vector<Table> rows;
      for (int b = 0; b < batch; ++b) {
        const auto length = static_cast<int64_t>(random() % static_cast<unsigned>(frames + 1));
        rows.push_back(random_table(random, length, kTokens + 1));
      }
      const auto result = decoder->decode(batch_of(rows, kTokens + 1, device_));
      decoder->decode(batch_of({rows[0]}, kTokens + 1, device_));  // must not change `result`
      const auto found = result.to_host();
      for (size_t b = 0; b < rows.size(); ++b) expect_same(found[b], ctc_oracle(rows[b], lm), loop);
    }
  }
}

TEST_F(GpuLanguageModel, NoDecoderWaitsUndeclared) {
  std::mt19937 random(24);
  const Case c = random_case(random, true, false);
  const LmCase lm = random_lm(random, c.model.vocabulary, path("lm.arpa"));
  const auto silent = [&](const Arm& arm, std::shared_ptr<const AcousticModel> model) {
    const auto decoder = make_decoder(arm.name, arm.options, "");
    decoder->prepare(std::move(model), {8, 64});
    const int64_t columns = arm.name == "ctc_greedy" ? c.model.vocabulary + 1 : c.model.columns();
    const EncodedBatch batch = batch_of({random_table(random, 12, columns)}, columns, device_);
    decoder->decode(batch);
    EXPECT_NO_THROW(forbid_undeclared_syncs([&] { decoder->decode(batch); }))
        << arm.name << arm.options;
  };
  for (Arm arm : transducer_arms()) {
    arm.options["lm"] = lm.option;
    silent(arm, build(c.model, device_));
  }
  for (const char* loop : {"host", "replay", "graph"}) {
    silent({"ctc_greedy", {{"loop", loop}, {"lm", lm.option}}},
           identity_model(c.model.vocabulary, device_));
  }
}

}  // namespace
}  // namespace rtfx
