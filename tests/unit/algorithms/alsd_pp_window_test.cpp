// Tests alsd_pp with windows of several frames against the same rule in plain loops over texts.
#include <gtest/gtest.h>

#include <algorithm>

#include "algorithms/shared/replay/replay.h"
#include "base/error.h"
#include "tests/support/beam_cases.h"
#include "tests/support/boost_cases.h"
#include "tests/support/piece_cases.h"
#include "tests/support/plain_fusion.h"
#include "tests/support/replay_cases.h"
#include "tests/support/small_lm.h"
#include "tests/support/small_model.h"

namespace rtfx {
namespace {

using namespace test;

constexpr char kName[] = "alsd_pp";
constexpr int64_t kVocabulary = 8;

struct Entry {
  Text text = {};
  double score = 0, acoustic = 0;  // acoustic: score of the candidate alone, for early pruning
  size_t time = 0, run = 0;        // run: tokens at the frame `time`
  std::vector<int32_t> frames = {};
};

struct PlainSearch {
  size_t beam, window, max_symbols;
  bool early;

  /// Returns the candidates of a hypothesis that is not at its end. They are a token at each frame
  /// of its window, after blanks up to that frame, and blanks up to the end of the window.
  std::vector<Entry> candidates(const Entry& from, size_t frames, const NextOf& acoustic,
                                const NextOf& fused) const {
    const size_t end = std::min(frames, (from.time / window + 1) * window);
    std::vector<Entry> all;
    double blanks = 0, fused_blanks = 0;
    for (size_t t = from.time; t < end; ++t) {
      const Next next = acoustic(t, from.text), added = fused(t, from.text);
      const bool full = t == from.time && from.run >= max_symbols;
      for (int32_t k = 0; k < kVocabulary && !full; ++k) {
        Entry longer = from;
        longer.acoustic = blanks + next.labels[static_cast<size_t>(k)];
        longer.score += fused_blanks + added.labels[static_cast<size_t>(k)];
        longer.text.push_back(k);
        longer.frames.push_back(static_cast<int32_t>(t));
        longer.run = t == from.time ? from.run + 1 : 1;
        longer.time = t;
        all.push_back(longer);
      }
      blanks += next.labels.back();
      fused_blanks += added.labels.back();
    }
    Entry moved = from;
    moved.acoustic = blanks;
    moved.score += fused_blanks;
    moved.run = 0;
    moved.time = end;
    all.push_back(moved);
    keep_best(all, early ? &Entry::acoustic : &Entry::score);
    return all;
  }

  void keep_best(std::vector<Entry>& list, double Entry::*key) const {
    std::stable_sort(list.begin(), list.end(),
                     [key](const Entry& a, const Entry& b) { return a.*key > b.*key; });
    list.resize(std::min(list.size(), beam));
  }

  std::vector<Entry> operator()(size_t frames, const NextOf& acoustic, const NextOf& fused) const {
    std::vector<Entry> list(1);
    const auto finished = [frames](const Entry& entry) { return entry.time >= frames; };
    while (!std::all_of(list.begin(), list.end(), finished)) {
      std::vector<Entry> all;
      for (const Entry& entry : list) {
        const auto more = finished(entry) ? std::vector<Entry>{entry}
                                          : candidates(entry, frames, acoustic, fused);
        all.insert(all.end(), more.begin(), more.end());
      }
      keep_best(all, &Entry::score);
      list.clear();
      for (const Entry& entry : all) {
        const auto equal = std::find_if(list.begin(), list.end(), [&](const Entry& other) {
          return other.text == entry.text && other.time == entry.time;
        });
        if (equal == list.end()) {
          list.push_back(entry);
        } else {
          equal->score = log_add(equal->score, entry.score);
        }
      }
    }
    return list;
  }
};

void expect_list(const Hypothesis& found, std::vector<Entry> expected, const std::string& what) {
  std::stable_sort(expected.begin(), expected.end(),
                   [](const Entry& a, const Entry& b) { return a.score > b.score; });
  ASSERT_EQ(found.nbest.size(), expected.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    const Hypothesis& entry = found.nbest[i];
    EXPECT_EQ(entry.tokens, expected[i].text) << what << " entry " << i;
    EXPECT_EQ(entry.frames, expected[i].frames) << what << " entry " << i;
    EXPECT_TRUE(entry.durations.empty()) << what << " entry " << i;
    EXPECT_NEAR(entry.score, expected[i].score, 1e-4) << what << " entry " << i;
  }
}

/// Compares the search with the plain one, over beams, windows and limits of tokens per frame.
void expect_plain(std::mt19937& random, const nlohmann::json& fusion, bool early,
                  const std::function<NextOf(const NextOf&)>& fuse,
                  const std::function<double(const Text&)>& end = {}) {
  const BeamCase c =
      random_beam_case(random, /*tdt=*/false, kVocabulary, kVocabulary, {5, 0, 9, 1, 17, 2});
  for (const size_t window : {1, 2, 3, 8, 64}) {
    for (const size_t beam : {1, 2, 4, 7}) {
      const size_t max_symbols = beam == 4 ? 3 : beam == 2 ? 1 : 2;
      nlohmann::json options = {{"beam_size", beam},
                                {"nbest", 8},
                                {"score_norm", false},
                                {"window", window},
                                {"max_symbols", max_symbols}};
      options.update(fusion);
      const auto found =
          BoostedSearch(kName, options, build(c.model), batch_of(c.rows, c.model.columns()))();
      for (size_t b = 0; b < c.rows.size(); ++b) {
        const NextOf next = next_of(c.model, c.rows[b]);
        auto expected =
            PlainSearch{beam, window, max_symbols, early}(c.rows[b].size(), next, fuse(next));
        if (end)
          for (Entry& entry : expected) entry.score += end(entry.text);
        expect_list(found[b], expected, options.dump() + " row " + std::to_string(b));
      }
    }
  }
}

TEST(AlsdPpWindow, FollowsThePlainSearch) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 6 && !testing::Test::HasFailure(); ++trial)
    expect_plain(random, nlohmann::json::object(), false, [](const NextOf& next) { return next; });
}

TEST(AlsdPpWindow, FollowsThePlainSearchWithALanguageModel) {
  const SmallLm lm(kVocabulary);
  std::mt19937 random(9);
  for (const bool full : {false, true}) {
    for (const bool early : {false, true}) {
      const PlainFusion fusion{full, early};
      expect_plain(random, fusion.options(lm), early,
                   [&](const NextOf& next) { return fusion.fused(next, lm, kVocabulary); });
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(AlsdPpWindow, FollowsThePlainSearchWithPhrases) {
  std::mt19937 random(13);
  for (int trial = 0; trial < 3 && !testing::Test::HasFailure(); ++trial) {
    const PlainBoost boost = random_boost(random, kVocabulary, 3, 3);
    const auto fuse = [&](const NextOf& next) -> NextOf {
      return [&boost, next](size_t frame, const Text& text) {
        Next n = next(frame, text);
        for (int32_t k = 0; k < kVocabulary; ++k)
          n.labels[static_cast<size_t>(k)] += boost.score(text, k);
        return n;
      };
    };
    expect_plain(random, {{"boost", boost.option()}}, false, fuse,
                 [&](const Text& text) { return boost.end(text); });
  }
}

/// Blank is the likeliest label of every frame by far. So a window of W frames needs 1 / W of the
/// joint calls, and as many rows in total.
TEST(AlsdPpWindow, JumpsOverBlanks) {
  std::mt19937 random(17);
  BeamCase c = random_beam_case(random, /*tdt=*/false, kVocabulary, kVocabulary, {64, 40});
  for (Table& row : c.rows)
    for (auto& frame : row) frame.back() += 30;
  for (const int64_t window : {1, 8}) {
    const auto decoder = make_decoder(kName, {{"beam_size", 4}, {"window", window}}, "");
    decoder->prepare(build(c.model), {});
    const auto found = decoder->decode(batch_of(c.rows, c.model.columns())).to_host();
    for (const Hypothesis& hypothesis : found) EXPECT_TRUE(hypothesis.tokens.empty());
    const Counters counters = decoder->counters();
    // Texts of one token are kept too. Their last step is one later than that of the empty text.
    EXPECT_NEAR(static_cast<double>(counters.at("joint_calls")), 64.0 / window, 4) << window;
    EXPECT_EQ(counters.at("joint_rows"), counters.at("joint_calls") * 2 * 4 * window);
  }
}

TEST(AlsdPpWindow, StreamsEqualWholeUtterances) {
  const auto model = random_model(with_durations(small_config(), {}), 4);
  const SmallLm lm(model->config.vocabulary);
  for (const int64_t window : {2, 3, 8}) {
    const nlohmann::json options = {{"beam_size", 4}, {"nbest", 4}, {"window", window}};
    nlohmann::json with_lm = options;
    with_lm["lm"] = {{"path", lm.path()}};
    random_pieces({kName, options, model}, 0);
    random_pieces({kName, with_lm, model}, 1);
    random_pieces({kName, options, model}, 2, 3, 60);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(AlsdPpWindow, ReplaysAcceptIt) {
  std::mt19937 random(21);
  for (int trial = 0; trial < 6; ++trial) {
    const BeamCase c = random_beam_case(random, /*tdt=*/false, kVocabulary, 5, {0, 1, 4, 12});
    const auto decoder = make_decoder(kName, {{"beam_size", 4}, {"nbest", 4}, {"window", 5}}, "");
    const auto model = build(c.model);
    decoder->prepare(model, {});
    const EncodedBatch batch = batch_of(c.rows, c.model.columns());
    for (const Replayed& r : replay(model, *decoder, batch, decoder->decode(batch).to_host()))
      EXPECT_TRUE(r.within()) << text(r);
  }
}

/// Returns the message of the error of prepare().
std::string refusal(nlohmann::json options, bool tdt) {
  std::mt19937 random(23);
  options["window"] = 2;
  const auto decoder = make_decoder(kName, options, "");
  try {
    decoder->prepare(build(random_beam_case(random, tdt, kVocabulary, kVocabulary, {1}).model), {});
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(AlsdPpWindow, RefusesWhereNoWindowIsDefined) {
  EXPECT_EQ(refusal(nlohmann::json::object(), /*tdt=*/false), "");
  EXPECT_NE(refusal(nlohmann::json::object(), /*tdt=*/true).find("window"), std::string::npos);
  EXPECT_NE(refusal({{"kernels", "fused"}}, false).find("kernels"), std::string::npos);
  EXPECT_NE(refusal({{"compatibility", "nemo"}}, false).find("compatibility"), std::string::npos);
}

}  // namespace
}  // namespace rtfx
