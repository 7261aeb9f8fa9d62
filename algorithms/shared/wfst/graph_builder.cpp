#include "algorithms/shared/wfst/graph_builder.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <map>
#include <numbers>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "algorithms/shared/ngram_lm/arpa.h"
#include "algorithms/shared/wfst/composition.h"
#include "algorithms/shared/wfst/graph.h"
#include "base/error.h"
#include "base/files.h"
#include "base/sha256.h"
#include "models/tokenizers/tokenizer.h"

namespace rtfx {

namespace {

constexpr std::string_view kUnknownWord = "<unk>";

}  // namespace

std::vector<std::string_view> split_fields(std::string_view line) {
  constexpr std::string_view kSpace = " \t\r";
  std::vector<std::string_view> fields;
  for (size_t begin = 0; (begin = line.find_first_not_of(kSpace, begin)) != line.npos;) {
    const size_t end = std::min(line.find_first_of(kSpace, begin), line.size());
    fields.push_back(line.substr(begin, end - begin));
    begin = end;
  }
  return fields;
}

float Lexicon::cost(const std::string& word, const std::vector<int32_t>& spelling) const {
  const auto found = costs_.find({word, spelling});
  return found == costs_.end() ? 0 : found->second;
}

void Lexicon::add_cost(const std::string& word, const std::vector<int32_t>& spelling, float cost) {
  const auto [entry, is_new] = costs_.try_emplace({word, spelling}, cost);
  if (!is_new) entry->second = std::min(entry->second, cost);
}

namespace {

using TokenIds = std::unordered_map<std::string, int32_t>;

std::optional<double> number_of(std::string_view field) {
  double value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  const bool is_one = error == std::errc() && end == field.data() + field.size();
  return is_one ? std::optional(value) : std::nullopt;
}

bool is_probability(double value) { return value > 0 && value <= 1; }

/// Returns whether the second column of a lexicon has probabilities. Tokens may be digits, but then
/// a line has another token, or no line has a point. Throws UserError if most lines have a number
/// that is no token and another line has none, since its probability is probably missing.
bool has_probabilities(const std::filesystem::path& path, const TokenIds& ids) {
  if (!std::filesystem::is_regular_file(path)) return false;  // A pipe can be read once.
  TextLines lines(path);
  std::string_view line;
  int64_t entries = 0, numbers = 0;
  int64_t other = 0;  // the first line without a number
  bool has_point = false;
  while (lines.next(line)) {
    const auto fields = split_fields(line);
    if (fields.empty()) continue;
    ++entries;
    const auto value = fields.size() < 3 ? std::nullopt : number_of(fields[1]);
    const bool is_token = value && ids.contains(std::string(fields[1]));
    if (!value || (!is_probability(*value) && is_token)) {
      if (other == 0) other = lines.number();
      continue;
    }
    has_point |= fields[1].find('.') != fields[1].npos;
    numbers += is_token ? 0 : 1;
  }
  if (other == 0) return has_point;
  if (has_point && 2 * numbers > entries) {
    throw UserError(fmt::format("{}:{}", path.string(), other),
                    "has no probability before its tokens, and most lines have one",
                    "write a probability in each line of the lexicon, or in none");
  }
  return false;
}

/// Throws UserError at "path:line" for a name that symbol tables reserve: <eps>, #0, #1, ...
void require_word(std::string_view word, const std::filesystem::path& path, int64_t line,
                  const char* remedy) {
  const bool is_symbol = word.size() > 1 && word.front() == '#' &&
                         word.find_first_not_of("0123456789", 1) == word.npos;
  if (word != "<eps>" && !is_symbol) return;
  throw UserError(fmt::format("{}:{}", path.string(), line),
                  fmt::format("'{}' is no word: it is the name of {} in tables of symbols", word,
                              is_symbol ? "a disambiguation symbol" : "the empty label"),
                  remedy);
}

}  // namespace

Lexicon read_lexicon(const std::filesystem::path& path, const Tokenizer& tokenizer,
                     const std::vector<std::string>& wanted, bool drop_unspelled, int64_t* dropped,
                     int64_t* unwanted) {
  TokenIds ids;
  for (int32_t id = 0; id < tokenizer.size(); ++id) ids.emplace(tokenizer.piece(id), id);

  Lexicon lexicon;
  std::unordered_set<std::string> others;  // words that are not wanted
  *dropped = 0;
  const size_t first_token = has_probabilities(path, ids) ? 2 : 1;
  TextLines lines(path);
  std::string_view line;
  while (lines.next(line)) {
    const auto fields = split_fields(line);
    if (fields.empty()) continue;
    require_word(fields[0], path, lines.number(), "leave the line out, or rename the word");
    if (!std::binary_search(wanted.begin(), wanted.end(), fields[0])) {
      if (unwanted != nullptr) others.emplace(fields[0]);
      continue;
    }
    const auto where = [&] { return fmt::format("{}:{}", path.string(), lines.number()); };
    const auto probability = first_token == 2 && fields.size() > 1 ? number_of(fields[1]) : 1.0;
    if (!probability || !is_probability(*probability)) {
      throw UserError(where(), fmt::format("the probability of '{}' is {}", fields[0], fields[1]),
                      "it must be above 0 and at most 1");
    }
    std::vector<int32_t> spelling;
    std::string problem = fields.size() == 1 ? "has no tokens" : "";
    for (size_t i = first_token; i < fields.size() && problem.empty(); ++i) {
      const auto found = ids.find(std::string(fields[i]));
      if (found != ids.end())
        spelling.push_back(found->second);
      else
        problem = fmt::format("has the token '{}', which the tokenizer lacks", fields[i]);
    }
    if (problem.empty()) {
      if (first_token == 2) {
        lexicon.add_cost(std::string(fields[0]), spelling,
                         static_cast<float>(-std::log(*probability)));
      }
      lexicon[std::string(fields[0])].push_back(std::move(spelling));
    } else if (drop_unspelled) {
      ++*dropped;
    } else {
      throw UserError(where(), fmt::format("the word '{}' {}", fields[0], problem),
                      "spell it with this tokenizer, or leave such words out (--drop-unspelled)");
    }
  }
  if (unwanted != nullptr) *unwanted = std::ssize(others);
  if (!lexicon.empty() && tokenizer.unknown() >= 0 &&
      std::binary_search(wanted.begin(), wanted.end(), kUnknownWord)) {
    auto& spellings = lexicon[std::string(kUnknownWord)];
    if (spellings.empty()) spellings.push_back({tokenizer.unknown()});
  }
  for (auto& [word, spellings] : lexicon) {
    std::sort(spellings.begin(), spellings.end());
    spellings.erase(std::unique(spellings.begin(), spellings.end()), spellings.end());
  }
  return lexicon;
}

LexiconTransducer lexicon_transducer(const Lexicon& lexicon, int32_t tokens) {
  using Spelling = std::vector<int32_t>;
  std::map<Spelling, int32_t> word_count;  // how many words share a spelling
  std::set<Spelling> prefixes;             // proper prefixes of spellings
  for (const auto& [word, spellings] : lexicon) {
    for (const Spelling& spelling : spellings) {
      ++word_count[spelling];
      for (size_t n = 1; n < spelling.size(); ++n)
        prefixes.emplace(spelling.begin(), spelling.begin() + static_cast<ptrdiff_t>(n));
    }
  }

  LexiconTransducer result;
  TransducerArcs& l = result.arcs;
  result.backoff_word = static_cast<int32_t>(lexicon.size()) + 1;
  result.labels.tokens = tokens;
  const int32_t loop = l.add_state();
  l.finals.emplace_back(loop, 0.0f);
  l.add(loop, loop, result.labels.symbol(0), result.backoff_word);

  std::map<Spelling, int32_t> used;  // largest k of the symbols #k of a spelling so far
  int32_t word_id = 0;
  for (const auto& [word, spellings] : lexicon) {
    ++word_id;
    for (const Spelling& spelling : spellings) {
      std::vector<int32_t> inputs;
      for (const int32_t token : spelling) inputs.push_back(token + 1);
      if (word_count[spelling] > 1 || prefixes.contains(spelling)) {
        const int32_t k = ++used[spelling];
        inputs.push_back(result.labels.symbol(k));
        result.labels.disambiguation = std::max(result.labels.disambiguation, k + 1);
      }
      int32_t from = loop;
      for (size_t i = 0; i < inputs.size(); ++i) {
        const int32_t to = i + 1 == inputs.size() ? loop : l.add_state();
        l.add(from, to, inputs[i], i == 0 ? word_id : 0, i == 0 ? lexicon.cost(word, spelling) : 0);
        from = to;
      }
    }
  }
  return result;
}

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

namespace {

void add_disambiguation_loops(TransducerArcs& t, int32_t state, const TokenLabels& labels) {
  for (int32_t k = 0; k < labels.disambiguation; ++k) t.add(state, state, 0, labels.symbol(k));
}

}  // namespace

const std::vector<std::string>& topology_names() {
  static const std::vector<std::string> names = {"normal", "compact", "tokens", "normal_riva"};
  return names;
}

std::string topology_name(Topology topology) {
  return topology_names()[static_cast<size_t>(topology)];
}

Topology parse_topology(const std::string& name, const std::string& where) {
  const auto& names = topology_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) throw unknown_name(where, "topology", name, names);
  return static_cast<Topology>(found - names.begin());
}

TransducerArcs token_transducer(Topology topology, const TokenLabels& labels) {
  const bool normal = topology == Topology::normal || topology == Topology::normal_riva;
  TransducerArcs t;
  if (topology == Topology::tokens) {
    t.states = 1;
    t.finals.emplace_back(0, 0.0f);
    add_disambiguation_loops(t, 0, labels);
    for (int32_t i = 1; i <= labels.tokens; ++i) t.add(0, 0, i, i);
    return t;
  }
  t.states = labels.tokens + 1;
  t.finals.emplace_back(0, 0.0f);
  t.add(0, 0, labels.blank(), 0);
  if (topology != Topology::normal_riva) add_disambiguation_loops(t, 0, labels);
  for (int32_t i = 1; i <= labels.tokens; ++i) {
    t.add(0, i, i, i);
    t.add(i, i, i, 0);
    t.add(i, 0, normal ? labels.blank() : 0, 0);
    if (!normal) continue;
    t.finals.emplace_back(i, 0.0f);
    add_disambiguation_loops(t, i, labels);
    for (int32_t j = 1; j <= labels.tokens; ++j) {
      if (j != i) t.add(i, j, j, j);
    }
  }
  return t;
}

namespace {

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{1024} * usage.ru_maxrss;
}

/// Runs the stages and records their time, size and memory.
class Stages {
 public:
  explicit Stages(const std::function<void(const GraphStage&)>& progress) : progress_(progress) {}

  template <class Work>
  auto run(std::string name, const Work& work) {
    const auto begin = std::chrono::steady_clock::now();
    auto result = work();
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    const TransducerArcs& t = arcs_of(result);
    list_.push_back({std::move(name), t.states, static_cast<int64_t>(t.arcs.size()), spent.count(),
                     peak_resident_bytes()});
    if (progress_) progress_(list_.back());
    return result;
  }

  std::vector<GraphStage> list() { return std::move(list_); }

 private:
  static const TransducerArcs& arcs_of(const TransducerArcs& t) { return t; }
  static const TransducerArcs& arcs_of(const LexiconTransducer& l) { return l.arcs; }

  const std::function<void(const GraphStage&)>& progress_;
  std::vector<GraphStage> list_;
};

}  // namespace

std::string tokenizer_checksum(const Tokenizer& tokenizer) {
  std::string pieces;
  for (int32_t id = 0; id < tokenizer.size(); ++id) pieces += tokenizer.piece(id) + '\n';
  return sha256(pieces);
}

Lexicon common_lexicon(const Tokenizer& tokenizer, const GraphSources& sources, int64_t* dropped,
                       int64_t* unwanted) {
  Lexicon lexicon = read_lexicon(sources.lexicon, tokenizer, arpa_words(sources.arpa),
                                 sources.drop_unspelled, dropped, unwanted);
  if (lexicon.empty()) {
    throw UserError(sources.arpa.string(),
                    "none of its words is in the lexicon " + sources.lexicon.string(),
                    "give a language model over words, and the lexicon of those words");
  }
  return lexicon;
}

std::function<int32_t(std::string_view)> word_labels(const Lexicon& lexicon) {
  std::unordered_map<std::string_view, int32_t> labels;
  for (const auto& [word, spellings] : lexicon)
    labels.emplace(word, static_cast<int32_t>(labels.size()) + 1);
  return [labels = std::move(labels)](std::string_view word) {
    const auto found = labels.find(word);
    return found == labels.end() ? 0 : found->second;
  };
}

BuiltGraph build_graph(const Tokenizer& tokenizer, const GraphSources& sources,
                       const std::function<void(const GraphStage&)>& progress) {
  const auto tokens = static_cast<int32_t>(tokenizer.size());
  int64_t dropped_words = 0, unwanted_words = 0, dropped_ngrams = 0;
  const Lexicon lexicon = common_lexicon(tokenizer, sources, &dropped_words, &unwanted_words);
  std::vector<std::string> words;
  for (const auto& [word, spellings] : lexicon) words.push_back(word);

  Stages stages(progress);
  const LexiconTransducer l = stages.run("L", [&] { return lexicon_transducer(lexicon, tokens); });
  const TransducerArcs g = stages.run("G", [&] {
    return grammar_transducer(sources.arpa, word_labels(lexicon), l.backoff_word, &dropped_ngrams);
  });
  TransducerArcs lg = stages.run("L o G", [&] { return compose(l.arcs, g); });
  lg = stages.run("min(det(L o G))", [&] { return determinize_and_minimize(lg); });
  const TransducerArcs t =
      stages.run("T", [&] { return token_transducer(sources.topology, l.labels); });
  const TransducerArcs tlg = stages.run("TLG", [&] { return compose(t, lg); });
  WfstGraph graph =
      WfstGraph::from(tlg, tokens, words, topology_name(sources.topology),
                      tokenizer_checksum(tokenizer), sources.arpa.string() + " (its graph)");
  return {std::move(graph), stages.list(),  static_cast<int64_t>(words.size()),
          dropped_words,    unwanted_words, dropped_ngrams};
}

namespace {

struct WordTable {
  std::vector<std::string> words;  // words[i] has the id i + 1; "" for ids without a word
  std::vector<int64_t> lines;      // their line numbers in the file

  bool contains(size_t id) const { return id <= words.size() && !words[id - 1].empty(); }
};

/// Reads a word table. Throws UserError for two words with one id.
WordTable read_word_table(const std::filesystem::path& path) {
  constexpr int32_t kMost = 1 << 22;  // more words than any vocabulary has
  WordTable table;
  TextLines lines(path);
  std::string_view line;
  while (lines.next(line)) {
    const auto fields = split_fields(line);
    int32_t id = -1;
    if (fields.size() == 2) {
      const char* end = fields[1].data() + fields[1].size();
      if (std::from_chars(fields[1].data(), end, id).ptr != end) id = -1;
    }
    if (id < 0 || id > kMost) {
      throw UserError(fmt::format("{}:{}", path.string(), lines.number()),
                      fmt::format("'{}' is no word and its id, at most {}", line, kMost),
                      "give the table of the graph's output labels, with words without spaces");
    }
    if (id == 0) continue;  // epsilon
    if (table.words.size() < static_cast<size_t>(id)) {
      table.words.resize(static_cast<size_t>(id));
      table.lines.resize(static_cast<size_t>(id));
    }
    std::string& word = table.words[static_cast<size_t>(id) - 1];
    const std::string_view found = fields[0];
    if (found == "<eps>") require_word(found, path, lines.number(), "give it the id 0");
    if (!word.empty() && word != found) {
      throw UserError(fmt::format("{}:{}", path.string(), lines.number()),
                      fmt::format("'{}' has the id {}, which '{}' has already", found, id, word),
                      "give the table that the graph was made with");
    }
    word = found;
    table.lines[static_cast<size_t>(id) - 1] = lines.number();
  }
  return table;
}

/// Returns the labels of loops at the start of a graph, or at states that the start reaches without
/// a frame.
std::set<int32_t> labels_at_start(const TransducerArcs& graph) {
  std::vector<std::vector<const TransducerArcs::Arc*>> arcs(static_cast<size_t>(graph.states));
  for (const TransducerArcs::Arc& arc : graph.arcs)
    arcs[static_cast<size_t>(arc.from)].push_back(&arc);
  std::set<int32_t> labels, seen = {graph.start};
  std::vector<int32_t> open = {graph.start};
  while (!open.empty() && graph.states > 0) {
    const int32_t state = open.back();
    open.pop_back();
    for (const TransducerArcs::Arc* arc : arcs[static_cast<size_t>(state)]) {
      if (arc->to == state && arc->input > 0 && arc->output == 0) labels.insert(arc->input);
      if (arc->input == 0 && seen.insert(arc->to).second) open.push_back(arc->to);
    }
  }
  return labels;
}

/// Throws UserError unless the graph shows that blank is its last label.
void require_last_blank(const TransducerArcs& graph, int32_t tokens, const std::string& where) {
  const std::set<int32_t> labels = labels_at_start(graph);
  if (labels.contains(tokens + 1)) return;
  if (labels.contains(1)) {
    throw UserError(where,
                    "its start stays with label 1, so that blank seems to be the first label",
                    "if so, give --blank first; else --blank last");
  }
  throw UserError(
      where,
      fmt::format("its start does not stay with label {}, which should be blank for the "
                  "{} tokens of this tokenizer",
                  tokens + 1, tokens),
      "give the tokenizer that it was made with; or --blank last to go on");
}

}  // namespace

WfstGraph import_graph(const Tokenizer& tokenizer, const std::filesystem::path& openfst,
                       const std::filesystem::path& word_table, std::optional<BlankLabel> blank) {
  const auto tokens = static_cast<int32_t>(tokenizer.size());
  const bool is_ctc = blank != BlankLabel::none;
  TransducerArcs graph = read_openfst(openfst, /*k2_has_blank=*/is_ctc);
  if (!blank) require_last_blank(graph, tokens, openfst.string());
  const WordTable table = read_word_table(word_table);
  for (TransducerArcs::Arc& arc : graph.arcs) {
    if (arc.input > tokens + (is_ctc ? 1 : 0)) {
      throw UserError(
          openfst.string(),
          fmt::format("has the label {}, which is none of the {} tokens{}", arc.input, tokens,
                      is_ctc ? ", nor blank" : ""),
          is_ctc ? "give the tokenizer that it was made with, and replace disambiguation symbols "
                   "by 0; a label of k2 counts as one more"
                 : "leave out --blank none for a graph with blanks; or give the tokenizer that it "
                   "was made with, and replace disambiguation symbols by 0");
    }
    if (blank == BlankLabel::first && arc.input > 0)
      arc.input = arc.input == 1 ? tokens + 1 : arc.input - 1;
    const auto word = static_cast<size_t>(arc.output);
    if (word == 0) continue;
    if (table.contains(word)) {
      // Word tables also have symbols, which the graph must not write.
      require_word(table.words[word - 1], word_table, table.lines[word - 1],
                   "make the graph again with outputs that are words");
      continue;
    }
    throw UserError(word_table.string(),
                    fmt::format("has no word with the id {}, which the graph has", word),
                    "give the table that the graph was made with");
  }
  return WfstGraph::from(graph, tokens, table.words,
                         is_ctc ? "imported" : topology_name(Topology::tokens),
                         tokenizer_checksum(tokenizer), openfst.string());
}

}  // namespace rtfx
