// Compares the kernel of ctc_greedy (DeviceCollapse) with LibTorch's operators on the same GPU.
// Tokens, frames and marks of NaN are equal, and scores differ by the order of a sum at most.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <gtest/gtest.h>

#include <limits>

#include "algorithms/decoders/greedy/ctc_greedy/ctc_greedy.h"
#include "algorithms/decoders/greedy/ctc_greedy/device_collapse.h"
#include "algorithms/shared/biasing/compiled_bias.h"
#include "tests/support/boost_cases.h"
#include "tests/support/greedy_lm_cases.h"
#include "tests/support/small_lm.h"
#include "tests/support/small_model.h"

namespace rtfx {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Logits with few distinct values, so that many are equal, with runs of equal frames and many
/// blanks. Frames after the end of a row are NaN. The lengths are T', 0, 1 and random ones.
struct CollapseCase {
  at::Tensor logits, lengths;

  CollapseCase(int64_t rows, int64_t frames, int64_t columns, at::ScalarType dtype, int64_t seed) {
    const auto gpu = at::TensorOptions(at::kCUDA);
    at::manual_seed(static_cast<uint64_t>(seed));
    logits = at::randint(-3, 4, {rows, frames, columns}, gpu.dtype(at::kFloat));
    logits.select(2, columns - 1).add_(at::randint(0, 6, {rows, frames}, gpu.dtype(at::kFloat)));
    const at::Tensor frame = at::arange(frames, gpu.dtype(at::kLong));
    logits = logits.index_select(1, frame - frame % (1 + seed % 3)).to(dtype);
    lengths = at::randint(0, frames + 1, {rows}, at::TensorOptions(at::kLong));
    const int64_t given[] = {frames, 0, std::min<int64_t>(1, frames)};
    for (int64_t row = 0; row < std::min<int64_t>(3, rows); ++row) lengths[row] = given[row];
    lengths = lengths.to(at::kCUDA);
    logits.masked_fill_((frame.unsqueeze(0) >= lengths.unsqueeze(1)).unsqueeze(2), kNan);
  }
};

void expect_equal(const std::vector<Hypothesis>& found, const std::vector<Hypothesis>& expected,
                  const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t row = 0; row < found.size(); ++row) {
    const Hypothesis &h = found[row], &e = expected[row];
    EXPECT_EQ(h.tokens, e.tokens) << what << " row " << row;
    EXPECT_EQ(h.frames, e.frames) << what << " row " << row;
    EXPECT_EQ(h.nan, e.nan) << what << " row " << row;
    EXPECT_EQ(std::isnan(h.score), std::isnan(e.score)) << what << " row " << row;
    if (!std::isnan(e.score)) {
      EXPECT_NEAR(h.score, e.score, 1e-5 * (10 + std::abs(e.score))) << what << " row " << row;
    }
  }
}

class CtcGreedyGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
  }

  std::vector<Hypothesis> by_kernel(const at::Tensor& logits, const at::Tensor& lengths,
                                    const at::Tensor& forbidden = {}) {
    EXPECT_TRUE(DeviceCollapse::takes(logits));
    return collapse_(logits, lengths, forbidden).to_host();
  }
  static std::vector<Hypothesis> by_operators(const at::Tensor& logits, const at::Tensor& lengths) {
    return CtcGreedy::collapse(logits, lengths).to_host();
  }

  DeviceCollapse collapse_;  // one for all launches, so each must leave the counters at 0
};

TEST_F(CtcGreedyGpu, EqualsTheOperators) {
  int64_t seed = 0;
  size_t tokens = 0;
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const int64_t columns : {2, 31, 33, 511, 512, 513, 1025, 8193}) {
      for (const auto& [rows, frames] :
           {std::pair<int64_t, int64_t>{1, 1}, {1, 9}, {5, 70}, {33, 24}, {2, 0}, {3, 7}}) {
        const CollapseCase c(rows, frames, columns, dtype, ++seed);
        const auto found = by_kernel(c.logits, c.lengths);
        expect_equal(found, by_operators(c.logits, c.lengths),
                     fmt::format("{} columns, {} x {}", columns, rows, frames));
        for (const Hypothesis& h : found) tokens += h.tokens.size();
      }
    }
  }
  EXPECT_GT(tokens, 2000U);
}

TEST_F(CtcGreedyGpu, LongUtterancesTakeSeveralRounds) {
  for (const int64_t frames : {1023, 1024, 1025, 5000}) {
    const CollapseCase c(4, frames, 9, at::kBFloat16, frames);
    expect_equal(by_kernel(c.logits, c.lengths), by_operators(c.logits, c.lengths),
                 std::to_string(frames));
  }
}

TEST_F(CtcGreedyGpu, NanAndInfinityAreThoseOfTheOperators) {
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const CollapseCase c(9, 20, 70, dtype, 5);
    at::Tensor logits = c.logits.nan_to_num(0.0);
    logits[1][3].fill_(-kInfinity);  // no label is possible
    logits[2][19][69] = kInfinity;
    logits[3][0][0] = kNan;
    logits[4][8][40] = logits[4][8][69] = kNan;  // both NaN: the first one is the best label
    logits[5][8][40] = kNan;
    logits[5][8][2] = kInfinity;
    logits[6].narrow(1, 1, 60).fill_(-kInfinity);  // some lanes see no other value
    logits[7][4].fill_(-0.0);
    logits[7][4][50] = 0;  // equals -0, so the label is 0
    const at::Tensor lengths = at::full({9}, 20, c.lengths.options());
    const auto found = by_kernel(logits, lengths);
    expect_equal(found, by_operators(logits, lengths), c10::toString(dtype));
    EXPECT_TRUE(found[1].nan && found[2].nan && found[4].nan && std::isnan(found[2].score));
    EXPECT_TRUE(std::isfinite(found[6].score));
  }
}

TEST_F(CtcGreedyGpu, ForbiddenTokensAreNeverFound) {
  for (const int64_t columns : {2, 40, 1025}) {
    const CollapseCase c(6, 50, columns, at::kBFloat16, columns);
    at::Tensor forbidden =
        at::randint(0, 3, {6, columns - 1}, c.lengths.options()) > 0;  // forbids two of three
    forbidden[3].fill_(true);
    forbidden[4].fill_(false);
    at::Tensor masked = c.logits.clone();
    masked.narrow(2, 0, columns - 1).masked_fill_(forbidden.unsqueeze(1), -kInfinity);
    const auto found = by_kernel(c.logits, c.lengths, forbidden);
    expect_equal(found, by_operators(masked, c.lengths), std::to_string(columns));
    EXPECT_TRUE(found[3].tokens.empty());
  }
}

/// Frames need not be contiguous in memory, and the bits of a result do not depend on their place.
TEST_F(CtcGreedyGpu, ThePlaceOfAFrameDoesNotMatter) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const at::Tensor logits = 4 * at::randn({1, 30, 1025}, at::TensorOptions(at::kCUDA));
    const at::Tensor utterance = logits.to(dtype);
    const at::Tensor lengths = at::full({1}, 30, at::TensorOptions(at::kCUDA).dtype(at::kLong));
    const auto alone = by_kernel(utterance, lengths);
    expect_equal(alone, by_operators(utterance, lengths), "alone");
    for (int64_t row = 0; row < 4; ++row) {
      at::Tensor wide = at::randn({5, 41, 1030}, utterance.options());
      const at::Tensor batch = wide.narrow(2, row, 1025);
      batch[row].narrow(0, 0, 30).copy_(utterance[0]);
      const auto found = by_kernel(batch, lengths.expand({5}));
      EXPECT_EQ(found[static_cast<size_t>(row)], alone[0]) << row << ' ' << dtype;
    }
  }
}

TEST_F(CtcGreedyGpu, PiecesGiveTheResultOfTheWhole) {
  std::mt19937 random(8);
  for (int64_t trial = 0; trial < 12; ++trial) {
    const CollapseCase c(7, 60, 33 + 500 * (trial % 2), at::kBFloat16, trial);
    const auto whole = by_kernel(c.logits, c.lengths);
    CtcCarried carried{at::full_like(c.lengths, c.logits.size(2) - 1), at::zeros_like(c.lengths)};
    std::vector<Hypothesis> joined(whole.size());
    for (int64_t begin = 0; begin < 60;) {
      const int64_t count = std::min<int64_t>(60 - begin, static_cast<int64_t>(random() % 20));
      const at::Tensor lengths = (c.lengths - begin).clamp(0, count);
      const auto piece =
          collapse_(c.logits.narrow(1, begin, count), lengths, {}, &carried).to_host();
      for (size_t row = 0; row < piece.size(); ++row) {
        Hypothesis& h = joined[row];
        for (size_t i = 0; i < piece[row].tokens.size(); ++i) {
          h.tokens.push_back(piece[row].tokens[i]);
          h.frames.push_back(piece[row].frames[i] + static_cast<int32_t>(begin));
        }
        h.score = piece[row].score;
        h.nan = h.nan || piece[row].nan;
      }
      begin += count;
    }
    EXPECT_EQ(joined, whole) << trial;
  }
}

/// Whole batches of a model whose frames are its logits, with and without a mask of tokens, give
/// the results of the CPU.
TEST_F(CtcGreedyGpu, TheDecoderEqualsTheOneOnACpu) {
  constexpr int64_t kTokens = 40;
  const CollapseCase c(6, 50, kTokens + 1, at::kFloat, 4);
  auto mask = std::make_shared<CompiledBias>();
  mask->forbidden = at::arange(kTokens) % 3 == 0;
  for (const bool masked : {false, true}) {
    std::vector<std::vector<Hypothesis>> found;
    for (const at::Device device : {at::Device(at::kCUDA, 0), at::Device(at::kCPU)}) {
      const auto decoder = make_decoder("ctc_greedy", nlohmann::json::object(), "");
      decoder->prepare(test::identity_model(kTokens, device), {});
      EncodedBatch batch{c.logits.nan_to_num(0.0).to(device), c.lengths.to(device), {}};
      const at::Tensor lengths = c.lengths.cpu();
      for (int64_t row = 0; row < 6; ++row) {
        batch.lengths_host.push_back(lengths[row].item<int64_t>());
        if (masked) batch.biases.push_back(row % 2 == 0 ? mask : nullptr);
      }
      found.push_back(decoder->decode(batch).to_host());
    }
    expect_equal(found[0], found[1], masked ? "masked" : "plain");
  }
}

/// Returns the rows of a case as a batch for a model whose frames are its logits.
EncodedBatch batch_of(const CollapseCase& c) {
  EncodedBatch batch{c.logits.nan_to_num(0.0), c.lengths, {}};
  const at::Tensor lengths = c.lengths.cpu();
  for (int64_t row = 0; row < lengths.size(0); ++row)
    batch.lengths_host.push_back(lengths[row].item<int64_t>());
  return batch;
}

/// A language model or phrases with weight 0, and empty phrases, need no loop over frames.
TEST_F(CtcGreedyGpu, RecordedSearchesWithNothingToAddEqualThePlainOne) {
  constexpr int64_t kTokens = 40;
  const at::Device device(at::kCUDA, 0);
  const auto model = test::with_letters(test::identity_model(kTokens, device));
  const test::SmallLm lm(kTokens);
  nlohmann::json weight_zero = R"({"lm": {"alpha": 0}})"_json;
  weight_zero["lm"]["path"] = lm.path();
  const auto plain = make_decoder("ctc_greedy", nlohmann::json::object(), "");
  plain->prepare(model, {});
  size_t tokens = 0;
  for (nlohmann::json options :
       {R"({"boost": {}})"_json, R"({"boost": {"phrases": ["ab"], "scale": 0}})"_json,
        weight_zero}) {
    for (const char* loop : {"host", "replay", "graph"}) {
      options["loop"] = loop;
      const auto decoder = make_decoder("ctc_greedy", options, "");
      decoder->prepare(model, {4, 20});
      for (const auto& [rows, frames] : {std::pair<int64_t, int64_t>{4, 20}, {6, 90}, {2, 7}}) {
        const CollapseCase c(rows, frames, kTokens + 1, at::kFloat, rows);
        const auto expected = plain->decode(batch_of(c)).to_host();
        EXPECT_EQ(decoder->decode(batch_of(c)).to_host(), expected) << options << rows;
        for (const Hypothesis& h : expected) tokens += h.tokens.size();
      }
    }
  }
  EXPECT_GT(tokens, 100U);
}

TEST_F(CtcGreedyGpu, PhrasesOfAnotherRowChangeNoBit) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const auto model = test::random_model(test::small_config(), 8, at::Device(at::kCUDA, 0), dtype);
    auto phrases = std::make_shared<CompiledBias>();
    phrases->tree = make_phrase_tree({{{1, 2}, 1}, {{7}, 1}}, {0.5, 0, 20, /*nemo=*/false});
    for (const char* loop : {"host", "replay", "graph"}) {
      const auto decoder =
          make_decoder("ctc_greedy", {{"loop", loop}, {"boost", nlohmann::json::object()}}, "");
      decoder->prepare(model, {2, 24});
      at::manual_seed(3);
      const at::Tensor frames = 3 * at::randn({1, 24, model->config.encoder.width},
                                              at::TensorOptions(at::kCUDA).dtype(dtype));
      const auto decoded = [&](const std::shared_ptr<const CompiledBias>& of_other) {
        EncodedBatch batch{frames.repeat({2, 1, 1}),
                           at::full({2}, 24, at::TensorOptions(at::kCUDA).dtype(at::kLong)),
                           {24, 24}};
        if (of_other) batch.biases = {nullptr, of_other};
        return decoder->decode(batch).to_host();
      };
      const auto plain = decoded(nullptr), mixed = decoded(phrases);
      EXPECT_EQ(plain[0], plain[1]) << loop;
      EXPECT_EQ(mixed[0], plain[0]) << loop;
      EXPECT_NE(mixed[1], plain[1]) << loop;  // so the phrases have an effect
      EXPECT_EQ(decoded(nullptr), plain) << loop;
    }
  }
}

/// A recorded search reads its counters at a fixed address, which streams of more rows must not
/// change.
TEST_F(CtcGreedyGpu, StreamsOfMoreRowsLeaveARecordedSearchAlone) {
  constexpr int64_t kTokens = 40;
  const auto model = test::identity_model(kTokens, at::Device(at::kCUDA, 0));
  const auto plain = make_decoder("ctc_greedy", nlohmann::json::object(), "");
  plain->prepare(model, {});
  const auto recorded =
      make_decoder("ctc_greedy", {{"loop", "graph"}, {"boost", nlohmann::json::object()}}, "");
  recorded->prepare(model, {4, 64});
  const CollapseCase first(4, 50, kTokens + 1, at::kFloat, 1),
      second(4, 50, kTokens + 1, at::kFloat, 2);
  EXPECT_EQ(recorded->decode(batch_of(first)).to_host(), plain->decode(batch_of(first)).to_host());

  const auto streams = recorded->streams({64, 14});
  const int64_t numbers[] = {streams->open()};
  const at::Tensor piece = streams->project(batch_of(first).frames.narrow(0, 0, 1));
  streams->push(numbers, {piece.narrow(1, 0, 14), {}, {14}, {}});
  std::vector<at::Tensor> others;  // may take memory that was freed
  for (int i = 0; i < 100; ++i)
    others.push_back(at::full({4}, 1000, at::TensorOptions(at::kCUDA).dtype(at::kInt)));
  EXPECT_EQ(recorded->decode(batch_of(second)).to_host(),
            plain->decode(batch_of(second)).to_host());
}

/// If another row has phrases, operators search the batch, and the bits stay the same.
TEST_F(CtcGreedyGpu, PhrasesOfAnotherStreamChangeNoBit) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const auto model = test::random_model(test::small_config(), 8, at::Device(at::kCUDA, 0), dtype);
    const auto decoder = make_decoder("ctc_greedy", nlohmann::json::object(), "");
    decoder->prepare(model, {});
    const auto streams = decoder->streams({2, 6});
    auto phrases = std::make_shared<CompiledBias>();
    phrases->tree = make_phrase_tree({{{1, 2}, 1}, {{7}, 1}}, {0.5, 0, 20, /*nemo=*/false});
    at::manual_seed(3);
    const at::Tensor frames =
        streams
            ->project(3 * at::randn({1, 24, model->config.encoder.width},
                                    at::TensorOptions(at::kCUDA).dtype(dtype)))
            .expand({2, -1, -1});
    const auto pushed = [&](const std::shared_ptr<const CompiledBias>& of_other) {
      const int64_t numbers[] = {streams->open(), streams->open()};
      if (of_other) streams->set_bias(numbers[1], of_other);
      for (int64_t begin = 0; begin < 24; begin += 6)
        streams->push(numbers, {frames.narrow(1, begin, 6), {}, {6, 6}, {}});
      std::vector<Hypothesis> found;
      for (const int64_t number : numbers) found.push_back(streams->finish(number));
      return found;
    };
    const auto plain = pushed(nullptr), mixed = pushed(phrases);
    EXPECT_EQ(plain[0], plain[1]);
    EXPECT_EQ(mixed[0], plain[0]);
    EXPECT_NE(mixed[1], plain[1]);  // so the phrases have an effect
  }
}

}  // namespace
}  // namespace rtfx
