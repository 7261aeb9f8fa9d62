// Tests attention of every kind against its definition, over all pairs of frames, one score at a
// time.
#include "models/encoder/attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>

#include "models/checkpoint/config.h"
#include "tests/support/random_weights.h"
#include "tests/support/small_model.h"

namespace rtfx {
namespace {

constexpr int64_t kWidth = 16, kHeads = 2, kHeadWidth = 8;

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

TEST(RelativePositions, EqualTheSinusoids) {
  const at::Tensor table = relative_positions(3, 8, at::kFloat);
  ASSERT_EQ(table.size(0), 5);
  const std::vector<float> two = {0.909297f, -0.416147f, 0.198669f, 0.980067f,
                                  0.019999f, 0.999800f,  0.002000f, 0.999998f};
  const std::vector<float> minus_one = {-0.841471f, 0.540302f, -0.099833f, 0.995004f,
                                        -0.010000f, 0.999950f, -0.001000f, 1.000000f};
  EXPECT_LT(largest_difference(table[0], at::tensor(two)), 1e-6);
  EXPECT_LT(largest_difference(table[3], at::tensor(minus_one)), 1e-6);
  EXPECT_LT(largest_difference(table[2], at::tensor({0.f, 1.f, 0.f, 1.f, 0.f, 1.f, 0.f, 1.f})),
            1e-6);
}

TEST(RelativeShift, EqualsPadAndView) {
  const at::Tensor small =
      at::tensor({0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 20, 21, 22, 23, 24}).view({3, 5});
  EXPECT_TRUE(at::equal(relative_shift(small, 3),
                        at::tensor({2, 3, 4, 11, 12, 13, 20, 21, 22}).view({3, 3})));
  for (int64_t t = 1; t <= 8; ++t) {
    const at::Tensor scores = at::randn({2, 3, t, 2 * t - 1});
    const at::Tensor padded = at::constant_pad_nd(scores, {1, 0}).view({2, 3, 2 * t, t});
    const at::Tensor expected =
        padded.narrow(2, 1, 2 * t - 1).reshape({2, 3, t, 2 * t - 1}).narrow(3, 0, t);
    EXPECT_TRUE(at::equal(relative_shift(scores, t), expected)) << t;
  }
}

/// Returns the weights of one layer's attention, all of them random.
StateDict weights_of(const EncoderConfig& encoder) {
  ModelConfig config = test::small_config();
  config.encoder = encoder;
  StateDict weights = test::random_state_dict(config, 8);
  for (auto& [name, tensor] : weights) {
    if (name.find("self_attn") != std::string::npos) tensor.normal_(0, 0.5);
  }
  return weights;
}

WeightReader reader_of(const StateDict& weights) {
  return {weights, "encoder.layers.0.self_attn.", at::kCPU, at::kFloat};
}

/// Returns the position of query i relative to key j, or none if the pair has no position.
using Position = std::function<std::optional<double>(int64_t, int64_t)>;
using Sees = std::function<bool(int64_t, int64_t)>;

at::Tensor key_of_position(const WeightReader& reader, double position) {
  std::vector<float> sinusoid;
  for (int64_t w = 0; w < kWidth; w += 2) {
    const double angle = position * std::pow(10000.0, -static_cast<double>(w) / kWidth);
    sinusoid.push_back(static_cast<float>(std::sin(angle)));
    sinusoid.push_back(static_cast<float>(std::cos(angle)));
  }
  return at::linear(at::tensor(sinusoid), reader.get("linear_pos.weight"))
      .view({kHeads, kHeadWidth});
}

/// Computes one utterance x [T, d] by the definition, over all pairs and without blocks.
at::Tensor by_definition(const WeightReader& reader, const at::Tensor& x, const Sees& sees,
                         const Position& position) {
  const int64_t frames = x.size(0);
  const auto heads = [&](const char* name) {
    const std::string weight = std::string(name) + ".weight", bias = std::string(name) + ".bias";
    return at::linear(x, reader.get(weight), reader.get(bias)).view({frames, kHeads, kHeadWidth});
  };
  const at::Tensor q = heads("linear_q"), k = heads("linear_k"), v = heads("linear_v");
  const bool relative = reader.raw("pos_bias_u").defined();
  const at::Tensor u = reader.optional("pos_bias_u"), w = reader.optional("pos_bias_v");
  at::Tensor scores = at::full({kHeads, frames, frames}, -INFINITY);
  for (int64_t i = 0; i < frames; ++i) {
    for (int64_t j = 0; j < frames; ++j) {
      if (!sees(i, j)) continue;
      at::Tensor score;
      if (relative) {
        score = ((q[i] + u) * k[j]).sum(1);
        if (const auto at_position = position(i, j))
          score = score + ((q[i] + w) * key_of_position(reader, *at_position)).sum(1);
      } else {
        score = (q[i] * k[j]).sum(1);
      }
      scores.select(1, i).select(1, j).copy_(score / std::sqrt(static_cast<double>(kHeadWidth)));
    }
  }
  const at::Tensor context = at::matmul(scores.softmax(-1), v.transpose(0, 1)).transpose(0, 1);
  return at::linear(context.reshape({frames, kWidth}), reader.get("linear_out.weight"),
                    reader.get("linear_out.bias"));
}

std::optional<double> distance(int64_t i, int64_t j) { return static_cast<double>(i - j); }

/// Compares rows of 0 to `frames` frames in one batch with the definition on each row's own frames.
void expect_equal_rows(const EncoderConfig& encoder, int64_t frames, const Sees& sees,
                       const Position& position) {
  const StateDict weights = weights_of(encoder);
  const WeightReader reader = reader_of(weights);
  const auto attention = make_attention(encoder, reader);
  const std::vector<int64_t> lengths = {frames, 1, 0, frames * 2 / 3};
  const at::Tensor x = at::randn({4, frames, kWidth});
  const at::Tensor mask = at::arange(frames).unsqueeze(0) < at::tensor(lengths).unsqueeze(1);
  const at::Tensor positions =
      encoder.positions == EncoderConfig::Positions::local
          ? local_positions(frames, kWidth, encoder.left_context, encoder.right_context, at::kFloat)
          : relative_positions(frames, kWidth, at::kFloat);
  const at::Tensor result = (*attention)(x, mask, positions);
  EXPECT_FALSE(result.isnan().any().item<bool>());
  for (int64_t row = 0; row < 4; ++row) {
    const int64_t length = lengths[static_cast<size_t>(row)];
    if (length == 0) continue;
    EXPECT_LT(
        largest_difference(result[row].narrow(0, 0, length),
                           by_definition(reader, x[row].narrow(0, 0, length), sees, position)),
        1e-4)
        << "row of " << length << " of " << frames;
  }
}

EncoderConfig encoder_with(EncoderConfig::ContextStyle style, const std::vector<int64_t>& context) {
  ModelConfig config = test::small_config();
  config.encoder.context_style = style;
  select_context(config, context, "test");
  return config.encoder;
}

bool everything(int64_t /*i*/, int64_t /*j*/) { return true; }

TEST(Attention, Windows) {
  for (const auto& [left, right] :
       {std::pair<int64_t, int64_t>{-1, -1}, {3, 2}, {5, 0}, {-1, 4}, {4, -1}, {0, 0}, {90, 90}}) {
    const auto sees = [left = left, right = right](int64_t i, int64_t j) {
      return (left < 0 || i - j <= left) && (right < 0 || j - i <= right);
    };
    expect_equal_rows(encoder_with(EncoderConfig::ContextStyle::regular, {left, right}), 40, sees,
                      distance);
  }
}

/// Returns NeMo's mask of chunks, as NeMo writes it.
Sees chunks(int64_t left, int64_t right) {
  return [left, right](int64_t i, int64_t j) {
    const int64_t chunk = right + 1, back = i / chunk - j / chunk;
    return back >= 0 && (left < 0 || back <= left / chunk);
  };
}

TEST(Attention, Chunks) {
  for (const auto& [left, right] :
       {std::pair<int64_t, int64_t>{8, 3}, {4, 0}, {12, 5}, {-1, 6}, {0, 2}, {70, 69}, {7, 3}}) {
    expect_equal_rows(encoder_with(EncoderConfig::ContextStyle::chunked, {left, right}), 40,
                      chunks(left, right), distance);
  }
  // With no limit to the right, chunks have no end, and NeMo looks at the left side only.
  expect_equal_rows(
      encoder_with(EncoderConfig::ContextStyle::chunked, {6, -1}), 30,
      [](int64_t i, int64_t j) { return i - j <= 6; }, distance);
}

TEST(Attention, ChunksThatSeeBeyondTheirEnd) {
  for (const auto& [left, chunk, right] : {std::tuple<int64_t, int64_t, int64_t>{8, 4, 2},
                                           {0, 1, 0},
                                           {5, 3, 7},
                                           {3, 50, 1},
                                           {1, 7, 0}}) {
    const auto sees = [l = left, c = chunk, r = right](int64_t i, int64_t j) {
      const int64_t start = i / c * c;
      return j >= start - l && j <= start + c - 1 + r;
    };
    expect_equal_rows(
        encoder_with(EncoderConfig::ContextStyle::chunked_with_right, {left, chunk, right}), 40,
        sees, distance);
  }
  expect_equal_rows(encoder_with(EncoderConfig::ContextStyle::chunked_with_right, {-1, -1, -1}), 20,
                    everything, distance);
}

TEST(Attention, BlocksChangeNothing) {
  // The row is longer than a block of 512 queries. Queries near the borders of blocks must equal
  // the definition, which has no blocks.
  for (const auto& [style, context] :
       {std::pair<EncoderConfig::ContextStyle, std::vector<int64_t>>{
            EncoderConfig::ContextStyle::regular, {70, 30}},
        {EncoderConfig::ContextStyle::chunked, {70, 6}},
        {EncoderConfig::ContextStyle::chunked, {-1, 6}},
        {EncoderConfig::ContextStyle::chunked, {700, 699}},
        {EncoderConfig::ContextStyle::chunked_with_right, {33, 10, 5}}}) {
    EncoderConfig encoder = encoder_with(style, context);
    const StateDict weights = weights_of(encoder);
    const int64_t frames = 1100;
    const at::Tensor x = at::randn({1, frames, kWidth});
    const at::Tensor mask = at::ones({1, frames}, at::kBool);
    const at::Tensor table = relative_positions(frames, kWidth, at::kFloat);
    const at::Tensor whole = (*make_attention(encoder, reader_of(weights)))(x, mask, table);
    // The definition takes a cut of the row that begins with a chunk and holds all that the query
    // sees. Distances stay what they are.
    const int64_t chunk = encoder.chunk, left = encoder.left_context;
    for (const int64_t border : {511, 512, 520, 1023, 1024}) {
      const int64_t first =
          left < 0 || left > frames
              ? 0
              : std::max<int64_t>(0, border / chunk * chunk - (left + chunk - 1) / chunk * chunk);
      const int64_t count =
          std::min(frames, border / chunk * chunk + chunk + encoder.right_context) - first;
      const at::Tensor cut = x.narrow(1, first, count);
      const auto sees = [&](int64_t i, int64_t j) {
        const int64_t start = i / chunk * chunk;
        return j >= start - left && j <= start + chunk - 1 + encoder.right_context;
      };
      // Only this query is compared, so the others see just themselves.
      const int64_t query = border - first;
      const auto of_one = [&](int64_t i, int64_t j) { return i == query ? sees(i, j) : i == j; };
      EXPECT_LT(largest_difference(whole[0][border], by_definition(reader_of(weights), cut[0],
                                                                   of_one, distance)[query]),
                1e-4)
          << border;
    }
  }
}

TEST(Attention, AbsolutePositionsLeaveNoneForAttention) {
  for (const auto& context : std::vector<std::vector<int64_t>>{{-1, -1}, {6, 2}}) {
    ModelConfig config = test::small_config();
    config.encoder.positions = EncoderConfig::Positions::absolute;
    select_context(config, context, "test");
    const auto sees = [&](int64_t i, int64_t j) {
      return context[0] < 0 || (i - j <= context[0] && j - i <= context[1]);
    };
    expect_equal_rows(config.encoder, 25, sees, distance);
  }
}

/// Returns the position that NeMo's two slices give a pair. A window has w columns on each side of
/// the middle. Its first `left` and its last `right` + 1 columns get the biases of positions
/// left, ..., -right.
std::optional<double> position_in_nemo(int64_t i, int64_t j, int64_t left, int64_t right) {
  const int64_t side = std::max(left, right), columns = 2 * side + 1;
  std::vector<std::optional<double>> of_column(static_cast<size_t>(columns));
  for (int64_t n = 0; n < left; ++n) of_column[static_cast<size_t>(n)] = left - n;
  for (int64_t n = 0; n <= right; ++n)
    of_column[static_cast<size_t>(columns - (right + 1) + n)] = -n;
  return of_column[static_cast<size_t>(j - i + side)];
}

TEST(Attention, LocalWindowsTakeNemosPositions) {
  for (const auto& [left, right] :
       {std::pair<int64_t, int64_t>{4, 4}, {6, 2}, {2, 6}, {5, 0}, {0, 3}, {60, 3}}) {
    ModelConfig config = test::small_config();
    config.encoder.positions = EncoderConfig::Positions::local;
    select_context(config, {left, right}, "test");
    expect_equal_rows(
        config.encoder, 30,
        [l = left, r = right](int64_t i, int64_t j) { return i - j <= l && j - i <= r; },
        [l = left, r = right](int64_t i, int64_t j) { return position_in_nemo(i, j, l, r); });
  }
}

TEST(AbsolutePositions, EqualTheSinusoids) {
  const at::Tensor table = absolute_positions(3, 8, at::kFloat);
  EXPECT_TRUE(at::allclose(table, relative_positions(3, 8, at::kFloat).narrow(0, 0, 3).flip(0)));
}

}  // namespace
}  // namespace rtfx
