// Tests the posteriors of lattices, and their words of least expected errors, against a look at
// every path.
#include <gtest/gtest.h>

#include <limits>

#include "algorithms/shared/wfst/word_lattice.h"
#include "tests/support/word_lattice_cases.h"

namespace rtfx {
namespace {

using Sequence = std::vector<int32_t>;

constexpr double kRounding = 1e-9;
constexpr double kBoundSlack = 1e-3;  // the bound charges slightly more for a dropped word

size_t edit_distance(const Sequence& a, const Sequence& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t corner = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t best = std::min({row[j] + 1, row[j - 1] + 1, corner + (a[i - 1] != b[j - 1])});
      corner = row[j];
      row[j] = best;
    }
  }
  return row.back();
}

double expected_errors(const std::vector<test::LatticePath>& paths, const Sequence& words) {
  double sum = 0;
  for (const auto& path : paths)
    sum += path.probability * static_cast<double>(edit_distance(path.words, words));
  return sum;
}

Sequence words_of(const MbrResult& result) {
  Sequence words;
  for (const MbrWord& w : result.words) words.push_back(w.word);
  return words;
}

/// Returns a lattice with the paths "1 2" (p = .4), "1 3" (p = .3) and "3" (p = .3).
WordLattice three_paths() {
  WordLattice lattice;
  lattice.frame = {0, 4, 10};
  lattice.arcs = {{0, 1, 1, -std::log(0.7), 0, 0},
                  {0, 2, 3, -std::log(0.3), 0, 0},
                  {1, 2, 2, -std::log(4.0 / 7), 0, 0},
                  {1, 2, 3, -std::log(3.0 / 7), 0, 0}};
  return lattice;
}

TEST(LatticePosteriors, OfThreePathsAreWhatTheyWereMadeFrom) {
  const WordLattice lattice = three_paths();
  const LatticePosteriors p = lattice_posteriors(lattice, {});
  const double expected[] = {0.7, 0.3, 0.4, 0.3};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(p.arcs[i], expected[i], kRounding);
  EXPECT_NEAR(p.total(), 0, kRounding);
  const auto frames = words_by_frame(lattice, p);
  ASSERT_EQ(frames.size(), 10U);
  EXPECT_EQ(frames[3][0].word, 1);
  EXPECT_NEAR(frames[3][0].probability, 0.7, kRounding);
  EXPECT_EQ(frames[4][0].word, 3);
  EXPECT_NEAR(frames[4][0].probability, 0.6, kRounding);
}

TEST(LatticePosteriors, EqualALookAtEveryPathAndAddUpToOneAtEveryFrame) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    const WordLattice lattice = test::random_lattice(6, seed);
    const LatticeScales scales{0.5, seed % 2 == 0 ? 1.0 : 1.75};
    const LatticePosteriors p = lattice_posteriors(lattice, scales);
    std::vector<double> expected(lattice.arcs.size());
    for (const auto& path : test::every_path(lattice, scales))
      for (const size_t i : path.arcs) expected[i] += path.probability;
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(p.arcs[i], expected[i], kRounding);
    for (const auto& frame : words_by_frame(lattice, p)) {
      double sum = 0;
      for (const WordPosterior& w : frame) sum += w.probability;
      EXPECT_NEAR(sum, 1, kRounding) << seed;
    }
  }
}

TEST(LatticePosteriors, StayFiniteWhereCostsAreLarge) {
  WordLattice lattice = three_paths();
  for (WordLattice::Arc& arc : lattice.arcs) arc.acoustic_cost = 1e4 * (arc.to - arc.from);
  const LatticePosteriors p = lattice_posteriors(lattice, {});
  EXPECT_NEAR(p.arcs[2], 0.4, kRounding);
  EXPECT_NEAR(p.total(), -2e4, 1e-6);
}

TEST(MinimumBayesRisk, PrefersWhatMostPathsAgreeOnToTheBestPath) {
  const MbrResult result = minimum_bayes_risk(three_paths(), {});
  EXPECT_EQ(words_of(result), Sequence({1, 3}));
  EXPECT_NEAR(result.expected_errors, 0.7, kBoundSlack);  // "1 2" has 0.3 + 2 * 0.3 = 0.9
  EXPECT_NEAR(result.words[0].confidence, 0.7, kRounding);
  EXPECT_NEAR(result.words[1].confidence, 0.6, kRounding);
  EXPECT_NEAR(result.words[0].begin, 0, kRounding);
  // The means are 0 to 4, and (0.3 * 4 + 0.3 * 0) / 0.6 = 2 to 10. So word 1 has 4 / 12 of the
  // time.
  EXPECT_NEAR(result.words[0].end, 10.0 / 3, kRounding);
  EXPECT_EQ(result.words[1].begin, result.words[0].end);
  EXPECT_NEAR(result.words[1].end, 10, kRounding);
}

TEST(MinimumBayesRisk, PutsWordsInOrder) {
  // The paths are "1 2" (p = .55) and "2" (p = .45). The mean begin of word 2 lies before word 1.
  WordLattice lattice;
  lattice.frame = {0, 2, 10, 14, 20};
  lattice.arcs = {{0, 1, 0, -std::log(0.45), 0, 0},
                  {0, 2, 0, -std::log(0.55), 0, 0},
                  {1, 4, 2, 0, 0, 0},
                  {2, 3, 1, 0, 0, 0},
                  {3, 4, 2, 0, 0, 0}};
  const MbrResult result = minimum_bayes_risk(lattice, {});
  ASSERT_EQ(words_of(result), Sequence({1, 2}));
  const double begin = 0.55 * 14 + 0.45 * 2;
  EXPECT_NEAR(result.words[0].begin, begin, kRounding);
  EXPECT_NEAR(result.words[0].end, begin + (20 - begin) * 4 / (4 + 20 - begin), kRounding);
  EXPECT_EQ(result.words[1].begin, result.words[0].end);
  EXPECT_NEAR(result.words[1].end, 20, kRounding);
}

TEST(MinimumBayesRisk, OfOnePathIsItsWordsForSure) {
  WordLattice lattice;
  lattice.frame = {0, 2, 3, 5};
  lattice.arcs = {{0, 1, 0, 1, 2, 0}, {1, 2, 2, 3, 4, 0}, {2, 3, 2, 5, 6, 0}};
  const MbrResult result = minimum_bayes_risk(lattice, {});
  EXPECT_EQ(words_of(result), Sequence({2, 2}));
  EXPECT_NEAR(result.expected_errors, 0, kRounding);
  for (const MbrWord& w : result.words) EXPECT_NEAR(w.confidence, 1, kRounding);
  EXPECT_NEAR(result.words[1].begin, 3, kRounding);
}

/// The recursion ends in a local minimum of a bound. So now and then, a path may have fewer
/// expected errors than the result.
TEST(MinimumBayesRisk, MostlyHasNoMoreExpectedErrorsThanAnyPath) {
  constexpr int kLattices = 200;
  int best = 0, better = 0, worse = 0;
  double sum = 0, sum_of_the_best = 0;
  for (uint32_t seed = 0; seed < kLattices; ++seed) {
    const WordLattice lattice = test::random_lattice(5, seed);
    const auto paths = test::every_path(lattice);
    const MbrResult result = minimum_bayes_risk(lattice, {});
    const double errors = expected_errors(paths, words_of(result));
    EXPECT_LE(errors, result.expected_errors + kRounding) << seed;
    double least = std::numeric_limits<double>::infinity(), of_the_best = 0, most = 0;
    for (const auto& path : paths) {
      const double of_path = expected_errors(paths, path.words);
      least = std::min(least, of_path);
      if (path.probability > most) {
        most = path.probability;
        of_the_best = of_path;
      }
    }
    best += errors <= least + kRounding;
    better += errors < of_the_best - kRounding;
    worse += errors > of_the_best + kRounding;
    sum += errors;
    sum_of_the_best += of_the_best;
    double done = 0;
    for (const MbrWord& w : result.words) {
      EXPECT_GT(w.confidence, 0);
      EXPECT_LE(w.confidence, 1);
      EXPECT_GE(w.begin, done);
      EXPECT_LT(w.begin, w.end);
      done = w.end;
    }
  }
  EXPECT_GE(best, 170);
  EXPECT_GT(better, 3 * worse);
  EXPECT_LT(sum, sum_of_the_best);
}

}  // namespace
}  // namespace rtfx
