// Searches with at most one token per frame, as plain loops over texts by icefall's rule, and sums
// over all alignments of that kind.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/beam_cases.h"

namespace rtfx::test {

/// A hypothesis of icefall's HypothesisList. `time` is its next frame, which durations may put
/// ahead of that of others.
struct Entry {
  Text text;
  double score = 0;
  size_t time = 0;
  std::vector<int32_t> frames, durations;
};

/// Adds an entry as icefall's HypothesisList.add() does: an equal text in the list gets the sum of
/// both probabilities. With `compare_time`, equal texts must also have the same next frame.
inline void add(std::vector<Entry>& list, const Entry& entry, bool compare_time) {
  for (Entry& other : list) {
    if (other.text != entry.text || (compare_time && other.time != entry.time)) continue;
    other.score = log_add(other.score, entry.score);
    return;
  }
  list.push_back(entry);
}

inline void sort_by_score(std::vector<Entry>& list) {
  std::stable_sort(list.begin(), list.end(),
                   [](const Entry& a, const Entry& b) { return a.score > b.score; });
}

/// The scores by which a search chooses labels, and the scores that it adds up.
struct Scorers {
  NextOf chosen_by, added;
};

/// Returns the labels that may follow: all of them, or the `count` best by the scores of
/// `chosen_by`.
inline std::vector<size_t> labels_of(const Next& chosen_by, bool all, size_t count) {
  std::vector<size_t> labels(chosen_by.labels.size());
  std::iota(labels.begin(), labels.end(), size_t{0});
  if (all) return labels;
  std::stable_sort(labels.begin(), labels.end(),
                   [&](size_t a, size_t b) { return chosen_by.labels[a] > chosen_by.labels[b]; });
  labels.resize(count);
  return labels;
}

/// Returns the finished hypotheses of an utterance of `frames` frames, in no promised order.
inline std::vector<Entry> plain_search(const TableModel& model, size_t frames, size_t beam,
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
          if (std::isinf(longer.score)) continue;
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

inline void expect_list(const Hypothesis& found, std::vector<Entry> expected, bool score_norm,
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

/// Adds to `totals` ln of the probability of each text: the sum over all alignments from `frame`
/// on.
inline void sum_alignments(const NextOf& next, const BeamCase& c, size_t frames, size_t frame,
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

}  // namespace rtfx::test
