// modified_beam_search against icefall's rule in plain loops over texts, and against sums over all
// alignments.
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "tests/support/beam_cases.h"
#include "tests/support/boost_cases.h"
#include "tests/support/small_lm.h"

namespace rtfx {
namespace {

using namespace test;

constexpr char kName[] = "modified_beam_search";

/// A hypothesis of icefall's HypothesisList, and the next frame of one that jumped.
struct Entry {
  Text text;
  double score = 0;
  size_t time = 0;
  std::vector<int32_t> frames, durations;
};

/// icefall's HypothesisList.add(): an equal text that is there already gets the sum of both.
void add(std::vector<Entry>& list, const Entry& entry, bool compare_time) {
  for (Entry& other : list) {
    if (other.text != entry.text || (compare_time && other.time != entry.time)) continue;
    other.score = log_add(other.score, entry.score);
    return;
  }
  list.push_back(entry);
}

void sort_by_score(std::vector<Entry>& list) {
  std::stable_sort(list.begin(), list.end(),
                   [](const Entry& a, const Entry& b) { return a.score > b.score; });
}

/// The scores by which a search chooses labels, and those that it adds up.
struct Scorers {
  NextOf chosen_by, added;
};

/// The labels that may follow: all, or the `count` best where labels are chosen by other scores.
std::vector<size_t> labels_of(const Next& chosen_by, bool all, size_t count) {
  std::vector<size_t> labels(chosen_by.labels.size());
  std::iota(labels.begin(), labels.end(), size_t{0});
  if (all) return labels;
  std::stable_sort(labels.begin(), labels.end(),
                   [&](size_t a, size_t b) { return chosen_by.labels[a] > chosen_by.labels[b]; });
  labels.resize(count);
  return labels;
}

/// The finished hypotheses of an utterance of `frames` frames, in no order.
std::vector<Entry> plain_search(const TableModel& model, size_t frames, size_t beam,
                                const Scorers& scorers, bool early) {
  const bool tdt = !model.durations.empty();
  const auto blank = static_cast<size_t>(model.vocabulary);
  std::vector<Entry> list(1);
  while (true) {
    size_t now = frames;
    for (const Entry& entry : list) now = std::min(now, entry.time);
    if (now == frames) break;
    std::vector<Entry> candidates;
    for (const Entry& entry : list) {
      if (entry.time > now) {
        candidates.push_back(entry);
        continue;
      }
      const Next chosen_by = scorers.chosen_by(now, entry.text),
                 added = scorers.added(now, entry.text);
      for (const size_t label : labels_of(chosen_by, !early, beam)) {
        for (size_t d = 0; d < (tdt ? added.durations.size() : 1); ++d) {
          const int64_t by = tdt ? std::max<int64_t>(1, model.durations[d]) : 1;
          Entry longer = entry;
          longer.score += added.labels[label] + (tdt ? added.durations[d] : 0);
          longer.time = now + static_cast<size_t>(by);
          if (label != blank) {
            longer.text.push_back(static_cast<int32_t>(label));
            longer.frames.push_back(static_cast<int32_t>(now));
            if (tdt) longer.durations.push_back(static_cast<int32_t>(by));
          }
          candidates.push_back(longer);
        }
      }
    }
    sort_by_score(candidates);
    candidates.resize(std::min(candidates.size(), beam));
    list.clear();
    for (const Entry& entry : candidates) add(list, entry, /*compare_time=*/true);
  }
  sort_by_score(list);
  std::vector<Entry> finished;
  for (const Entry& entry : list) add(finished, entry, /*compare_time=*/false);
  return finished;
}

void expect_list(const Hypothesis& found, std::vector<Entry> expected, bool score_norm,
                 const std::string& what) {
  const auto key = [score_norm](const Entry& e) {
    return score_norm ? e.score / static_cast<double>(e.text.size() + 1) : e.score;
  };
  std::stable_sort(expected.begin(), expected.end(),
                   [&](const Entry& a, const Entry& b) { return key(a) > key(b); });
  ASSERT_EQ(found.nbest.size(), expected.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    const Hypothesis& entry = found.nbest[i];
    EXPECT_EQ(entry.tokens, expected[i].text) << what << " entry " << i;
    EXPECT_EQ(entry.frames, expected[i].frames) << what << " entry " << i;
    EXPECT_EQ(entry.durations, expected[i].durations) << what << " entry " << i;
    EXPECT_NEAR(entry.score, expected[i].score, 1e-4) << what << " entry " << i;
  }
}

/// A model, and how a search with a beam fuses it.
class ModifiedBeamSearchTest : public testing::TestWithParam<bool> {
 protected:
  static constexpr int64_t kVocabulary = 8;

  /// Runs the search by operators and by fused kernels, and compares both with the plain one.
  void expect_icefall(std::mt19937& random, const nlohmann::json& fusion, bool early,
                      const std::function<NextOf(const NextOf&)>& fuse,
                      const std::function<double(const Text&)>& end = {}) {
    const BeamCase c =
        random_beam_case(random, GetParam(), kVocabulary, kVocabulary, {5, 0, 9, 1, 7, 2});
    for (const size_t beam : {1, 2, 4, 7}) {
      for (const char* kernels : {"operators", "fused"}) {
        nlohmann::json options = {
            {"beam_size", beam}, {"nbest", 8}, {"score_norm", beam != 4}, {"kernels", kernels}};
        options.update(fusion);
        const auto found =
            BoostedSearch(kName, options, build(c.model), batch_of(c.rows, c.model.columns()))();
        for (size_t b = 0; b < c.rows.size(); ++b) {
          const NextOf next = next_of(c.model, c.rows[b]), fused = fuse(next);
          auto expected =
              plain_search(c.model, c.rows[b].size(), beam, {early ? next : fused, fused}, early);
          if (end)
            for (Entry& entry : expected) entry.score += end(entry.text);
          expect_list(found[b], expected, beam != 4, options.dump() + " row " + std::to_string(b));
        }
      }
    }
  }
};

TEST_P(ModifiedBeamSearchTest, FollowsIcefall) {
  std::mt19937 random(GetParam() ? 3 : 5);
  for (int trial = 0; trial < 12 && !HasFailure(); ++trial)
    expect_icefall(random, nlohmann::json::object(), false,
                   [](const NextOf& next) { return next; });
}

TEST_P(ModifiedBeamSearchTest, FollowsIcefallWithALanguageModel) {
  const SmallLm lm(kVocabulary);
  constexpr double kAlpha = 0.7, kBeta = 0.2, kEps = 1e-2;
  std::mt19937 random(GetParam() ? 7 : 9);
  for (const bool full : {false, true}) {
    for (const bool early : {false, true}) {
      const auto fuse = [&](const NextOf& next) -> NextOf {
        return [&lm, next, full](size_t frame, const Text& text) {
          Next n = next(frame, text);
          double& blank = n.labels.back();
          const double rest = kAlpha * std::log1p(-std::min(std::exp(blank), 1 - kEps));
          for (int32_t k = 0; k < kVocabulary; ++k)
            n.labels[static_cast<size_t>(k)] +=
                kAlpha * lm.score(text, k) + kBeta + (full ? rest : 0);
          if (full) blank *= 1 + kAlpha;
          return n;
        };
      };
      const nlohmann::json options = {{"lm",
                                       {{"path", lm.path()},
                                        {"alpha", kAlpha},
                                        {"beta", kBeta},
                                        {"pruning", early ? "early" : "late"},
                                        {"blank_scoring", full ? "lm_weighted_full" : "no_score"},
                                        {"blank_eps", kEps}}}};
      expect_icefall(random, options, early, fuse);
      if (HasFailure()) return;
    }
  }
}

TEST_P(ModifiedBeamSearchTest, FollowsIcefallWithPhrases) {
  std::mt19937 random(GetParam() ? 11 : 13);
  for (int trial = 0; trial < 4 && !HasFailure(); ++trial) {
    const PlainBoost boost = random_boost(random, kVocabulary, 3, 3);
    const auto fuse = [&](const NextOf& next) -> NextOf {
      return [&boost, next](size_t frame, const Text& text) {
        Next n = next(frame, text);
        for (int32_t k = 0; k < kVocabulary; ++k)
          n.labels[static_cast<size_t>(k)] += boost.score(text, k);
        return n;
      };
    };
    expect_icefall(random, {{"boost", boost.option()}}, false, fuse,
                   [&](const Text& text) { return boost.end(text); });
  }
}

/// ln of the probability of each text: the sum over all ways through the frames from `frame` on.
void sum_alignments(const NextOf& next, const BeamCase& c, size_t frames, size_t frame,
                    const Text& text, double weight, std::map<Text, double>& totals) {
  if (frame >= frames) {
    const auto [found, fresh] = totals.emplace(text, weight);
    if (!fresh) found->second = log_add(found->second, weight);
    return;
  }
  const Next n = next(frame, text);
  const bool tdt = !c.model.durations.empty();
  for (int64_t label = 0; label <= c.tokens; ++label) {
    const bool blank = label == c.tokens;
    Text longer = text;
    if (!blank) longer.push_back(static_cast<int32_t>(label));
    const double label_score = n.labels[static_cast<size_t>(blank ? c.model.vocabulary : label)];
    for (size_t d = 0; d < (tdt ? n.durations.size() : 1); ++d) {
      const int64_t by = tdt ? std::max<int64_t>(1, c.model.durations[d]) : 1;
      sum_alignments(next, c, frames, frame + static_cast<size_t>(by), longer,
                     weight + label_score + (tdt ? n.durations[d] : 0), totals);
    }
  }
}

TEST_P(ModifiedBeamSearchTest, SumsOverAllAlignmentsInABeamThatLosesNothing) {
  constexpr int64_t kBeam = 80;
  std::mt19937 random(GetParam() ? 15 : 17);
  for (int trial = 0; trial < 3 && !HasFailure(); ++trial) {
    const BeamCase c = random_beam_case(random, GetParam(), kBeam, 2, {3, 2});
    for (const char* kernels : {"operators", "fused"}) {
      const auto found =
          run(kName, {{"beam_size", kBeam}, {"nbest", kBeam}, {"kernels", kernels}}, c);
      for (size_t b = 0; b < c.rows.size(); ++b) {
        std::map<Text, double> totals;
        sum_alignments(next_of(c.model, c.rows[b]), c, c.rows[b].size(), 0, {}, 0, totals);
        EXPECT_EQ(totals.size(), b == 0 ? 15U : 7U);
        for (const auto& [text, score] : totals)
          EXPECT_NEAR(listed_score(found[b], text), score, 2e-5)
              << kernels << " trial " << trial << " text " << testing::PrintToString(text);
      }
    }
  }
}

TEST_P(ModifiedBeamSearchTest, ABeamOfOneIsGreedySearchOfOneTokenPerFrame) {
  std::mt19937 random(GetParam() ? 19 : 21);
  for (int trial = 0; trial < 20 && !HasFailure(); ++trial) {
    const BeamCase c = random_beam_case(random, GetParam(), kVocabulary, kVocabulary, {5, 0, 9});
    const auto found = run(kName, {{"beam_size", 1}}, c);
    for (size_t b = 0; b < c.rows.size(); ++b) {
      Hypothesis greedy = oracle(c.model, c.rows[b], /*max_symbols=*/1);
      for (int32_t& duration : greedy.durations) duration = std::max(1, duration);
      EXPECT_EQ(found[b].tokens, greedy.tokens) << trial;
      EXPECT_EQ(found[b].frames, greedy.frames) << trial;
      EXPECT_EQ(found[b].durations, greedy.durations) << trial;
    }
  }
}

TEST_P(ModifiedBeamSearchTest, HasNoMoreStepsThanFrames) {
  std::mt19937 random(23);
  const BeamCase c = random_beam_case(random, GetParam(), kVocabulary, kVocabulary, {9, 4, 12});
  const auto decoder = make_decoder(kName, {{"beam_size", 4}}, "");
  decoder->prepare(build(c.model), {});
  const auto rows = decoder->decode(batch_of(c.rows, c.model.columns())).to_host();
  if (GetParam()) {
    EXPECT_LE(decoder->counters().at("outer_iters"), 12);
  } else {
    EXPECT_EQ(decoder->counters().at("outer_iters"), 12);
  }
  for (size_t b = 0; b < rows.size(); ++b)
    EXPECT_EQ(std::adjacent_find(rows[b].frames.begin(), rows[b].frames.end()),
              rows[b].frames.end())
        << "row " << b << " has two tokens at a frame";
}

INSTANTIATE_TEST_SUITE_P(Heads, ModifiedBeamSearchTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Tdt" : "Rnnt"; });

}  // namespace
}  // namespace rtfx
