#include "algorithms/shared/wfst/word_boosting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "base/numbers.h"
#include "base/printable.h"
#include "base/terminal.h"

namespace rtfx {

namespace {

OptionField<WordBoostOptions> phrases_option() {
  return {"phrases",
          "Words and phrases in addition to those of the file, as text or as {\"phrase\": "
          "\"york\", \"weight\": 6}. The weight is subtracted from the cost.",
          "[a phrase, ...]",
          [](WordBoostOptions& o, const JsonView& v) { o.phrases = parse_phrases(v); },
          [](const WordBoostOptions& o) { return to_json(o.phrases); }};
}

}  // namespace

const OptionTable<WordBoostOptions>& word_boost_options() {
  static const OptionTable<WordBoostOptions> table{{
      optional_file("path", &WordBoostOptions::path,
                    "File with a word and its boost in each line, plain or gzip. The boost is "
                    "subtracted from the cost of the word. A phrase needs a tab before its boost."),
      phrases_option(),
      option("scale", &WordBoostOptions::scale,
             "Factor of all boosts. 0 turns boosting off. A list of values makes one decoder of "
             "each value.",
             -1e6, 1e6),
      option(
          "weight", &WordBoostOptions::weight,
          "Boost of a word or phrase that has no weight of its own, in `phrases` or in a manifest.",
          0, 1000),
      option("utterances", &WordBoostOptions::utterances,
             "Also boost the words and phrases of the key `boost` of utterances in a manifest."),
  }};
  return table;
}

WordBoosts read_word_boosts(const std::filesystem::path& path) {
  WordBoosts boosts;
  TextLines lines(path);
  std::string_view line;
  while (lines.next(line)) {
    constexpr std::string_view kSpace = " \t\r";
    const size_t word = line.find_first_not_of(kSpace);
    if (word == line.npos) continue;
    line = line.substr(word, line.find_last_not_of(kSpace) + 1 - word);
    // A tab ends the words. Without a tab, the first space ends the word.
    const size_t tab = line.find_last_of('\t');
    const size_t word_end = tab != line.npos ? line.find_last_not_of(kSpace, tab) + 1
                                             : std::min(line.find_first_of(kSpace), line.size());
    const size_t number = std::min(line.find_first_not_of(kSpace, word_end), line.size());
    const auto boost = parse_number<float>(line.substr(number));
    if (!boost || !std::isfinite(*boost)) {
      throw UserError(fmt::format("{}:{}", path.string(), lines.number()),
                      fmt::format("'{}' is no word and a number", line),
                      "write a line such as `word 4.5` for each word");
    }
    const auto [entry, is_new] = boosts.try_emplace(std::string(line.substr(0, word_end)), *boost);
    if (!is_new) entry->second = std::max(entry->second, *boost);
  }
  return boosts;
}

std::vector<float> word_costs(const WfstGraph& graph, const WordBoosts& boosts, int64_t* unknown) {
  std::vector<float> costs(static_cast<size_t>(graph.words()) + 1);
  std::set<std::string_view> known;  // Words of the graph may have the same text.
  for (int32_t id = 1; id <= graph.words(); ++id) {
    const auto found = boosts.find(graph.word(id));
    if (found == boosts.end()) continue;
    costs[static_cast<size_t>(id)] = -found->second;
    known.insert(found->first);
  }
  if (unknown != nullptr) *unknown = std::ssize(boosts) - std::ssize(known);
  return costs;
}

WordIndex::WordIndex(WfstGraph graph) : graph_(std::move(graph)) {
  by_text_.resize(static_cast<size_t>(graph_->words()));
  std::iota(by_text_.begin(), by_text_.end(), 1);
  std::ranges::stable_sort(by_text_, {}, [this](int32_t id) { return graph_->word(id); });
}

std::span<const int32_t> WordIndex::find(std::string_view text) const {
  if (!graph_) return {};
  const auto found =
      std::ranges::equal_range(by_text_, text, {}, [this](int32_t id) { return graph_->word(id); });
  return {found.begin(), found.end()};
}

namespace {

/// The bias of a row in a search over a graph.
struct WordBias : CompiledBias {
  std::vector<std::pair<int32_t, float>> word_costs;
};

}  // namespace

const std::vector<std::pair<int32_t, float>>& word_costs_of(const CompiledBias& bias) {
  return static_cast<const WordBias&>(bias).word_costs;
}

WordBoosting::WordBoosting(const std::optional<WordBoostOptions>& boost, const WfstGraph& graph)
    : index_(graph), graph_words_(graph.words()) {
  if (!boost) return;
  options_ = *boost;
  WordBoosts boosts;
  if (!boost->path.empty()) {
    boosts = read_word_boosts(boost->path);
    WordBoosts scaled = boosts;
    for (auto& [word, number] : scaled) {
      if (number > 0) words_.push_back(word);
      number *= static_cast<float>(boost->scale);
    }
    int64_t unknown = 0;
    costs_ = word_costs(graph, scaled, &unknown);
    if (unknown > 0) {
      print_message("rtfx: notice: {}: {} of {} words are not in the graph\n",
                    printable(boost->path.string()), unknown, boosts.size());
    }
  }
  std::map<int32_t, float> weights;
  for (const Phrase& phrase : boost->phrases) {
    add(phrase, weights);
    if (weight_of(phrase) > 0) words_.push_back(phrase.text);
  }
  if (weights.empty()) return;
  costs_.resize(static_cast<size_t>(graph_words_) + 1);
  for (const auto& [id, weight] : weights) {
    const auto in_file = boosts.find(graph.word(id));
    if (in_file == boosts.end() || weight > in_file->second)
      costs_[static_cast<size_t>(id)] = cost_of(weight);
  }
}

double WordBoosting::weight_of(const Phrase& phrase) const {
  return phrase.weight != 0 ? phrase.weight : options_.weight;
}

float WordBoosting::cost_of(float weight) const {
  return -(weight * static_cast<float>(options_.scale));
}

/// Adds the words with the phrase's text. Of two boosts of a word, the larger one counts, before
/// the scale, which may be negative.
void WordBoosting::add(const Phrase& phrase, std::map<int32_t, float>& weights) const {
  const double weight = weight_of(phrase);
  const auto boost = static_cast<float>(weight);
  if (!std::isfinite(cost_of(boost))) {
    throw UserError(phrase.where,
                    fmt::format("the boost of '{}' is {} times {}", printable(phrase.text), weight,
                                options_.scale),
                    "give finite numbers");
  }
  const std::span<const int32_t> ids = index_.find(phrase.text);
  if (ids.empty()) {
    throw UserError(
        phrase.where, fmt::format("the graph has no word '{}'", printable(phrase.text)),
        phrase.text.find(' ') == phrase.text.npos
            ? "add it to the decoder's option \"words\", or write it as the graph's lexicon does"
            : "add the phrase to the decoder's option \"words\", or boost its words one by one");
  }
  for (const int32_t id : ids) {
    const auto [entry, is_new] = weights.try_emplace(id, boost);
    if (!is_new) entry->second = std::max(entry->second, boost);
  }
}

std::shared_ptr<const CompiledBias> WordBoosting::compile(const BiasRequest& request) const {
  if (request.allowed && !request.allowed->empty()) {
    throw UserError(request.where, "a CTC search with a decoding graph has no allowed characters",
                    "leave out \"allowed\", or choose a decoder that has the option \"allowed\"");
  }
  auto bias = std::make_shared<WordBias>();
  std::map<int32_t, float> weights;
  for (const Phrase& phrase : request.phrases) {
    add(phrase, weights);
    bias->phrases.push_back(phrase.text);
  }
  for (const auto& [id, weight] : weights) bias->word_costs.emplace_back(id, cost_of(weight));
  return bias;
}

std::span<const float> WordBoosting::of_row(const CompiledBias* bias,
                                            std::vector<float>& own) const {
  if (bias == nullptr || word_costs_of(*bias).empty()) return costs_;
  own = costs_;
  own.resize(static_cast<size_t>(graph_words_) + 1);
  for (const auto& [id, cost] : word_costs_of(*bias)) own[static_cast<size_t>(id)] = cost;
  return own;
}

}  // namespace rtfx
