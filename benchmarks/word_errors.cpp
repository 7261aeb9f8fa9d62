// Times scoring: normalising a transcript (bytes/s) and counting its word errors (words/s).
#include <fmt/format.h>

#include <random>

#include "benchmarks/microbench.h"
#include "harness/scoring/normalize.h"
#include "harness/scoring/wer.h"

namespace rtfx::microbench {
namespace {

/// A sentence of 30 words. Rules of numbers, money and abbreviations apply to some of them.
constexpr const char* kSentence =
    "Mr. Brown's colour television, bought in nineteen eighty-four, cost twenty-two thousand "
    "dollars; it wasn't \xE2\x80\x94 he'd say \xE2\x80\x94 worth more than $150.50 or 3% of "
    "that, um, in the end.";

void normalise(benchmark::State& state, const Normalizer& normalizer) {
  const std::string_view text = kSentence;
  for (auto _ : state) benchmark::DoNotOptimize(normalizer.words(text).data());
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) *
                          static_cast<int64_t>(text.size()));
}

/// Counts word errors where a tenth of the words is replaced, left out or repeated.
void edits(benchmark::State& state, int64_t words) {
  std::mt19937 random(7);
  std::uniform_int_distribution<int> word(0, 2000), event(0, 29);
  std::vector<std::string> reference, hypothesis;
  for (int64_t i = 0; i < words; ++i) {
    reference.push_back(fmt::format("word{}", word(random)));
    const int what = event(random);
    if (what != 0) hypothesis.push_back(what == 1 ? "other" : reference.back());
    if (what == 2) hypothesis.push_back(reference.back());
  }
  for (auto _ : state) benchmark::DoNotOptimize(count_edits(reference, hypothesis));
  rate(state, "words/s", static_cast<double>(words));
}

}  // namespace

void add_word_errors() {
  for (const Normalizer& normalizer : normalizers())
    add("word_errors/normalise/" + normalizer.name,
        [&normalizer](benchmark::State& s) { normalise(s, normalizer); });
  for (const int64_t words : {20, 200, 2000})
    add(fmt::format("word_errors/count_edits/{}words", words),
        [words](benchmark::State& s) { edits(s, words); });
}

}  // namespace rtfx::microbench
