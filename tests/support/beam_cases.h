// Random table models for beam searches, and the exact score of a text: the sum over all of its
// alignments.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>

#include "algorithms/decoder.h"
#include "tests/support/table_model.h"

namespace rtfx::test {

/// A random model in which only the first `tokens` tokens are possible. So the vocabulary can be
/// large, as a large beam needs, while the possible texts stay few.
struct BeamCase {
  TableModel model;
  std::vector<Table> rows;
  int64_t tokens;
};

inline BeamCase random_beam_case(std::mt19937& random, bool tdt, int64_t vocabulary, int64_t tokens,
                                 const std::vector<int64_t>& frames) {
  constexpr double kImpossible = -1e4;
  BeamCase c{{vocabulary, {}, {}, {}}, {}, tokens};
  if (tdt) c.model.durations = {0, 1, 2};
  const auto table = [&](int64_t rows) {
    std::uniform_real_distribution<double> value(-2, 2);
    Table t(static_cast<size_t>(rows), std::vector<double>(static_cast<size_t>(c.model.columns())));
    for (auto& row : t)
      for (double& x : row) x = static_cast<float>(value(random));
    return t;
  };
  c.model.newest = table(vocabulary + 1);
  c.model.older = table(vocabulary + 1);
  for (const int64_t n : frames) {
    c.rows.push_back(table(n));
    for (auto& frame : c.rows.back())
      for (int64_t k = tokens; k < vocabulary; ++k) frame[static_cast<size_t>(k)] = kImpossible;
  }
  return c;
}

inline std::vector<Hypothesis> run(const std::string& name, const nlohmann::json& options,
                                   const BeamCase& c, at::Device device = at::kCPU) {
  const auto decoder = make_decoder(name, options, "");
  decoder->prepare(build(c.model, device), {});
  return decoder->decode(batch_of(c.rows, c.model.columns(), device)).to_host();
}

/// Returns three frames of RNN-T. Blank is the best label of the first and the last one, and token
/// 2 is far better than all other labels at the second one.
inline BeamCase certain_token() {
  BeamCase c{{8, {}, {}, {}}, {Table(3, std::vector<double>(9))}, 3};
  c.model.newest = Table(9, std::vector<double>(9));
  c.rows[0][0][8] = c.rows[0][2][8] = 8;
  c.rows[0][1][2] = 8;
  return c;
}

inline double log_add(double a, double b) {
  const double high = std::max(a, b);
  return std::isinf(high) ? high : high + std::log(std::exp(a - high) + std::exp(b - high));
}

inline std::vector<double> log_softmax(const std::vector<double>& values, size_t begin,
                                       size_t end) {
  double total = -std::numeric_limits<double>::infinity();
  for (size_t i = begin; i < end; ++i) total = log_add(total, values[i]);
  std::vector<double> result;
  for (size_t i = begin; i < end; ++i) result.push_back(values[i] - total);
  return result;
}

/// Logarithms of the weights of the labels and durations that may follow a text at a frame.
struct Next {
  std::vector<double> labels;     // [V+1]
  std::vector<double> durations;  // [D]
};
using Text = std::vector<int32_t>;
using NextOf = std::function<Next(size_t frame, const Text& text)>;

inline NextOf next_of(const TableModel& model, const Table& row) {
  return [&model, &row](size_t frame, const Text& text) {
    const std::vector<double> sum = logits(model, row[frame], text);
    const auto labels = static_cast<size_t>(model.vocabulary + 1);
    return Next{log_softmax(sum, 0, labels), log_softmax(sum, labels, sum.size())};
  };
}

/// Returns ln of the sum over all alignments of `text` with `frames` frames.
inline double exact_score(const NextOf& next, size_t frames, const TableModel& model,
                          const Text& text) {
  const double none = -std::numeric_limits<double>::infinity();
  const auto blank = static_cast<size_t>(model.vocabulary);
  const bool tdt = !model.durations.empty();
  // mass[t]: ln of the total weight of all partial alignments with the first u tokens whose next
  // frame is t.
  std::vector<double> mass(frames + 1, none);
  mass[0] = 0;
  for (size_t u = 0; u <= text.size(); ++u) {
    std::vector<double> longer(frames + 1, none);
    const Text prefix(text.begin(), text.begin() + static_cast<int64_t>(u));
    for (size_t t = 0; t < frames; ++t) {
      const Next n = next(t, prefix);
      const auto move = [&](std::vector<double>& to, double weight, int64_t by) {
        double& mass_there = to[std::min(frames, t + static_cast<size_t>(by))];
        mass_there = log_add(mass_there, mass[t] + weight);
      };
      for (size_t d = 0; d < (tdt ? n.durations.size() : 1); ++d) {
        const int64_t by = tdt ? model.durations[d] : 0;
        const double weight = tdt ? n.durations[d] : 0;
        move(mass, n.labels[blank] + weight, std::max<int64_t>(1, by));
        if (u < text.size()) move(longer, n.labels[static_cast<size_t>(text[u])] + weight, by);
      }
    }
    if (u == text.size()) return mass[frames];
    mass = longer;
  }
  return none;
}

/// Returns all texts of up to `longest` tokens over a vocabulary of `tokens` tokens.
inline std::vector<Text> all_texts(int64_t tokens, size_t longest) {
  std::vector<Text> texts = {{}};
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() == longest) continue;
    for (int32_t k = 0; k < tokens; ++k) {
      Text longer = texts[i];
      longer.push_back(k);
      texts.push_back(longer);
    }
  }
  return texts;
}

/// Returns the total score of a text in an n-best list, or -inf if the list lacks the text.
inline double listed_score(const Hypothesis& hypothesis, const Text& text) {
  double score = -std::numeric_limits<double>::infinity();
  for (const Hypothesis& entry : hypothesis.nbest)
    if (entry.tokens == text) score = log_add(score, entry.score);
  return score;
}

/// Expects equal lists. Scores may differ by a few roundings, because elementwise functions may
/// round differently at different places of a tensor.
inline void expect_same(const Hypothesis& found, const Hypothesis& expected,
                        const std::string& what) {
  ASSERT_EQ(found.nbest.size(), expected.nbest.size()) << what;
  EXPECT_EQ(found.tokens, expected.tokens) << what;
  EXPECT_EQ(found.frames, expected.frames) << what;
  EXPECT_EQ(found.durations, expected.durations) << what;
  EXPECT_NEAR(found.score, expected.score, 1e-5 * (1 + std::abs(expected.score))) << what;
  for (size_t i = 0; i < expected.nbest.size(); ++i)
    expect_same(found.nbest[i], expected.nbest[i], what + " entry " + std::to_string(i));
}

/// Counts the entries of `found` that differ from the entry at the same place of `expected`, and
/// expects that they tie. Scores at the same place must agree within a few roundings. A differing
/// entry must also have the score of its text in `expected`, or of the last entry if the text is
/// missing there.
inline int64_t count_ties(const Hypothesis& found, const Hypothesis& expected,
                          const std::string& what) {
  EXPECT_EQ(found.nbest.size(), expected.nbest.size()) << what;
  if (found.nbest.size() != expected.nbest.size()) return 0;
  const auto near = [](double a, double b) { return std::abs(a - b) <= 1e-5 * (1 + std::abs(b)); };
  int64_t ties = 0;
  for (size_t i = 0; i < expected.nbest.size(); ++i) {
    const Hypothesis &own = found.nbest[i], &other = expected.nbest[i];
    EXPECT_TRUE(near(own.score, other.score)) << what << " entry " << i;
    if (own.tokens == other.tokens && own.frames == other.frames &&
        own.durations == other.durations)
      continue;
    ++ties;
    const auto same = std::find_if(expected.nbest.begin(), expected.nbest.end(),
                                   [&](const auto& e) { return e.tokens == own.tokens; });
    // The text was cut from the end of the list, or it stands at another place.
    const Hypothesis& rival = same == expected.nbest.end() ? expected.nbest.back() : *same;
    EXPECT_TRUE(near(own.score, rival.score))
        << what << " entry " << i << ": " << own.score << " against " << rival.score;
  }
  return ties;
}

}  // namespace rtfx::test
