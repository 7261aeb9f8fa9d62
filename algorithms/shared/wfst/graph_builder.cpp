#include "algorithms/shared/wfst/graph_builder.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <charconv>
#include <chrono>
#include <unordered_map>

#include "algorithms/shared/wfst/composition.h"
#include "algorithms/shared/wfst/grammar.h"
#include "algorithms/shared/wfst/lexicon.h"
#include "algorithms/shared/wfst/openfst_file.h"
#include "base/error.h"
#include "base/sha256.h"
#include "base/text_lines.h"
#include "models/tokenizers/tokenizer.h"

namespace rtfx {
namespace {

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{1024} * usage.ru_maxrss;
}

/// Times the stages.
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

Lexicon common_lexicon(const Tokenizer& tokenizer, const GraphSources& sources, int64_t* dropped) {
  Lexicon lexicon = read_lexicon(sources.lexicon, tokenizer, arpa_words(sources.arpa),
                                 sources.drop_unspelled, dropped);
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
  int64_t dropped_words = 0, dropped_ngrams = 0;
  const Lexicon lexicon = common_lexicon(tokenizer, sources, &dropped_words);
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
  return {std::move(graph), stages.list(), static_cast<int64_t>(words.size()), dropped_words,
          dropped_ngrams};
}

namespace {

/// words[i]: the word with id i + 1; ids without a word are "".
std::vector<std::string> read_word_table(const std::filesystem::path& path) {
  constexpr int32_t kMost = 1 << 22;  // more than any language writes down
  std::vector<std::string> words;
  TextLines lines(path);
  std::string_view line;
  while (lines.next(line)) {
    const size_t space = line.find_last_of(" \t");
    const char* end = line.data() + line.size();
    int32_t id = -1;
    if (space != line.npos && std::from_chars(line.data() + space + 1, end, id).ptr != end) id = -1;
    if (id < 0 || id > kMost) {
      throw UserError(fmt::format("{}:{}", path.string(), lines.number()),
                      fmt::format("'{}' is no word and its id, at most {}", line, kMost),
                      "give the table of the graph's output labels");
    }
    if (id == 0) continue;  // epsilon
    if (words.size() < static_cast<size_t>(id)) words.resize(static_cast<size_t>(id));
    words[static_cast<size_t>(id) - 1] = line.substr(0, line.find_first_of(" \t"));
  }
  return words;
}

}  // namespace

WfstGraph import_graph(const Tokenizer& tokenizer, const std::filesystem::path& openfst,
                       const std::filesystem::path& word_table) {
  return WfstGraph::from(read_openfst(openfst), static_cast<int32_t>(tokenizer.size()),
                         read_word_table(word_table), "imported", tokenizer_checksum(tokenizer),
                         openfst.string());
}

}  // namespace rtfx
