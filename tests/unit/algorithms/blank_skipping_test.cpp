// Tests frame skipping by CTC in batches, streams and decoding graphs. Each search with it equals
// the plain search of the kept frames, which an oracle picks. Frames of tokens count in the whole
// utterance.
#include "algorithms/shared/skipping/blank_skipping.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "algorithms/gpu/host_read.h"
#include "algorithms/shared/replay/replay.h"
#include "base/error.h"
#include "tests/support/greedy_lm_cases.h"
#include "tests/support/own_path.h"
#include "tests/support/piece_cases.h"
#include "tests/support/skipping_cases.h"
#include "tests/support/wfst_cases.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using namespace test;

TEST(BlankSkipping, EqualsASearchOfTheKeptFrames) {
  at::manual_seed(3);
  std::mt19937 random(51);
  int64_t skipped = 0, tokens = 0;
  const auto model = random_model(rnnt_config(), 8);
  for (const double threshold : {0.02, 0.05, 0.1, 0.2}) {
    for (int n = 0; n < 2; ++n) {
      const EncodedBatch batch = random_batch(random, 6, 30, model->config.encoder.width);
      for (const Arm& arm : skipping_arms())
        expect_skips(arm, model, batch, threshold, skipped, tokens);
    }
  }
  EXPECT_GT(skipped, 1000);
  EXPECT_GT(tokens, 1000);
}

TEST(BlankSkipping, DropsNothingAt1) {
  at::manual_seed(4);
  std::mt19937 random(52);
  const auto model = random_model(rnnt_config(), 9);
  const EncodedBatch batch = random_batch(random, 5, 25, model->config.encoder.width);
  for (const Arm& arm : skipping_arms()) {
    nlohmann::json options = arm.options;
    const auto plain = make_decoder(arm.name, options, "");
    options["skip_blank"] = 1;
    const auto decoder = make_decoder(arm.name, options, "");
    for (const auto& d : {plain.get(), decoder.get()}) d->prepare(model, {});
    EXPECT_EQ(decoder->decode(batch).to_host(), plain->decode(batch).to_host())
        << arm.name << options;
    EXPECT_EQ(decoder->counters().at("frames_skipped"), 0);
    const Counters before = plain->counters();
    const auto reads = before.contains("host_reads") ? before.at("host_reads") : 0;
    EXPECT_EQ(decoder->counters().at("host_reads"), reads + 1) << arm.name;
  }
}

TEST(BlankSkipping, OfARowDoesNotDependOnTheOthers) {
  at::manual_seed(5);
  std::mt19937 random(53);
  const auto model = random_model(rnnt_config(), 8);
  const EncodedBatch batch = random_batch(random, 6, 30, model->config.encoder.width);
  for (const Arm& arm : skipping_arms()) {
    nlohmann::json options = arm.options;
    options["skip_blank"] = 0.05;
    const auto decoder = make_decoder(arm.name, options, "");
    decoder->prepare(model, {});
    const auto together = decoder->decode(batch).to_host();
    for (size_t b = 0; b < together.size(); ++b) {
      const auto row = static_cast<int64_t>(b);
      const EncodedBatch alone{
          batch.frames.narrow(0, row, 1), batch.lengths.narrow(0, row, 1), {batch.lengths_host[b]}};
      const Hypothesis found = decoder->decode(alone).to_host()[0];
      EXPECT_EQ(found.tokens, together[b].tokens) << arm.name << " row " << b;
      EXPECT_EQ(found.frames, together[b].frames) << arm.name << " row " << b;
    }
  }
}

/// Returns the logits of one utterance. Each frame has its label, a token (0 to 2) or blank (3),
/// with probability 0.99998.
EncodedBatch utterance_of(const std::vector<int64_t>& labels) {
  Table logits;
  for (const int64_t label : labels) {
    logits.emplace_back(4, 0.0);
    logits.back()[static_cast<size_t>(label)] = 12;
  }
  return batch_of({logits}, 4);
}

TEST(BlankSkipping, KeepsABlankBetweenEqualTokensOfACtcHead) {
  for (const char* kernels : {"operators", "fused"}) {
    const auto decoder =
        make_decoder("ctc_beam", {{"beam_size", 3}, {"skip_blank", 0.9}, {"kernels", kernels}}, "");
    decoder->prepare(identity_model(3), {});
    const Hypothesis h = decoder->decode(utterance_of({3, 3, 1, 3, 3, 3, 1, 1, 3})).to_host()[0];
    EXPECT_EQ(h.tokens, (std::vector<int32_t>{1, 1}));
    EXPECT_EQ(h.frames, (std::vector<int32_t>{2, 6}));
    EXPECT_EQ(decoder->counters().at("frames"), 9);
    EXPECT_EQ(decoder->counters().at("frames_skipped"), 3);  // in runs of 2, 3 and 1 blanks
  }
}

TEST(BlankSkipping, KeepsThatBlankAcrossPiecesOfAStream) {
  const auto decoder = make_decoder("ctc_beam", {{"beam_size", 3}, {"skip_blank", 0.9}}, "");
  decoder->prepare(identity_model(3), {});
  const auto streams = decoder->streams({1, 4});
  const int64_t stream = streams->open();
  for (const std::vector<int64_t>& piece : {std::vector<int64_t>{3, 1, 3}, {3, 3}, {3, 1}}) {
    const EncodedBatch frames = utterance_of(piece);
    streams->push({&stream, 1}, {streams->project(frames.frames), {}, frames.lengths_host});
  }
  EXPECT_EQ(streams->partial(stream).best.frames, (std::vector<int32_t>{1, 6}));
  const Hypothesis h = streams->finish(stream);
  EXPECT_EQ(h.tokens, (std::vector<int32_t>{1, 1}));
  EXPECT_EQ(h.frames, (std::vector<int32_t>{1, 6}));
}

TEST(BlankSkipping, PiecesOfStreamsEqualTheWhole) {
  const auto model = random_model(rnnt_config(), 8);
  for (const Arm& arm : skipping_arms()) {
    nlohmann::json options = arm.options;
    for (const double threshold : {0.03, 0.3}) {
      options["skip_blank"] = threshold;
      if (!HasFailure()) random_pieces({arm.name, options, model}, 1);
    }
    wrong_pushes({arm.name, options, model});
  }
}

TEST(BlankSkipping, MapsWordsOfAGraph) {
  const WfstGraph graph = two_token_graph(Topology::normal);
  const auto path = own_path("two.tlg");
  graph.write(path);
  const nlohmann::json plain = {{"graph", path.string()}, {"acoustic_scale", 1}, {"nbest", 2}};
  nlohmann::json options = plain;
  options["skip_blank"] = 0.9;
  const auto batch = [](const std::vector<std::vector<double>>& rows) {
    const auto length = static_cast<int64_t>(rows.size());
    return EncodedBatch{
        at::tensor(logs(rows)).view({1, length, 3}), at::tensor({length}, at::kLong), {length}};
  };
  const std::vector<double> blank = {.01, .01, .98}, a = {.6, .1, .3}, b = {.1, .7, .2};
  const auto decode = [&](const nlohmann::json& with,
                          const std::vector<std::vector<double>>& rows) {
    const auto decoder = make_decoder("ctc_wfst_cpu", with, "");
    decoder->prepare(identity_model(2), {});
    return decoder->decode(batch(rows)).to_host()[0];
  };
  const Hypothesis h = decode(options, {blank, blank, a, blank, blank, blank, b, blank});
  EXPECT_EQ(h.tokens, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(h.frames, (std::vector<int32_t>{2, 6}));
  ASSERT_TRUE(h.words.has_value());
  Hypothesis kept = decode(plain, {blank, a, blank, b, blank});
  EXPECT_EQ(h.score, kept.score);
  const std::vector<int32_t> origins = {0, 2, 3, 6, 7};
  for (FoundWord& word : *kept.words) word.frame = origins[static_cast<size_t>(word.frame)];
  EXPECT_EQ(h.words, kept.words);
  ASSERT_EQ(h.nbest.size(), kept.nbest.size());
  ASSERT_GT(h.nbest.size(), 1u);
  for (size_t n = 0; n < h.nbest.size(); ++n)
    EXPECT_EQ(h.nbest[n].frames, mapped(kept.nbest[n], origins).frames) << n;

  options.erase("nbest");
  const auto decoder = make_decoder("ctc_wfst_cpu", options, "");
  decoder->prepare(identity_model(2), {});
  const auto streams = decoder->streams({1, 4});
  const int64_t stream = streams->open();
  using Piece = std::vector<std::vector<double>>;
  for (const Piece& piece : {Piece{blank, blank, a}, {blank, blank}, {blank, b, blank}}) {
    const EncodedBatch frames = batch(piece);
    streams->push({&stream, 1}, {streams->project(frames.frames), {}, frames.lengths_host});
  }
  const Hypothesis streamed = streams->finish(stream);
  EXPECT_EQ(streamed.frames, h.frames);
  EXPECT_EQ(streamed.words, h.words);
}

TEST(BlankSkipping, ReadsTheDeviceOnceMore) {
  at::manual_seed(6);
  std::mt19937 random(54);
  const auto model = random_model(rnnt_config(), 8);
  const auto decoder = make_decoder("ctc_beam", {{"skip_blank", 0.05}}, "");
  decoder->prepare(model, {});
  const EncodedBatch batch = random_batch(random, 4, 20, model->config.encoder.width);
  EXPECT_NO_THROW(forbid_undeclared_syncs([&] { decoder->decode(batch); }));
}

TEST(BlankSkipping, FindsNaN) {
  at::manual_seed(7);
  std::mt19937 random(55);
  const auto model = random_model(rnnt_config(), 8);
  EncodedBatch batch = random_batch(random, 3, 20, model->config.encoder.width);
  while (batch.lengths_host[1] < 3)
    batch = random_batch(random, 3, 20, model->config.encoder.width);
  batch.frames[1][1].fill_(std::numeric_limits<double>::quiet_NaN());
  for (const Arm& arm : skipping_arms()) {
    nlohmann::json options = arm.options;
    options["skip_blank"] = 0.01;
    const auto decoder = make_decoder(arm.name, options, "");
    decoder->prepare(model, {});
    const auto found = decoder->decode(batch).to_host();
    EXPECT_FALSE(found[0].nan || found[2].nan) << arm.name;
    EXPECT_TRUE(found[1].nan) << arm.name;
  }
}

TEST(BlankSkipping, TakesBatchesWithoutFrames) {
  const auto model = random_model(rnnt_config(), 8);
  for (const Arm& arm : skipping_arms()) {
    nlohmann::json options = arm.options;
    options["skip_blank"] = 0.5;
    const auto decoder = make_decoder(arm.name, options, "");
    decoder->prepare(model, {});
    const EncodedBatch batch{
        at::zeros({2, 3, model->config.encoder.width}), at::zeros({2}, at::kLong), {0, 0}};
    for (const Hypothesis& h : decoder->decode(batch).to_host()) EXPECT_TRUE(h.tokens.empty());
    EXPECT_EQ(decoder->counters().at("frames"), 0) << arm.name;
  }
}

TEST(BlankSkipping, NeedsACtcHead) {
  std::mt19937 random(56);
  const auto decoder = make_decoder("label_looping", {{"skip_blank", 0.9}}, "");
  const auto model = build(random_case(random, false, false).model);
  const auto error = user_error([&] { decoder->prepare(model, {}); });
  EXPECT_HAS(error, "label_looping: \"skip_blank\" drops frames by the CTC head");
  EXPECT_HAS(error, "leave out \"skip_blank\"");
}

/// Durations count frames of the whole utterance, so a search that follows them refuses to drop
/// frames. A search of the CTC head follows none.
TEST(BlankSkipping, RefusesDurations) {
  ModelConfig big_blanks = rnnt_config();
  big_blanks.blank_durations = {1, 2, 4};
  for (const ModelConfig& config : {with_durations(small_config(), {0, 1, 2, 3, 4}), big_blanks}) {
    const auto model = random_model(config, 8);
    const auto decoder = make_decoder("label_looping", {{"skip_blank", 0.9}}, "");
    EXPECT_EQ(decoder->describe().model_kinds, (std::vector<std::string>{"rnnt"}));
    const auto error = user_error([&] { decoder->prepare(model, {}); });
    EXPECT_HAS(error, "label_looping: \"skip_blank\" drops frames, which the durations");
    EXPECT_HAS(error, "leave out \"skip_blank\"");
    EXPECT_NO_THROW(make_decoder("ctc_beam", {{"skip_blank", 0.9}}, "")->prepare(model, {}));
  }
}

TEST(BlankSkipping, RefusesThresholdsOutsideOfItsRange) {
  for (const nlohmann::json& wrong :
       {nlohmann::json(0), nlohmann::json(1.01), nlohmann::json(-1), nlohmann::json("much")}) {
    const auto error = user_error([&] {
      make_decoder("label_looping", {{"skip_blank", wrong}}, "/o");
    });
    EXPECT_HAS(error, "/o/skip_blank: ");
    EXPECT_HAS(error, "a number 0.001..1");
  }
  const auto off = make_decoder("label_looping", {{"skip_blank", nullptr}}, "");
  EXPECT_TRUE(off->options().at("skip_blank").is_null());
  EXPECT_EQ(off->describe().exactness, Description::Exactness::exact);
}

TEST(BlankSkipping, MakesADecoderApproximateWithARuleOfItsOwn) {
  for (const Arm& arm : skipping_arms()) {
    const auto decoder = make_decoder(arm.name, {{"skip_blank", 0.9}}, "");
    EXPECT_EQ(decoder->options().at("skip_blank"), 0.9);
    EXPECT_EQ(decoder->describe().exactness, Description::Exactness::approximate) << arm.name;
    EXPECT_FALSE(ReplayRules::from(decoder->describe(), decoder->options())) << arm.name;
  }
}

}  // namespace
}  // namespace rtfx
