// Tests of results on their way to the host.
#include "algorithms/hypotheses.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "algorithms/hypotheses_on_host.h"

namespace rtfx {
namespace {

at::Tensor ints(std::initializer_list<int> values, at::IntArrayRef shape) {
  return at::tensor(std::vector<int>(values), at::kInt).view(shape);
}

/// Returns lists of two entries for two rows. The second row has only one entry.
Hypotheses two_rows() {
  const float none = -std::numeric_limits<float>::infinity();
  NBest nbest{ints({2, 1, 0, 0}, {2, 2}), ints({7, 8, 9, 9, 1, 1, 1, 1}, {2, 2, 2}),
              ints({0, 3, 2, 2, 5, 5, 5, 5}, {2, 2, 2}), at::Tensor(),
              at::tensor({-1.5f, -2.0f, -3.0f, none}).view({2, 2})};
  Hypotheses result{nbest.lengths.select(1, 0), nbest.tokens.select(1, 0),
                    nbest.frames.select(1, 0),  at::Tensor(),
                    nbest.scores.select(1, 0),  at::tensor({0, 1}).to(at::kBool)};
  result.nbest = nbest;
  return result;
}

TEST(Hypotheses, FramesAreMovedWithWordsAndList) {
  Hypothesis h{.tokens = {3, 4}, .frames = {0, 5}, .durations = {2, 1}};
  h.words = std::vector<FoundWord>{{"a", 5}};
  h.nbest = {h, {.tokens = {3}, .frames = {1}, .durations = {2}}};
  Hypothesis moved = h;
  move_frames(moved, 7);
  EXPECT_EQ(moved.frames, (std::vector<int32_t>{7, 12}));
  EXPECT_EQ(moved.durations, h.durations);
  EXPECT_EQ(moved.words, (std::vector<FoundWord>{{"a", 12}}));
  ASSERT_EQ(moved.nbest.size(), 2U);
  EXPECT_EQ(moved.nbest[0].words, moved.words);
  EXPECT_EQ(moved.nbest[1].frames, std::vector<int32_t>{8});
  move_frames(moved, -7);
  EXPECT_EQ(moved, h);
}

TEST(Hypotheses, TheListHasTheEntriesThatThereAreBestFirst) {
  const auto rows = two_rows().to_host();
  ASSERT_EQ(rows.size(), 2);
  EXPECT_EQ(rows[0].tokens, (std::vector<int32_t>{7, 8}));
  EXPECT_EQ(rows[0].frames, (std::vector<int32_t>{0, 3}));
  ASSERT_EQ(rows[0].nbest.size(), 2);
  EXPECT_EQ(rows[0].nbest[0].tokens, rows[0].tokens);
  EXPECT_EQ(rows[0].nbest[1].tokens, (std::vector<int32_t>{9}));
  EXPECT_EQ(rows[0].nbest[1].frames, (std::vector<int32_t>{2}));
  EXPECT_EQ(rows[0].nbest[1].score, -2.0f);
  EXPECT_FALSE(rows[0].nan);
  ASSERT_EQ(rows[1].nbest.size(), 1);
  EXPECT_TRUE(rows[1].tokens.empty());
  EXPECT_EQ(rows[1].score, -3.0f);
  EXPECT_TRUE(rows[1].nan);
}

TEST(Hypotheses, WithoutAListTheResultIsTheBest) {
  Hypotheses result = two_rows();
  result.nbest = {};
  const auto rows = result.to_host();
  EXPECT_TRUE(rows[0].nbest.empty());
  EXPECT_EQ(rows[0].tokens, (std::vector<int32_t>{7, 8}));
}

TEST(Hypotheses, EachRowAndEntryHasItsWords) {
  const std::vector<FoundWord> one = {{"one", 0}}, two = {{"two", 3}};
  const auto with_words = [](FoundWords words) {
    Hypotheses result = two_rows();
    result.words = std::make_shared<const FoundWords>(std::move(words));
    return result.to_host();
  };
  const auto rows = with_words({{one, {}}, {{one, two}, {one}}});
  EXPECT_EQ(rows[0].nbest[1].words, two);
  EXPECT_EQ(rows[1].nbest[0].words, one);
  EXPECT_THROW(with_words({{}, {{one, two}, {one}}}), WrongResult);
  EXPECT_THROW(with_words({{one, {}}, {}}), WrongResult);
  EXPECT_THROW(with_words({{one, {}}, {{one}, {one}}}), WrongResult);
}

/// Returns three rows with lists of two entries, of up to 3 tokens each, in one block. Entry (b, n)
/// has n + b tokens, except that (2, 1) is missing.
Hypotheses in_one_block(bool with_durations) {
  Hypotheses h = Hypotheses::one_block(3, 2, 3, with_durations, at::kCPU);
  const at::Tensor slots = at::arange(18, at::kInt).view({3, 2, 3});
  h.nbest.lengths.copy_(ints({0, 1, 1, 2, 2, 0}, {3, 2}));
  h.nbest.tokens.copy_(slots);
  h.nbest.frames.copy_(slots + 100);
  if (with_durations) h.nbest.durations.copy_(slots + 200);
  const float none = -std::numeric_limits<float>::infinity();
  h.nbest.scores.copy_(at::tensor({6.5f, 5.5f, 4.5f, 3.5f, 2.5f, none}).view({3, 2}));
  h.nan.copy_(at::tensor({0, 1, 0}));
  return h;
}

/// Returns all entries that arrived, row after row.
std::vector<Hypothesis> entries_of(const HostLists& lists) {
  std::vector<Hypothesis> entries;
  for (int64_t b = 0; b < lists.batch(); ++b)
    for (int64_t n = 0; n < lists.size(); ++n) entries.push_back(lists.entry(b, n));
  return entries;
}

TEST(HostLists, BothWaysToTheHostBringTheSame) {
  for (const bool with_durations : {false, true}) {
    for (const bool with_lists : {false, true}) {
      Hypotheses h = in_one_block(with_durations);
      if (!with_lists) h.nbest = {};
      const auto expected = entries_of(HostLists(h));
      ASSERT_EQ(expected.size(), with_lists ? 6 : 3);
      EXPECT_EQ(expected[with_lists ? 3 : 1].frames,
                with_lists ? std::vector<int32_t>({109, 110}) : std::vector<int32_t>({106}));
      HostLists as_block(h), as_slots(h);
      EXPECT_TRUE(as_block.copy_block());
      as_slots.copy_slots(2);
      h.tokens.fill_(-1);  // what arrived is a copy
      h.nan.fill_(true);
      EXPECT_EQ(entries_of(as_block), expected);
      EXPECT_EQ(entries_of(as_slots), expected);
    }
  }
}

TEST(HostLists, SlotsOfTensorsOfTheirOwnArriveToo) {
  const Hypotheses h = two_rows();
  HostLists lists(h);
  EXPECT_FALSE(lists.copy_block());
  lists.copy_slots(2);
  EXPECT_EQ(entries_of(lists), entries_of(HostLists(h)));
}

TEST(HostLists, RowsWithoutTokensArrive) {
  HostLists lists(Hypotheses::empty(2, at::kCPU));
  lists.copy_slots(0);
  EXPECT_EQ(entries_of(lists), std::vector<Hypothesis>(2));
}

TEST(HostLists, ALargeBlockIsNotCopiedAsAWhole) {
  HostLists lists(Hypotheses::one_block(1, 1, 200'000, false, at::kCPU));
  EXPECT_FALSE(lists.copy_block());
}

TEST(Hypotheses, ACloneHasMemoryOfItsOwn) {
  for (Hypotheses h : {in_one_block(true), two_rows()}) {
    const auto expected = h.to_host();
    const Hypotheses all = h.clone();
    const Hypotheses some = h.each([](const at::Tensor& t) { return t.narrow(0, 1, 1); }).clone();
    h.each([](const at::Tensor& t) { return t.zero_(); });
    EXPECT_EQ(all.to_host(), expected);
    EXPECT_EQ(some.to_host(), std::vector<Hypothesis>({expected[1]}));
  }
}

TEST(Hypotheses, EachReachesTheListToo) {
  const Hypotheses first = two_rows().each([](const at::Tensor& t) { return t.narrow(0, 0, 1); });
  EXPECT_FALSE(first.durations.defined());
  EXPECT_FALSE(first.nbest.durations.defined());
  const auto rows = first.to_host();
  ASSERT_EQ(rows.size(), 1);
  EXPECT_EQ(rows[0].nbest.size(), 2);
}

}  // namespace
}  // namespace rtfx
