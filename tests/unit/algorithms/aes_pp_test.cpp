// Tests aes_pp against its definition in plain loops over texts.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/beam_cases.h"

namespace rtfx {
namespace {

using namespace test;

constexpr double kNone = -std::numeric_limits<double>::infinity();

struct Slot {
  Text text = {};
  double score = kNone;
  int64_t time = 0;
  int32_t label = -1;    // label of the last step
  int64_t duration = 0;  // duration of the last step
  size_t former = 0;     // slot of the parent
};

struct Settings {
  size_t beam = 4, beta = 2, steps = 2;
  double gamma = 2.3;
  bool permute = true;
};

class PlainSearch {
 public:
  PlainSearch(const TableModel& model, const Table& row, const Settings& settings)
      : model_(model),
        frames_(static_cast<int64_t>(row.size())),
        next_(next_of(model, row)),
        settings_(settings),
        slots_(settings.beam) {
    slots_[0].score = 0;
    for (int64_t t = 0; t < frames_; ++t) frame(t);
  }

  /// Returns the hypotheses, best first.
  std::vector<Slot> ranked() const {
    std::vector<Slot> all = alive(slots_);
    std::sort(all.begin(), all.end(), [](const Slot& a, const Slot& b) {
      const auto key = [](const Slot& s) {
        return s.score / static_cast<double>(s.text.size() + 1);
      };
      return key(a) > key(b);
    });
    return all;
  }

 private:
  bool tdt() const { return !model_.durations.empty(); }
  int32_t blank() const { return static_cast<int32_t>(model_.vocabulary); }
  static std::vector<Slot> alive(std::vector<Slot> slots) {
    std::erase_if(slots, [](const Slot& s) { return s.score == kNone; });
    return slots;
  }
  bool here(const Slot& s, int64_t t) const { return s.score > kNone && (!tdt() || s.time == t); }
  Next at(int64_t t, const Text& text) const { return next_(static_cast<size_t>(t), text); }

  void frame(int64_t t) {
    prefix_search(t);
    std::vector<bool> open;
    for (const Slot& s : slots_) open.push_back(here(s, t));
    for (size_t n = 0; n < settings_.steps; ++n) {
      if (std::find(open.begin(), open.end(), true) == open.end()) break;
      std::vector<Slot> chosen;
      for (size_t k = 0; k < slots_.size(); ++k) {
        if (open[k]) {
          expand(k, t, chosen);
        } else if (slots_[k].score > kNone) {
          chosen.push_back(slots_[k]);
          chosen.back().label = -1;
          chosen.back().former = k;
        }
      }
      if (tdt()) merge(chosen);
      keep_best(chosen);
      std::vector<bool> next_open;
      for (size_t k = 0; k < chosen.size(); ++k) {
        const Slot& s = chosen[k];
        const bool token = s.score > kNone && s.label >= 0 && s.label != blank();
        const bool finished = slots_[k].score > kNone && !open[k];  // the slot's former hypothesis
        next_open.push_back(token && (!tdt() || s.duration == 0) &&
                            (settings_.permute || tdt() || !finished));
      }
      slots_ = chosen;
      open = next_open;
    }
    for (size_t k = 0; k < slots_.size(); ++k)
      if (open[k]) force_blank(slots_[k], t);
    if (tdt()) {
      merge(slots_);
      slots_.resize(settings_.beam);
    }
  }

  void prefix_search(int64_t t) {
    const std::vector<Slot> before = slots_;
    for (Slot& longer : slots_) {
      if (!here(longer, t) || longer.text.empty()) continue;
      const Text prefix(longer.text.begin(), longer.text.end() - 1);
      for (const Slot& shorter : before) {
        if (!here(shorter, t) || shorter.text != prefix) continue;
        const Next next = at(t, prefix);
        double score = shorter.score + next.labels[static_cast<size_t>(longer.text.back())];
        if (tdt()) score += next.durations[0];  // duration 0
        longer.score = log_add(longer.score, score);
      }
    }
  }

  void expand(size_t k, int64_t t, std::vector<Slot>& chosen) const {
    const Slot& s = slots_[k];
    const Next next = at(t, s.text);
    const size_t count = settings_.beam + settings_.beta;
    std::vector<std::pair<double, int32_t>> labels;
    for (size_t i = 0; i < next.labels.size(); ++i)
      labels.emplace_back(next.labels[i], static_cast<int32_t>(i));
    std::sort(labels.rbegin(), labels.rend());
    labels.resize(count);
    std::vector<Slot> all;
    for (const auto& [weight, label] : labels) {
      for (size_t d = 0; d < (tdt() ? next.durations.size() : 1); ++d) {
        Slot c = s;
        c.label = label;
        c.former = k;
        c.score += weight + (tdt() ? next.durations[d] : 0);
        c.duration = tdt() ? model_.durations[d] : 0;
        if (label == blank()) {
          c.duration = std::max<int64_t>(1, c.duration);
        } else {
          c.text.push_back(label);
        }
        c.time += c.duration;
        all.push_back(c);
      }
    }
    std::sort(all.begin(), all.end(),
              [](const Slot& a, const Slot& b) { return a.score > b.score; });
    all.resize(count);
    for (const Slot& c : all) {
      if (c.score <= all[0].score - settings_.gamma) continue;
      const bool held = std::any_of(slots_.begin(), slots_.end(), [&](const Slot& other) {
        return other.text == c.text && here(other, t);
      });
      if (c.label != blank() && held && c.duration == 0) continue;
      chosen.push_back(c);
    }
  }

  void force_blank(Slot& s, int64_t t) const {
    const Next next = at(t, s.text);
    s.score += next.labels.back();
    s.time += 1;
    if (!tdt()) return;
    size_t d = static_cast<size_t>(std::max_element(next.durations.begin(), next.durations.end()) -
                                   next.durations.begin());
    if (d == 0) d = 1;  // durations are 0, 1, 2
    s.score += next.durations[d];
    s.time += model_.durations[d] - 1;
  }

  void keep_best(std::vector<Slot>& slots) const {
    std::stable_sort(slots.begin(), slots.end(),
                     [](const Slot& a, const Slot& b) { return a.score > b.score; });
    slots.resize(settings_.beam);
  }

  static void merge(std::vector<Slot>& slots) {
    std::stable_sort(slots.begin(), slots.end(),
                     [](const Slot& a, const Slot& b) { return a.score > b.score; });
    std::vector<Slot> kept;
    for (const Slot& s : slots) {
      const auto same = std::find_if(kept.begin(), kept.end(), [&](const Slot& other) {
        return other.text == s.text && other.time == s.time;
      });
      if (same == kept.end()) {
        kept.push_back(s);
      } else {
        same->score = log_add(same->score, s.score);
      }
    }
    slots = alive(kept);
  }

  const TableModel& model_;
  int64_t frames_;
  NextOf next_;
  Settings settings_;
  std::vector<Slot> slots_;
};

class AesPpDefinition : public testing::TestWithParam<std::tuple<bool, bool>> {};

TEST_P(AesPpDefinition, IsWhatTheDecoderDoes) {
  const auto [tdt, permute] = GetParam();
  std::mt19937 random(47);
  int with_lists = 0;
  for (int trial = 0; trial < 40; ++trial) {
    Settings settings;
    settings.permute = permute;
    settings.beam = 1 + static_cast<size_t>(trial % 5);
    settings.steps = 1 + static_cast<size_t>(trial % 3);
    settings.gamma = trial % 2 == 0 ? 2.3 : 5;
    const BeamCase c = random_beam_case(random, tdt, 8, 8, {6, 1, 11});
    const auto found = run("aes_pp",
                           {{"beam_size", settings.beam},
                            {"expansion_beta", settings.beta},
                            {"expansion_gamma", settings.gamma},
                            {"num_steps", settings.steps},
                            {"compatibility", permute ? "none" : "nemo"},
                            {"nbest", 10}},
                           c);
    for (size_t b = 0; b < c.rows.size(); ++b) {
      const auto expected = PlainSearch(c.model, c.rows[b], settings).ranked();
      const std::vector<Hypothesis>& list = found[b].nbest;
      ASSERT_EQ(list.size(), expected.size()) << "trial " << trial << " row " << b;
      with_lists += list.size() > 1;
      for (size_t i = 0; i < list.size(); ++i) {
        EXPECT_EQ(list[i].tokens, expected[i].text) << "trial " << trial << " row " << b;
        EXPECT_NEAR(list[i].score, expected[i].score, 1e-4);
      }
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(with_lists, 50);
}

INSTANTIATE_TEST_SUITE_P(Forms, AesPpDefinition,
                         testing::Combine(testing::Bool(), testing::Bool()));

TEST(AesPp, TheSlotsUpdateChangesResults) {
  std::mt19937 random(53);
  int different = 0;
  for (int trial = 0; trial < 20; ++trial) {
    const BeamCase c = random_beam_case(random, false, 8, 8, {12, 9});
    const nlohmann::json options = {{"nbest", 4}, {"expansion_gamma", 5}};
    nlohmann::json as_nemo = options;
    as_nemo["compatibility"] = "nemo";
    different += run("aes_pp", options, c) != run("aes_pp", as_nemo, c);
  }
  EXPECT_GT(different, 0);
}

}  // namespace
}  // namespace rtfx
