#include "algorithms/shared/wfst/added_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <string_view>
#include <unordered_map>

#include "algorithms/shared/wfst/lexicon.h"
#include "algorithms/shared/wfst/topology.h"
#include "base/error.h"
#include "base/files.h"
#include "base/numbers.h"
#include "base/phrases.h"
#include "base/printable.h"
#include "models/tokenizers/spelling.h"

namespace rtfx {
namespace {

constexpr double kMostCost = 1000;

[[noreturn]] void refuse_cost(const AddedPhrase& phrase, std::string_view cost) {
  throw UserError(
      phrase.where, fmt::format("the cost of '{}' is {}", printable(phrase.text), cost),
      fmt::format("it is -ln p, a number from 0 to {}; 11.5 is a probability of 1e-5", kMostCost));
}

bool is_cost(double cost) { return cost >= 0 && cost <= kMostCost; }

/// Reads a phrase. Throws UserError for a value that is no phrase.
AddedPhrase phrase_of(const JsonView& text) {
  if (!text.value().is_string()) text.fail("text");
  const Phrase phrase = parse_phrases(text).front();
  return {phrase.text, -1, {}, phrase.where};
}

AddedPhrase parse_added_phrase(const JsonView& value) {
  if (!value.value().is_object()) return phrase_of(value);
  value.check_keys({"phrase", "cost", "tokens"});
  AddedPhrase phrase = phrase_of(value.at("phrase"));
  phrase.where = value.where();
  if (const auto cost = value.find("cost")) {
    if (!cost->value().is_number() || !is_cost(cost->value().get<double>()))
      refuse_cost(phrase, cost->value().dump());
    phrase.cost = cost->value();
  }
  if (const auto tokens = value.find("tokens"))
    for (const JsonView& token : tokens->elements()) phrase.tokens.push_back(token.text());
  return phrase;
}

nlohmann::json to_json(const AddedPhrase& phrase) {
  if (phrase.cost < 0 && phrase.tokens.empty()) return phrase.text;
  nlohmann::json object = {{"phrase", phrase.text}};
  if (phrase.cost >= 0) object["cost"] = phrase.cost;
  if (!phrase.tokens.empty()) object["tokens"] = phrase.tokens;
  return object;
}

OptionField<AddedWordOptions> list_of_phrases() {
  return {"phrases",
          "Phrases in addition to those of the file, as text or as {\"phrase\": \"york\", "
          "\"cost\": 9, \"tokens\": [...]}. Only a single word takes tokens.",
          "[a phrase, ...]",
          [](AddedWordOptions& o, const JsonView& v) {
            o.phrases = detail::list_reader<AddedPhrase>(parse_added_phrase)(v);
          },
          [](const AddedWordOptions& o) {
            nlohmann::json list = nlohmann::json::array();
            for (const AddedPhrase& phrase : o.phrases) list.push_back(to_json(phrase));
            return list;
          }};
}

}  // namespace

const OptionTable<AddedWordOptions>& added_word_options() {
  static const OptionTable<AddedWordOptions> table{{
      optional_file("path", &AddedWordOptions::path,
                    "File with one phrase in each line, plain or gzip. A tab and its cost may "
                    "follow, then a tab and the tokens of a single word."),
      list_of_phrases(),
      option("cost", &AddedWordOptions::cost,
             "Cost of a phrase that has none of its own: -ln p. A lower cost makes the phrase more "
             "likely.",
             0, kMostCost),
  }};
  return table;
}

std::vector<AddedPhrase> read_added_phrases(const std::filesystem::path& path) {
  std::vector<AddedPhrase> phrases;
  TextLines lines(path);
  std::string_view line;
  while (lines.next(line)) {
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    const std::string where = fmt::format("{}:{}", path.string(), lines.number());
    std::array<std::string_view, 3> fields;  // phrase, cost, tokens
    for (size_t i = 0; i < fields.size(); ++i) {
      const size_t end =
          i + 1 < fields.size() ? std::min(line.find('\t'), line.size()) : line.size();
      fields[i] = line.substr(0, end);
      line.remove_prefix(std::min(end + 1, line.size()));
    }
    const nlohmann::json text = fields[0];
    AddedPhrase phrase = phrase_of(JsonView(text, where));
    const std::vector<std::string_view> cost = split_fields(fields[1]);
    if (!cost.empty()) {
      const auto number = parse_number<double>(cost.front());
      if (!number || cost.size() > 1 || !is_cost(*number))
        refuse_cost(phrase, fmt::format("'{}'", printable(std::string(fields[1]))));
      phrase.cost = *number;
    }
    for (const std::string_view token : split_fields(fields[2])) phrase.tokens.emplace_back(token);
    phrases.push_back(std::move(phrase));
  }
  return phrases;
}

std::vector<int32_t> SpelledPhrase::tokens() const {
  std::vector<int32_t> all;
  for (const Word& word : words) all.insert(all.end(), word.tokens.begin(), word.tokens.end());
  return all;
}

namespace {

/// Spells phrases with the tokens of a model.
class PhraseSpeller {
 public:
  explicit PhraseSpeller(const Tokenizer& tokenizer) : speller_(tokenizer) {
    for (int32_t id = 0; id < tokenizer.size(); ++id) ids_.emplace(tokenizer.piece(id), id);
  }

  SpelledPhrase operator()(const AddedPhrase& phrase, double cost) const {
    SpelledPhrase spelled{
        phrase.text, {}, static_cast<float>(phrase.cost < 0 ? cost : phrase.cost)};
    const std::vector<std::string_view> words = split_fields(phrase.text);
    if (!phrase.tokens.empty()) {
      if (words.size() > 1) {
        throw UserError(
            phrase.where,
            fmt::format("'{}' has several words, and tokens of its own", printable(phrase.text)),
            "leave the tokens out, so that the tokenizer spells each word");
      }
      spelled.words.push_back({phrase.text, given_tokens(phrase)});
      return spelled;
    }
    for (const std::string_view word : words) {
      spelled.words.push_back({std::string(word), speller_(std::string(word))});
      if (!spelled.words.back().tokens.empty()) continue;
      throw UserError(phrase.where,
                      fmt::format("the model's tokenizer cannot spell '{}'",
                                  printable(spelled.words.back().text)),
                      "write it as the model's texts have it, or give its \"tokens\"");
    }
    return spelled;
  }

 private:
  std::vector<int32_t> given_tokens(const AddedPhrase& phrase) const {
    std::vector<int32_t> tokens;
    for (const std::string& token : phrase.tokens) {
      const auto found = ids_.find(token);
      if (found == ids_.end()) {
        throw UserError(phrase.where,
                        fmt::format("the word '{}' has the token '{}', which the tokenizer lacks",
                                    printable(phrase.text), printable(token)),
                        "spell it with this tokenizer, or leave the tokens out");
      }
      tokens.push_back(found->second);
    }
    return tokens;
  }

  Speller speller_;
  std::unordered_map<std::string, int32_t> ids_;
};

}  // namespace

std::vector<SpelledPhrase> spelled_phrases(const AddedWordOptions& options,
                                           const Tokenizer& tokenizer) {
  std::vector<AddedPhrase> phrases;
  if (!options.path.empty()) phrases = read_added_phrases(options.path);
  phrases.insert(phrases.end(), options.phrases.begin(), options.phrases.end());
  if (phrases.empty()) {
    throw UserError(options.path.empty() ? "words" : options.path.string(), "has no words to add",
                    "give \"path\" or \"phrases\" with a word or more, or leave \"words\" out");
  }
  const PhraseSpeller speller(tokenizer);
  std::vector<SpelledPhrase> spelled;
  ErrorList errors;
  for (const AddedPhrase& phrase : phrases)
    errors.run([&] { spelled.push_back(speller(phrase, options.cost)); });
  errors.throw_any();
  return spelled;
}

namespace {

/// The numbers of words. Those of the phrases follow those of the graph.
class WordNumbers {
 public:
  explicit WordNumbers(const WfstGraph& graph) {
    for (int32_t id = 1; id <= graph.words(); ++id) {
      texts_.emplace_back(graph.word(id));
      by_text_.emplace(texts_.back(), id);
    }
    shown_.resize(texts_.size() + 1);
    std::iota(shown_.begin(), shown_.end(), 0);
  }

  /// Returns the number of each word of the phrase.
  std::vector<int32_t> of(const SpelledPhrase& phrase) {
    if (phrase.words.size() == 1) return {number(phrase.text)};
    std::vector<int32_t> numbers;
    for (const SpelledPhrase::Word& word : phrase.words) {
      const int32_t shown = number(word.text);
      const std::string text = numbers.empty() ? phrase.text : "";
      const auto [entry, is_new] = in_phrases_.try_emplace({text, shown});
      if (is_new) entry->second = add(text, shown);
      numbers.push_back(entry->second);
    }
    return numbers;
  }

  const std::vector<std::string>& texts() const { return texts_; }
  const std::vector<int32_t>& shown() const { return shown_; }

 private:
  int32_t number(const std::string& text) {
    const auto [entry, is_new] = by_text_.try_emplace(text);
    if (is_new) entry->second = add(text, static_cast<int32_t>(texts_.size()) + 1);
    return entry->second;
  }

  int32_t add(const std::string& text, int32_t shown) {
    texts_.push_back(text);
    shown_.push_back(shown);
    return static_cast<int32_t>(texts_.size());
  }

  std::vector<std::string> texts_;  // texts_[i] belongs to number i + 1
  std::vector<int32_t> shown_;      // [numbers + 1]
  std::unordered_map<std::string, int32_t> by_text_;
  /// Numbers of words in phrases, by the phrase (of its first word, otherwise "") and shown word.
  std::map<std::pair<std::string, int32_t>, int32_t> in_phrases_;
};

/// A graph that grows by phrases. T's states are those of token_transducer().
class GrowingGraph {
 public:
  GrowingGraph(const WfstGraph& graph, const std::string& where)
      : graph_(graph), view_(graph.view()), where_(where), numbers_(graph) {
    is_normal_ = graph.topology() == topology_name(Topology::normal);
    if (!is_normal_ && graph.topology() != topology_name(Topology::compact)) {
      throw UserError(
          where, fmt::format("has the topology '{}', which takes no added words", graph.topology()),
          "make it with `rtfx graph build --topology compact` or `normal`, or leave out \"words\"");
    }
    find_hub();
    copy();
    find_ends();
  }

  void add(const std::vector<SpelledPhrase>& phrases) {
    // In the topology `normal`, a phrase begins behind the last token of another one, too.
    for (const SpelledPhrase& phrase : phrases) end_with(phrase.tokens().back());
    for (const SpelledPhrase& phrase : phrases) add(phrase);
  }

  WfstGraph finish() const {
    const WfstGraph made =
        WfstGraph::from(grown_, blank(), numbers_.texts(), std::string(graph_.topology()),
                        std::string(graph_.tokenizer()), where_);
    return made.showing(numbers_.shown());
  }

 private:
  int32_t blank() const { return view_.columns - 1; }  // column of blank

  [[noreturn]] void fail() const {
    throw UserError(where_, "is no graph that words can be added to",
                    "make it with `rtfx graph build`, or leave out \"words\"");
  }

  /// Adds an arc by its column, which is -1 for a non-emitting arc.
  void add_arc(int32_t from, int32_t to, int32_t column, int32_t word = 0, float cost = 0) {
    grown_.add(from, to, column + 1, word, cost);
  }

  /// Finds the hub, the state without history before a token and after a blank. Back-off arcs lead
  /// from the start to the hub, with no other non-emitting arcs on the way.
  void find_hub() {
    const int32_t* begin = view_.nonemitting_begin;
    for (hub_ = view_.start; begin[hub_] != begin[hub_ + 1]; hub_ = view_.arcs[begin[hub_]].next) {
      const GraphArc& arc = view_.arcs[begin[hub_]];
      if (begin[hub_ + 1] - begin[hub_] != 1 || arc.word != 0) fail();
    }
    if (loop_of(hub_) != blank()) fail();
  }

  /// Returns the column of a state's loop, or -1 if it has none.
  int32_t loop_of(int32_t state) const {
    for (int32_t a = view_.emitting_begin[state]; a < view_.emitting_begin[state + 1]; ++a)
      if (view_.arcs[a].next == state && view_.arcs[a].word == 0) return view_.arcs[a].column;
    return -1;
  }

  void copy() {
    grown_.states = view_.states;
    grown_.start = view_.start;
    for (const int32_t* begin : {view_.emitting_begin, view_.nonemitting_begin})
      for (int32_t s = 0; s < view_.states; ++s)
        for (int32_t a = begin[s]; a < begin[s + 1]; ++a) {
          const GraphArc& arc = view_.arcs[a];
          add_arc(s, arc.next, arc.column, arc.word, arc.cost);
        }
    for (int32_t s = 0; s < view_.states; ++s)
      if (std::isfinite(view_.final_cost[s])) grown_.finals.emplace_back(s, view_.final_cost[s]);
  }

  /// Finds the states without history just after a token. Such a state has a loop with this token.
  /// It leads to the hub by a blank (normal) or without a frame (compact).
  void find_ends() {
    const int32_t column = is_normal_ ? blank() : -1;
    for (const TransducerArcs::Arc& arc : grown_.arcs) {
      if (arc.to != hub_ || arc.from == hub_ || arc.input != column + 1) continue;
      if (const int32_t token = loop_of(arc.from); token >= 0 && token != blank())
        ends_.emplace(token, arc.from);
    }
  }

  /// Returns a new state just after a token, and another one that follows it after a blank.
  int32_t add_state_after(int32_t token, int32_t after_blank) {
    const int32_t state = grown_.add_state();
    add_arc(state, state, token);
    add_arc(state, after_blank, is_normal_ ? blank() : -1);
    return state;
  }

  /// Returns the state without history just after a token, which is made if the graph lacks it.
  int32_t end_with(int32_t token) {
    const auto [entry, is_new] = ends_.try_emplace(token);
    if (!is_new) return entry->second;
    const int32_t state = entry->second = add_state_after(token, hub_);
    if (!is_normal_) return state;
    if (std::isfinite(view_.final_cost[hub_]))
      grown_.finals.emplace_back(state, view_.final_cost[hub_]);
    for (int32_t a = view_.emitting_begin[hub_]; a < view_.emitting_begin[hub_ + 1]; ++a) {
      const GraphArc& arc = view_.arcs[a];
      if (arc.column != token && arc.column != blank())
        add_arc(state, arc.next, arc.column, arc.word, arc.cost);
    }
    return state;
  }

  void add(const SpelledPhrase& phrase) {
    const std::vector<int32_t> tokens = phrase.tokens(), numbers = numbers_.of(phrase);
    std::vector<int32_t> words(tokens.size());  // at the first token of each word
    size_t first = 0;
    for (size_t i = 0; i < numbers.size(); first += phrase.words[i++].tokens.size())
      words[first] = numbers[i];

    std::vector<int32_t> from = {hub_};
    if (is_normal_)
      for (const auto& [token, state] : ends_)
        if (token != tokens.front()) from.push_back(state);
    for (size_t i = 0; i < tokens.size(); ++i) {
      const bool is_last = i + 1 == tokens.size();
      int32_t to = 0, after_blank = 0;
      if (is_last) {
        to = end_with(tokens[i]);
      } else {
        after_blank = grown_.add_state();
        add_arc(after_blank, after_blank, blank());
        to = add_state_after(tokens[i], after_blank);
      }
      for (const int32_t state : from)
        add_arc(state, to, tokens[i], words[i], i == 0 ? phrase.cost : 0);
      if (is_last) continue;
      from = {after_blank};
      if (is_normal_ && tokens[i + 1] != tokens[i]) from.push_back(to);
    }
  }

  const WfstGraph& graph_;
  const GraphView& view_;
  const std::string& where_;
  WordNumbers numbers_;
  bool is_normal_ = false;
  int32_t hub_ = 0;
  std::map<int32_t, int32_t> ends_;  // by token
  TransducerArcs grown_;
};

}  // namespace

WfstGraph with_phrases(const WfstGraph& graph, const std::vector<SpelledPhrase>& phrases,
                       const std::string& where) {
  GrowingGraph grown(graph, where);
  grown.add(phrases);
  return grown.finish();
}

}  // namespace rtfx
