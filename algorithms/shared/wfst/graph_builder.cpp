#include "algorithms/shared/wfst/graph_builder.h"

#include <sys/resource.h>

#include <chrono>
#include <utility>

#include "algorithms/shared/wfst/composition.h"
#include "algorithms/shared/wfst/grammar.h"
#include "base/error.h"
#include "base/sha256.h"

namespace rtfx {

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

}  // namespace rtfx
