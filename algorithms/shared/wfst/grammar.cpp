#include "algorithms/shared/wfst/grammar.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <unordered_set>

#include "algorithms/shared/ngram_lm/arpa.h"
#include "base/error.h"

namespace rtfx {

namespace {

constexpr int32_t kStart = -1;  // <s>
constexpr int32_t kEnd = -2;    // </s>

float cost_of(float log10_value) {
  return static_cast<float>(-static_cast<double>(log10_value) * std::numbers::ln10);
}

using History = std::vector<int32_t>;  // oldest word first

[[noreturn]] void refuse_repeated(const std::string& where) {
  throw UserError(where, "the n-gram is there twice", "make the file again");
}

class Builder {
 public:
  Builder(const std::function<int32_t(std::string_view)>& word_id, int32_t backoff,
          const ArpaReader& reader)
      : word_id_(word_id), backoff_(backoff), reader_(reader) {
    state({});
    g_.start = state({kStart});
  }

  /// Returns false if the n-gram has a word without a label.
  bool add(const ArpaEntry& entry) {
    History words;
    for (const std::string_view word : entry.words) {
      words.push_back(word == "<s>" ? kStart : word == "</s>" ? kEnd : word_id_(word));
      if (words.back() == 0) return false;
    }
    if (entry.log10_backoff != 0) backoff_cost_[words] = cost_of(entry.log10_backoff);
    if (words.back() == kStart || std::isinf(entry.log10_probability)) return true;
    ngrams_.push_back({state({words.begin(), words.end() - 1}), std::move(words),
                       cost_of(entry.log10_probability), reader_.line_number()});
    return true;
  }

  TransducerArcs finish() {
    refuse_repeated_ngrams();
    for (const auto& [from, words, cost, line] : ngrams_) {
      if (words.back() == kEnd) {
        g_.finals.emplace_back(from, cost);
        continue;
      }
      const auto [to, more] = longest_state(words);
      g_.add(from, to, words.back(), words.back(), cost + more);
    }
    for (const auto& [history, from] : states_) {
      if (history.empty()) continue;
      const auto [to, more] = longest_state({history.begin() + 1, history.end()});
      g_.add(from, to, backoff_, 0, backoff_cost(history) + more);
    }
    return std::move(g_);
  }

 private:
  struct Ngram {
    int32_t from;
    History words;
    float cost;
    int64_t line;

    auto key() const { return std::tuple(from, words.back(), line); }
  };

  void refuse_repeated_ngrams() const {
    std::vector<const Ngram*> sorted;
    for (const Ngram& ngram : ngrams_) sorted.push_back(&ngram);
    std::ranges::sort(sorted, {}, &Ngram::key);
    const auto same = std::ranges::adjacent_find(sorted, [](const Ngram* a, const Ngram* b) {
      return a->from == b->from && a->words.back() == b->words.back();
    });
    if (same != sorted.end()) refuse_repeated(reader_.where((*(same + 1))->line));
  }

  int32_t state(const History& history) {
    const auto [it, is_new] = states_.try_emplace(history, g_.states);
    if (is_new) g_.add_state();
    return it->second;
  }

  float backoff_cost(const History& history) const {
    const auto found = backoff_cost_.find(history);
    return found == backoff_cost_.end() ? 0.0f : found->second;
  }

  /// Returns the longest suffix of `words` that is a state, and the cost of backing off to it.
  std::pair<int32_t, float> longest_state(History words) const {
    float cost = 0;
    for (;; words.erase(words.begin())) {
      if (const auto found = states_.find(words); found != states_.end())
        return {found->second, cost};
      cost += backoff_cost(words);
    }
  }

  const std::function<int32_t(std::string_view)>& word_id_;
  int32_t backoff_;
  const ArpaReader& reader_;
  TransducerArcs g_;
  std::map<History, int32_t> states_;
  std::map<History, float> backoff_cost_;  // of histories whose cost is not 0
  std::vector<Ngram> ngrams_;
};

}  // namespace

std::vector<std::string> arpa_words(const std::filesystem::path& arpa) {
  require_rereadable(arpa);  // grammar_transducer() reads it, too.
  ArpaReader reader(arpa);
  std::vector<std::string> words;
  std::unordered_set<std::string> all;
  reader.read_section(1, [&](const ArpaEntry& entry) {
    const std::string_view word = entry.words.front();
    if (!all.emplace(word).second) refuse_repeated(reader.where());
    if (word != "<s>" && word != "</s>") words.emplace_back(word);
  });
  if (words.empty()) {
    throw UserError(arpa.string(), "the language model has no words",
                    "give an ARPA file over words");
  }
  std::sort(words.begin(), words.end());
  return words;
}

TransducerArcs grammar_transducer(const std::filesystem::path& arpa,
                                  const std::function<int32_t(std::string_view)>& word_id,
                                  int32_t backoff, int64_t* dropped) {
  ArpaReader reader(arpa);
  Builder builder(word_id, backoff, reader);
  *dropped = 0;
  for (int64_t n = 1; n <= reader.order(); ++n) {
    reader.read_section(n, [&](const ArpaEntry& entry) { *dropped += !builder.add(entry); });
  }
  reader.read_end();
  TransducerArcs grammar = builder.finish();
  if (grammar.finals.empty()) {
    throw UserError(arpa.string(), "has no </s> of a probability above 0, so no text can end",
                    "train the language model with the ends of sentences");
  }
  return grammar;
}

}  // namespace rtfx
