// Tests utterances in pieces, with every decoder that takes them.
#include <gtest/gtest.h>

#include "algorithms/shared/biasing/compiled_bias.h"
#include "tests/support/piece_cases.h"
#include "tests/support/small_lm.h"

namespace rtfx {
namespace {

using test::PieceCase;

TEST(Streams, RandomPiecesGiveTheResultsOfDecode) {
  for (const PieceCase& c : test::piece_cases(at::kCPU, at::kFloat)) {
    for (uint32_t seed = 0; seed < 3 && !HasFailure(); ++seed) test::random_pieces(c, seed);
  }
}

TEST(Streams, RandomPiecesInHalfPrecision) {
  for (const PieceCase& c : test::piece_cases(at::kCPU, at::kBFloat16)) test::random_pieces(c, 7);
}

TEST(Streams, RandomPiecesWithALanguageModel) {
  const ModelConfig config = test::small_config();
  const test::SmallLm lm(config.vocabulary);
  const nlohmann::json greedy = {{"lm", {{"path", lm.path()}, {"alpha", 2.0}}}};
  const auto model = test::random_model(config, 3);
  for (const char* decoder :
       {"label_looping", "frame_looping", "alsd_pp", "aes_pp", "modified_beam_search", "ctc_beam"})
    for (uint32_t seed = 0; seed < 4; ++seed) test::random_pieces({decoder, greedy, model}, seed);
  for (uint32_t seed = 0; seed < 4; ++seed)
    test::random_pieces({"ctc_greedy", greedy, model, /*same_sum=*/false}, seed);
}

std::shared_ptr<const CompiledBias> bias_of(const std::vector<PhraseTokens>& phrases) {
  auto bias = std::make_shared<CompiledBias>();
  bias->tree = make_phrase_tree(phrases, {0.5, 0, 2, /*nemo=*/false});
  return bias;
}

/// Some streams have phrases of their own, some also have a mask, and some have nothing.
TEST(Streams, RandomPiecesWithPhrasesOfTheirOwn) {
  const ModelConfig config = test::small_config();
  auto masked = std::make_shared<CompiledBias>(*bias_of({{{3, 4, 5}, 1}, {{4, 4}, 2}}));
  masked->forbidden = at::zeros({config.vocabulary}, at::kBool);
  masked->forbidden.narrow(0, 0, 3).fill_(true);
  const std::vector<std::shared_ptr<const CompiledBias>> biases = {
      bias_of({{{1, 2}, 1}, {{7, 8, 9}, 1}}), nullptr, masked};
  const auto model = test::random_model(config, 8);
  const nlohmann::json boost = {{"boost", nlohmann::json::object()}};
  for (const char* decoder :
       {"label_looping", "frame_looping", "alsd_pp", "aes_pp", "modified_beam_search", "ctc_beam"})
    for (uint32_t seed = 0; seed < 4; ++seed)
      test::random_pieces({decoder, boost, model, true, biases}, seed);
  for (uint32_t seed = 0; seed < 4; ++seed)
    test::random_pieces({"ctc_greedy", boost, model, false, biases}, seed);
}

/// New phrases count from the next piece on. Tokens that a stream has returned stay.
TEST(Streams, PhrasesThatChangeWhileAStreamRuns) {
  const auto model = test::random_model(test::small_config(), 9);
  const auto decoder = make_decoder("label_looping", {{"boost", nlohmann::json::object()}}, "");
  decoder->prepare(model, {});
  const auto streams = decoder->streams({2, 4});
  at::manual_seed(1);
  const at::Tensor frames = streams->project(3 * at::randn({1, 20, model->config.encoder.width}));
  const auto push = [&](int64_t stream, int64_t begin, int64_t end) {
    streams->push({&stream, 1}, {frames.narrow(1, begin, end - begin), {}, {end - begin}, {}});
  };
  const int64_t plain = streams->open(), changing = streams->open(), whole = streams->open();
  const auto strong = std::make_shared<CompiledBias>();
  strong->tree = make_phrase_tree({{{1}, 1}, {{2}, 1}}, {0, 0, 1000, /*nemo=*/false});
  streams->set_bias(whole, strong);
  for (const int64_t stream : {plain, changing, whole}) push(stream, 0, 10);
  EXPECT_EQ(streams->partial(plain).best, streams->partial(changing).best);
  EXPECT_NE(streams->partial(plain).best.tokens, streams->partial(whole).best.tokens);
  const size_t before = streams->partial(plain).best.tokens.size();
  streams->set_bias(changing, strong);
  for (const int64_t stream : {plain, changing, whole}) push(stream, 10, 20);
  const Hypothesis changed = streams->finish(changing), same = streams->finish(plain);
  ASSERT_GT(changed.tokens.size(), before);
  for (size_t i = before; i < changed.tokens.size(); ++i)
    EXPECT_TRUE(changed.tokens[i] == 1 || changed.tokens[i] == 2) << i;
  EXPECT_NE(changed.tokens, same.tokens);
}

TEST(Streams, ADecoderWithoutPhrasesSaysSo) {
  const auto decoder = make_decoder("label_looping", {{"loop", "script"}}, "");
  decoder->prepare(test::random_model(test::small_config(), 9), {});
  const auto streams = decoder->streams({1, 4});
  EXPECT_THROW(streams->set_bias(streams->open(), nullptr), UserError);
}

/// Greedy searches keep no frames of pieces that fit into a batch. One call has ten streams, more
/// than the five rows of a batch.
TEST(Streams, PiecesThatFitGiveTheResultsOfDecode) {
  const auto model = test::random_model(test::small_config(), 10);
  std::mt19937 random(1);
  at::manual_seed(1);
  const EncodedBatch batch =
      test::random_batch(random, 5, 30, model->config.encoder.width, model->device, model->dtype);
  for (const char* name : {"label_looping", "frame_looping"}) {
    const auto decoder = make_decoder(name, {}, "");
    decoder->prepare(model, {});
    const std::vector<Hypothesis> whole = decoder->decode(batch).to_host();
    const auto streams = decoder->streams({5, 4});
    const at::Tensor projected = streams->project(batch.frames);
    const std::vector<size_t> rows = {0, 1, 2, 3, 4, 4, 3, 2, 1, 0};
    for (int round = 0; round < 2; ++round) {  // the second round reuses the slots
      std::vector<int64_t> numbers, begin(rows.size());
      while (numbers.size() < rows.size()) numbers.push_back(streams->open());
      for (int64_t step = 0; step < 31; ++step) {
        std::vector<int64_t> cut;
        for (size_t i = 0; i < rows.size(); ++i)
          cut.push_back(std::min(batch.lengths_host[rows[i]] - begin[i], (2 * round + step) % 5));
        streams->push(numbers, test::pieces_of(projected, rows, begin, cut));
        for (size_t i = 0; i < rows.size(); ++i) begin[i] += cut[i];
      }
      for (size_t i = 0; i < rows.size(); ++i)
        test::expect_same(streams->finish(numbers[i]), whole[rows[i]], name);
    }
  }
}

/// Any number of hypotheses may lag behind, by any number of frames.
TEST(Streams, BeamsKeepFramesThatSomeHypothesesHaveNotPassed) {
  const auto model = test::random_model(test::small_config(), 4);
  for (uint32_t seed = 0; seed < 4; ++seed) {
    for (const char* decoder : {"alsd_pp", "modified_beam_search"})
      test::random_pieces({decoder, {{"beam_size", 12}, {"nbest", 12}}, model}, seed, 3, 60);
  }
}

TEST(Streams, WrongPushesAreRefusedAndChangeNothing) {
  for (const PieceCase& c : test::piece_cases(at::kCPU, at::kFloat)) test::wrong_pushes(c);
}

TEST(Streams, DecodersSayWhetherTheyHaveThem) {
  const auto model = test::random_model(test::small_config(), 5);
  for (const char* name : {"alsd", "aes", "step_replay", "tdt_min_duration", "null"}) {
    const auto decoder = make_decoder(name, {}, "");
    decoder->prepare(model, {});
    EXPECT_FALSE(decoder->describe().streams) << name;
    EXPECT_EQ(decoder->streams({}), nullptr) << name;
  }
  for (const PieceCase& c : test::piece_cases(at::kCPU, at::kFloat))
    EXPECT_TRUE(make_decoder(c.decoder, c.options, "")->describe().streams) << c.what();
}

TEST(Streams, ANaNMarksTheResult) {
  const auto model = test::random_model(test::small_config(), 6);
  for (const char* name : {"label_looping", "frame_looping", "alsd_pp", "aes_pp",
                           "modified_beam_search", "ctc_greedy", "ctc_beam"}) {
    const auto decoder = make_decoder(name, {}, "");
    decoder->prepare(model, {});
    const auto streams = decoder->streams({1, 4});
    at::Tensor frames = at::randn({1, 3, model->config.encoder.width});
    const int64_t stream = streams->open();
    streams->push({&stream, 1}, {streams->project(frames), {}, {3}});
    EXPECT_FALSE(streams->partial(stream).best.nan) << name;
    frames[0][1][0] = std::numeric_limits<float>::quiet_NaN();
    streams->push({&stream, 1}, {streams->project(frames), {}, {3}});
    EXPECT_TRUE(streams->partial(stream).best.nan) << name;
    EXPECT_TRUE(streams->finish(stream).nan) << name;
  }
}

}  // namespace
}  // namespace rtfx
