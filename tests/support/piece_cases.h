// Requirements on the Streams of every decoder, on any device.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "algorithms/decoder.h"
#include "base/error.h"
#include "tests/support/small_model.h"

namespace rtfx::test {

struct PieceCase {
  std::string decoder;
  nlohmann::json options;
  std::shared_ptr<const AcousticModel> model;
  bool same_sum = true;  // scores equal those of decode() in every bit
  std::vector<std::shared_ptr<const CompiledBias>> biases =
      {};                                  // row n has number n modulo their count
  std::optional<EncodedBatch> batch = {};  // replaces the random batch

  std::shared_ptr<const CompiledBias> bias_of(size_t row) const {
    return biases.empty() ? nullptr : biases[row % biases.size()];
  }

  std::string what() const { return decoder + " " + options.dump(); }
};

inline ModelConfig with_durations(ModelConfig config, std::vector<int64_t> durations) {
  config.durations = std::move(durations);
  return config;
}

inline void expect_same(const Hypothesis& streamed, Hypothesis whole, const std::string& what,
                        bool same_sum = true) {
  if (!same_sum) {
    EXPECT_NEAR(streamed.score, whole.score, 1e-4 * (1 + std::abs(whole.score))) << what;
    whole.score = streamed.score;
  }
  EXPECT_EQ(streamed.tokens, whole.tokens) << what;
  EXPECT_EQ(streamed.frames, whole.frames) << what;
  EXPECT_EQ(streamed.durations, whole.durations) << what;
  EXPECT_EQ(streamed.score, whole.score) << what;
  ASSERT_EQ(streamed.nbest.size(), whole.nbest.size()) << what;
  for (size_t n = 0; n < whole.nbest.size(); ++n)
    EXPECT_EQ(streamed.nbest[n], whole.nbest[n]) << what << " entry " << n;
}

/// Returns one piece of each row in `rows`: `cut` frames from `begin` on. Values behind a shorter
/// piece are NaN.
inline EncodedBatch pieces_of(const at::Tensor& frames, const std::vector<size_t>& rows,
                              const std::vector<int64_t>& begin, const std::vector<int64_t>& cut) {
  EncodedBatch pieces;
  pieces.lengths_host = cut;
  pieces.frames = at::full({static_cast<int64_t>(rows.size()), pieces.longest(), frames.size(2)},
                           std::numeric_limits<double>::quiet_NaN(), frames.options());
  for (size_t i = 0; i < rows.size(); ++i) {
    pieces.frames[static_cast<int64_t>(i)]
        .narrow(0, 0, cut[i])
        .copy_(frames[static_cast<int64_t>(rows[i])].narrow(0, begin[i], cut[i]));
  }
  return pieces;
}

/// Expects that utterances in random pieces give the results of decode(). Some pieces have no
/// frame, and some are longer than a batch. Other streams come and go meanwhile.
inline void random_pieces(const PieceCase& c, uint32_t seed, int64_t rows = 5,
                          int64_t longest = 23) {
  const auto decoder = make_decoder(c.decoder, c.options, "");
  decoder->prepare(c.model, {});
  std::mt19937 random(seed);
  at::manual_seed(seed);
  EncodedBatch batch = c.batch ? *c.batch
                               : random_batch(random, rows, longest, c.model->config.encoder.width,
                                              c.model->device, c.model->dtype);
  rows = std::ssize(batch.lengths_host);
  for (size_t row = 0; row < batch.lengths_host.size() && !c.biases.empty(); ++row)
    batch.biases.push_back(c.bias_of(row));
  const std::vector<Hypothesis> whole = decoder->decode(batch).to_host();
  const auto streams = decoder->streams({rows, 4});
  ASSERT_NE(streams, nullptr) << c.what();
  const at::Tensor projected = streams->project(batch.frames);
  const auto below = [&](int64_t n) {
    return std::uniform_int_distribution<int64_t>(0, n - 1)(random);
  };
  struct Open {
    size_t row;
    int64_t number, frame = 0, stable = 0;
  };
  std::vector<Open> open;
  int64_t finished = 0;
  while (finished < 3 * rows && !testing::Test::HasFailure()) {
    while (static_cast<int64_t>(open.size()) < 2 * rows) {
      open.push_back({static_cast<size_t>(below(rows)), streams->open()});
      if (!c.biases.empty()) streams->set_bias(open.back().number, c.bias_of(open.back().row));
    }
    std::vector<int64_t> numbers, begin, cut;
    std::vector<size_t> of;
    for (Open& stream : open) {
      if (below(3) == 0) continue;
      const int64_t left = batch.lengths_host[stream.row] - stream.frame;
      numbers.push_back(stream.number);
      of.push_back(stream.row);
      begin.push_back(stream.frame);
      cut.push_back(std::min(left, below(4) == 0 ? below(longest) : below(4)));
      stream.frame += cut.back();
    }
    if (numbers.empty()) continue;
    streams->push(numbers, pieces_of(projected, of, begin, cut));
    for (size_t i = 0; i < open.size();) {
      Open& stream = open[i];
      const PartialResult partial = streams->partial(stream.number);
      EXPECT_GE(partial.stable, stream.stable) << c.what();
      stream.stable = partial.stable;
      const bool ends = stream.frame == batch.lengths_host[stream.row];
      if (ends) {
        const Hypothesis result = streams->finish(stream.number);
        expect_same(result, whole[stream.row], fmt::format("{} row {}", c.what(), stream.row),
                    c.same_sum);
        for (int64_t t = 0; t < stream.stable; ++t)
          EXPECT_EQ(partial.best.tokens[static_cast<size_t>(t)],
                    result.tokens[static_cast<size_t>(t)]);
        EXPECT_THROW(streams->push({&stream.number, 1}, pieces_of(projected, {0}, {0}, {0})),
                     UserError);
        ++finished;
      } else if (below(12) == 0) {
        streams->close(stream.number);
      } else {
        ++i;
        continue;
      }
      open.erase(open.begin() + static_cast<ptrdiff_t>(i));
    }
  }
}

inline void wrong_pushes(const PieceCase& c) {
  const auto decoder = make_decoder(c.decoder, c.options, "");
  decoder->prepare(c.model, {});
  const auto streams = decoder->streams({2, 4});
  const int64_t width = c.model->config.encoder.width;
  const at::Tensor frames = streams->project(
      at::ones({1, 3, width}, at::TensorOptions(c.model->dtype).device(c.model->device)));
  const int64_t stream = streams->open();
  const auto push = [&](const std::vector<int64_t>& numbers, const at::Tensor& rows,
                        const std::vector<int64_t>& lengths) {
    streams->push(numbers, {rows, {}, lengths});
  };
  push({stream}, frames, {3});
  const Hypothesis before = streams->partial(stream).best;
  EXPECT_THROW(push({stream + 1}, frames, {3}), UserError) << c.what();
  EXPECT_THROW(push({stream, stream}, at::cat({frames, frames}), {3, 3}), UserError) << c.what();
  EXPECT_THROW(push({stream}, frames, {4}), UserError) << c.what();
  EXPECT_THROW(push({stream}, frames, {-1}), UserError) << c.what();
  EXPECT_THROW(push({stream}, frames, {3, 3}), UserError) << c.what();
  EXPECT_THROW(push({stream}, frames.narrow(2, 0, 1), {3}), UserError) << c.what();
  EXPECT_THROW(push({stream}, frames.to(at::kDouble), {3}), UserError) << c.what();
  EXPECT_THROW(push({stream}, {}, {3}), UserError) << c.what();
  EXPECT_EQ(streams->partial(stream).best, before) << c.what();
  streams->finish(stream);
  EXPECT_THROW(streams->finish(stream), UserError) << c.what();
  EXPECT_THROW(streams->partial(stream), UserError) << c.what();
  EXPECT_THROW(streams->close(stream), UserError) << c.what();
}

inline std::vector<PieceCase> piece_cases(at::Device device, at::ScalarType dtype) {
  const ModelConfig config = small_config();
  const auto tdt = random_model(config, 1, device, dtype);
  const auto rnnt = random_model(with_durations(config, {}), 2, device, dtype);
  ModelConfig blanks = with_durations(config, {});
  blanks.blank_durations = {8, 4, 2, 1};
  const auto multiblank = random_model(blanks, 3, device, dtype);
  std::vector<PieceCase> cases;
  for (const auto& model : {rnnt, tdt, multiblank}) {
    for (const nlohmann::json& options :
         {R"({})"_json, R"({"window": 4})"_json,
          R"({"project_encoder_once": false, "score_kind": "logprob", "max_symbols": 2})"_json})
      cases.push_back({"label_looping", options, model});
    cases.push_back({"frame_looping", R"({})"_json, model});
    cases.push_back(
        {"frame_looping", R"({"max_symbols": 2, "cache_predictor": true})"_json, model});
    if (model == multiblank) break;
    for (const char* beam : {"alsd_pp", "aes_pp", "modified_beam_search"}) {
      cases.push_back({beam, R"({"nbest": 4})"_json, model});
      cases.push_back({beam, R"({"beam_size": 3, "score_norm": false})"_json, model});
    }
  }
  cases.push_back(
      {"alsd_pp", R"({"merge_finished": true, "nbest": 2, "max_symbols": 3})"_json, tdt});
  cases.push_back({"ctc_greedy", R"({})"_json, rnnt, /*same_sum=*/false});
  cases.push_back({"ctc_beam", R"({"nbest": 3})"_json, rnnt});
  cases.push_back(
      {"ctc_beam", R"({"beam_size": 8, "merge": "max", "score_norm": true})"_json, rnnt});
  return cases;
}

}  // namespace rtfx::test
