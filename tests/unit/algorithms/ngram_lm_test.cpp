// Tests n-gram language models on a worked example. Random models in both written forms are
// compared with the definition of back-off.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "algorithms/shared/ngram_lm/load_ngram_lm.h"
#include "base/sha256.h"
#include "tests/support/ngram_table.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using namespace test;

constexpr const char* kTwoGram = "tests/data/two_gram.arpa";

std::vector<double> to_vector(const at::Tensor& values) {
  const at::Tensor flat = values.to(at::kDouble).contiguous();
  return {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()};
}

void expect_near(const at::Tensor& found, const std::vector<double>& expected) {
  const std::vector<double> values = to_vector(found);
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isinf(expected[i])) {
      EXPECT_EQ(values[i], expected[i]) << i;
    } else {
      EXPECT_NEAR(values[i], expected[i], 1e-4) << i;
    }
  }
}

at::Tensor states_of(const std::vector<int32_t>& states) { return at::tensor(states, at::kInt); }

TEST(NgramLm, WorkedExample) {
  const NgramLm lm = load_ngram_lm(kTwoGram, 4, {.normalize_unk = false});
  EXPECT_EQ(lm.order(), 2);
  EXPECT_EQ(lm.unknown_tokens(), 2);
  const auto start = lm.advance(lm.initial_states(1));
  expect_near(start.scores[0], {-0.4605, -2.5328, -3.2236, -3.2236});
  const auto next = start.next[0];
  EXPECT_EQ(next[2].item<int>(), 0);  // an unknown token leads to the empty context
  const auto after_a = lm.advance(next.narrow(0, 0, 1));
  expect_near(after_a.scores[0].narrow(0, 0, 2), {-1.8421, -0.2303});
  const at::Tensor ends = at::cat({next.narrow(0, 1, 1), next.narrow(0, 0, 1), states_of({1})});
  expect_near(lm.final_scores(ends), {-0.6908, -2.0723, -2.3026});

  const NgramLm shared = load_ngram_lm(kTwoGram, 4, {.normalize_unk = true});
  expect_near(shared.scores(shared.initial_states(1))[0], {-0.4605, -2.5328, -3.9168, -3.9168});
}

class NgramFiles : public TempFolder {};

/// Follows random tokens from one of the two start states. Compares all scores at every state on
/// the way, and the score of the end.
void compare_along_walk(const NgramLm& lm, const NgramTable& table, bool from_start,
                        std::mt19937& random) {
  NgramTable::Words history;
  if (from_start) history.push_back(kStart);
  at::Tensor state = from_start ? lm.initial_states(1) : states_of({0});
  for (int step = 0; step < 12; ++step) {
    std::vector<double> expected;
    for (int token = 0; token < table.vocabulary; ++token)
      expected.push_back(table.score(history, token));
    const auto all = lm.advance(state);
    expect_near(all.scores[0], expected);
    expect_near(lm.final_scores(state), {table.score(history, kEnd)});
    EXPECT_TRUE(at::equal(lm.scores(state), all.scores));

    // Looked up one by one, scores and states are equal bit for bit. Labels that are no tokens keep
    // the state.
    const at::Tensor labels = at::arange(-1, table.vocabulary + 1, at::kLong).unsqueeze(0);
    const auto some = lm.lookup(state, labels);
    EXPECT_TRUE(at::equal(some.scores.narrow(1, 1, table.vocabulary), all.scores));
    EXPECT_TRUE(at::equal(some.next.narrow(1, 1, table.vocabulary), all.next));
    for (const int64_t none : {int64_t{0}, int64_t{table.vocabulary} + 1}) {
      EXPECT_EQ(some.scores[0][none].item<float>(), 0);
      EXPECT_EQ(some.next[0][none].item<int>(), state.item<int>());
    }
    const int token = static_cast<int>(random() % static_cast<unsigned>(table.vocabulary));
    history.push_back(token);
    state = lm.next_states(state, at::tensor({int64_t{token}}));
    EXPECT_EQ(state.item<int>(), all.next[0][token].item<int>());
  }
}

TEST_F(NgramFiles, RandomModelsEqualTheDefinition) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 60 && !HasFailure(); ++trial) {
    const int order = 2 + trial % 4;
    const auto form = trial % 2 == 0 ? TokenForm::number : TokenForm::character;
    // Written as characters, tokens have one or two bytes. Among them are ids 33 and 60, which are
    // white space in Unicode.
    const NgramTable table = random_ngrams(random, order, order < 4 ? 65 - trial % 3 : 7);
    const auto file = write("lm.arpa", to_arpa(table, form, random));
    const NgramLm lm = load_ngram_lm(file, table.vocabulary, {.normalize_unk = false});
    EXPECT_EQ(lm.order(), order);
    for (int walk = 0; walk < 6; ++walk) compare_along_walk(lm, table, walk % 2 == 0, random);
  }
}

TEST_F(NgramFiles, RowsDoNotDependOnEachOther) {
  std::mt19937 random(6);
  const NgramTable table = random_ngrams(random, 4, 9);
  const NgramLm lm =
      load_ngram_lm(write("lm.arpa", to_arpa(table, TokenForm::number, random)), 9, {});
  const at::Tensor states = at::randint(0, lm.arrays().context.size(0), {40}, at::kInt);
  const auto together = lm.advance(states);
  const auto labels = at::randint(0, 9, {40}, at::kLong);
  for (int64_t r = 0; r < 40; ++r) {
    const auto alone = lm.advance(states.narrow(0, r, 1));
    EXPECT_TRUE(at::equal(alone.scores[0], together.scores[r]));
    EXPECT_TRUE(at::equal(alone.next[0], together.next[r]));
  }
  EXPECT_TRUE(at::equal(lm.next_states(states, labels),
                        together.next.gather(1, labels.unsqueeze(1)).squeeze(1)));
  EXPECT_EQ(lm.advance(states.narrow(0, 0, 0)).scores.size(0), 0);
}

bool same_arrays(const NgramLm& a, const NgramLm& b) {
  const auto all = [](const NgramArrays& x) {
    return std::vector<at::Tensor>{x.arc_to,     x.arc_label,      x.arc_weight,   x.state_arcs,
                                   x.backoff_to, x.backoff_weight, x.final_weight, x.context};
  };
  const auto left = all(a.arrays()), right = all(b.arrays());
  for (size_t i = 0; i < left.size(); ++i) {
    if (!at::equal(left[i], right[i])) return false;
  }
  return a.order() == b.order();
}

/// N-grams of higher order with <unk> have no use where every token has a 1-gram. KenLM gives equal
/// scores without them.
TEST_F(NgramFiles, LongerNgramsWithUnkChangeNothingWhereAllTokensAreKnown) {
  const auto load = [&](const std::string& unknown, const std::string& two,
                        const std::string& three) {
    const auto lines = [](const std::string& text) { return std::ranges::count(text, '\n'); };
    const std::string twos = "-0.3\t0 1\t-0.4\n-0.2\t<s> 0\t-0.3\n" + two;
    const std::string threes = "-0.6\t<s> 0 1\n" + three;
    const std::string text = fmt::format(
        "\\data\\\nngram 1=5\nngram 2={}\nngram "
        "3={}\n\\1-grams:\n{}\n-0.5\t0\t-0.2\n-0.7\t1\t-0.3\n"
        "-99\t<s>\t-0.1\n-1\t</s>\n\\2-grams:\n{}\\3-grams:\n{}\\end\\\n",
        lines(twos), lines(threes), unknown, twos, threes);
    return load_ngram_lm(write("lm.arpa", text), 2, {});
  };
  const NgramLm without = load("-2\t<unk>", "", "");
  const NgramLm with = load("-2\t<unk>\t-0.6",
                            "-0.9\t0 <unk>\n-0.8\t<unk> 1\t-0.2\n-0.7\t<s> <unk>\t-0.1\n"
                            "-0.6\t<unk> <unk>\n-0.5\t<unk> </s>\n",
                            "-0.4\t0 1 <unk>\n-0.3\t<s> <unk> 1\n-0.2\t<unk> 1 </s>\n");
  EXPECT_TRUE(same_arrays(with, without));
}

TEST_F(NgramFiles, ABinaryCopyIsTheSameModel) {
  std::mt19937 random(7);
  const auto text = [&] { return to_arpa(random_ngrams(random, 3, 9), TokenForm::number, random); };
  const auto file = write("lm.arpa", text());
  const auto copy = path("lm.arpa.ngpulm");
  const LoadLmOptions cached{.cache = true};
  const NgramLm lm = load_ngram_lm(file, 9, {});
  EXPECT_FALSE(std::filesystem::exists(copy));  // made only on request
  EXPECT_TRUE(same_arrays(load_ngram_lm(file, 9, cached), lm));
  ASSERT_TRUE(is_binary_lm(copy));
  EXPECT_TRUE(same_arrays(load_ngram_lm(file, 9, cached), lm));
  EXPECT_TRUE(same_arrays(load_ngram_lm(copy, 9, {}), lm));  // also as the given file

  // The copy is really read: another model's copy that names this file as its source is believed.
  const NgramLm other = load_ngram_lm(write("other.arpa", text()), 9, {.normalize_unk = false});
  write_binary_lm(other, copy, sha256_file(file));
  EXPECT_TRUE(same_arrays(load_ngram_lm(file, 9, {.normalize_unk = false, .cache = true}), other));

  // A copy of a file that has changed since is made again.
  write("lm.arpa", text());
  EXPECT_TRUE(same_arrays(load_ngram_lm(file, 9, cached), load_ngram_lm(file, 9, {})));
  EXPECT_TRUE(same_arrays(load_ngram_lm(copy, 9, {}), load_ngram_lm(file, 9, {})));
}

TEST_F(NgramFiles, ADamagedBinaryCopyIsRefusedAndReplaced) {
  const auto file = write("lm.arpa", [] {
    std::mt19937 random(8);
    return to_arpa(random_ngrams(random, 3, 9), TokenForm::number, random);
  }());
  const NgramLm lm = load_ngram_lm(file, 9, {.cache = true});
  const auto copy = binary_copy_of(file);
  std::string bytes(std::filesystem::file_size(copy), '\0');
  std::ifstream(copy, std::ios::binary)
      .read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  const auto complaint = [&] { return user_error([&] { load_ngram_lm(copy, 9, {}); }); };

  std::string flipped = bytes;
  flipped[bytes.size() - 5] ^= 1;
  write("lm.arpa.ngpulm", flipped);
  EXPECT_HAS(complaint(), "damaged; name the ARPA file instead");
  testing::internal::CaptureStderr();
  EXPECT_TRUE(same_arrays(load_ngram_lm(file, 9, {.cache = true}), lm));
  EXPECT_HAS(testing::internal::GetCapturedStderr(),
             "lm.arpa is made again: " + copy.string() + ": is damaged\n");
  EXPECT_EQ(complaint(), "");
  write("lm.arpa.ngpulm", "");  // an empty file
  EXPECT_TRUE(same_arrays(load_ngram_lm(file, 9, {.cache = true}), lm));
  EXPECT_EQ(complaint(), "");

  write("lm.arpa.ngpulm", bytes.substr(0, bytes.size() - 4));
  EXPECT_HAS(complaint(), "size");
  write("lm.arpa.ngpulm", bytes.substr(0, 20));
  EXPECT_HAS(complaint(), "no binary language model");
  std::string newer = bytes;
  newer[8] = 77;  // the version
  write("lm.arpa.ngpulm", newer);
  EXPECT_HAS(complaint(), "version 77");
  write("lm.arpa.ngpulm", bytes);
  EXPECT_HAS(user_error([&] { load_ngram_lm(copy, 10, {}); }),
             "9 tokens, the acoustic model has 10");
  EXPECT_HAS(user_error([&] { load_ngram_lm(copy, 9, {.memory_limit = 100}); }), "MiB");
}

/// One value of the worked example's arrays that is changed, while the checksum is right.
struct Unsound {
  const char* problem;
  at::Tensor NgramArrays::*array;
  std::vector<int64_t> place;
  double value;
};

TEST_F(NgramFiles, AnUnsoundBinaryModelIsRefused) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  // State 0 is the empty context, 1 is <s>, 2 and 3 are tokens 0 and 1, and so on. Arcs 0 to 3
  // leave state 0.
  const std::vector<Unsound> cases = {
      {"state 1 has a context of an impossible length", &NgramArrays::context, {1}, 0},
      {"state 3 has a context of an impossible length", &NgramArrays::context, {3}, 3},
      {"state 2 backs off to a context that is not", &NgramArrays::backoff_to, {2}, 2},
      {"state 2 backs off to a context that is not", &NgramArrays::backoff_to, {2}, 1 << 30},
      {"state 0 backs off to a context that is not", &NgramArrays::backoff_to, {0}, 1},
      {"state 1 has a back-off weight", &NgramArrays::backoff_weight, {1}, kInfinity},
      {"state 0 has a back-off weight", &NgramArrays::backoff_weight, {0}, 1},
      {"state 2 has a weight for its end", &NgramArrays::final_weight, {2}, kNan},
      {"state 0 has not one arc for each token", &NgramArrays::state_arcs, {0, 1}, 3},
      {"state 1 has arcs out of bounds", &NgramArrays::state_arcs, {1, 1}, 1000},
      {"state 2 has arcs out of bounds", &NgramArrays::state_arcs, {2, 0}, -7},
      {"state 0 has arcs whose tokens", &NgramArrays::arc_label, {1}, 0},
      {"state 0 has arcs whose tokens", &NgramArrays::arc_label, {3}, 4},
      {"state 0 has an arc to a state", &NgramArrays::arc_to, {1}, -1},
      {"state 0 has an arc whose weight", &NgramArrays::arc_weight, {1}, kNan}};
  for (const Unsound& bad : cases) {
    NgramLm lm = load_ngram_lm(kTwoGram, 4, {});
    at::Tensor cell = lm.arrays().*bad.array;
    for (const int64_t i : bad.place) cell = cell[i];
    cell.fill_(bad.value);
    write_binary_lm(lm, path("bad.ngpulm"), "");
    EXPECT_HAS(user_error([&] { load_ngram_lm(path("bad.ngpulm"), 4, {}); }), bad.problem);
  }
  const NgramLm lm = load_ngram_lm(kTwoGram, 4, {});
  NgramArrays longer = lm.arrays();
  for (auto array : {&NgramArrays::arc_to, &NgramArrays::arc_label, &NgramArrays::arc_weight})
    longer.*array = at::cat({longer.*array, (longer.*array).narrow(0, 0, 1)});
  write_binary_lm(NgramLm(longer, 4, 2), path("bad.ngpulm"), "");
  EXPECT_HAS(user_error([&] { load_ngram_lm(path("bad.ngpulm"), 4, {}); }), "belongs to no state");
}

TEST_F(NgramFiles, AnOrderThatNoModelHasIsRefused) {
  write_binary_lm(load_ngram_lm(kTwoGram, 4, {}), path("lm.ngpulm"), "");
  std::fstream file(path("lm.ngpulm"), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(12).put(99);
  file.close();
  EXPECT_HAS(user_error([&] { load_ngram_lm(path("lm.ngpulm"), 4, {}); }), "order 99");
}

TEST_F(NgramFiles, AHeadWithoutArraysIsRefused) {
  write_binary_lm(load_ngram_lm(kTwoGram, 4, {}), path("lm.ngpulm"), "");
  constexpr size_t kHead = 168, kCounts = 24;
  std::string bytes(kHead, '\0');
  std::ifstream(path("lm.ngpulm"), std::ios::binary).read(bytes.data(), kHead);
  bytes.replace(kCounts, 16, std::string(16, '\0'));
  write("lm.ngpulm", bytes);
  EXPECT_HAS(user_error([&] { load_ngram_lm(path("lm.ngpulm"), 4, {}); }), "size that its header");
}

}  // namespace
}  // namespace rtfx
