// Word boosting: words become more likely in one utterance or in all. An arc with a boosted word
// costs less by the word's boost. This equals a composition with a one-state acceptor of the words.
// But the search does it while it follows arcs, and the graph stays unchanged (Galvez and Kaldewey,
// "GPU-Accelerated WFST Beam Search Decoder for CTC-based Speech Recognition", 2023).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/shared/biasing/compiled_bias.h"
#include "algorithms/shared/wfst/graph.h"
#include "base/options.h"
#include "base/phrases.h"

namespace rtfx {

/// A boost lowers the cost of a word, in the units of the beam. A negative boost raises it.
/// If the boost of a word exceeds the cost of the word after itself, the search repeats words of
/// one token (docs/reference/searches.md, "How strong a boost").
using WordBoosts = std::map<std::string, float, std::less<>>;

/// The value of a decoder's option "boost".
struct WordBoostOptions {
  std::filesystem::path path;  // empty: none
  double scale = 1;            // factor of all boosts
  double weight = 8;           // boost of a phrase without a weight
  std::vector<Phrase> phrases = {};
  bool utterances = true;  // phrases of a dataset's utterances count too
};
const OptionTable<WordBoostOptions>& word_boost_options();

/// Reads lines "word boost", plain or gzip. With a tab before the boost, the line may have several
/// words. Of two boosts of a word, the larger one counts. Throws UserError with file and line.
WordBoosts read_word_boosts(const std::filesystem::path& path);

/// Returns [W + 1] numbers that searches add to the cost of an arc with a word. Words that the
/// graph lacks change nothing; they are counted in *unknown unless it is null.
std::vector<float> word_costs(const WfstGraph& graph, const WordBoosts& boosts,
                              int64_t* unknown = nullptr);

/// The words of a graph by their text.
class WordIndex {
 public:
  WordIndex() = default;
  explicit WordIndex(WfstGraph graph);

  /// Returns the numbers of the words with this text, rising; empty if the graph has none.
  std::span<const int32_t> find(std::string_view text) const;

 private:
  std::optional<WfstGraph> graph_;
  std::vector<int32_t> by_text_;  // all words, sorted by text and number
};

/// The biases of a batch's rows, as in EncodedBatch.
using RowBiases = std::vector<std::shared_ptr<const CompiledBias>>;

/// Returns the words of a bias that WordBoosting compiled, each with the number that searches add
/// to the cost of its arcs. They are sorted, and replace the decoder's own numbers for these words.
const std::vector<std::pair<int32_t, float>>& word_costs_of(const CompiledBias& bias);

/// The boosts of a decoder. Those of its option "boost" hold for all rows, and each row may have
/// more of its own. Immutable, so that any number of threads may use it.
class WordBoosting {
 public:
  WordBoosting() = default;
  /// A notice on standard error counts the words of the file that the graph lacks. Throws UserError
  /// for a bad file, and for a phrase of the list that the graph lacks.
  WordBoosting(const std::optional<WordBoostOptions>& boost, const WfstGraph& graph);

  /// Returns the word costs of rows without a bias, [W + 1]. They are empty if no word is boosted.
  const std::vector<float>& costs() const { return costs_; }
  /// Returns the words of the option with a boost above 0, whatever the scale.
  const std::vector<std::string>& words() const { return words_; }

  /// Implements Decoder::compile_bias(). Throws UserError for a phrase that the graph lacks, for a
  /// boost that is not finite, and for allowed characters.
  std::shared_ptr<const CompiledBias> compile(const BiasRequest& request) const;

  /// Returns the word costs of a row. They are costs() if `bias` is null or names no word.
  /// Otherwise they are written to `own`: those of the bias for the words that it names, and
  /// costs() for the others.
  std::span<const float> of_row(const CompiledBias* bias, std::vector<float>& own) const;

 private:
  double weight_of(const Phrase& phrase) const;
  float cost_of(float weight) const;
  void add(const Phrase& phrase, std::map<int32_t, float>& weights) const;

  WordBoostOptions options_;
  WordIndex index_;
  int64_t graph_words_ = 0;
  std::vector<float> costs_;
  std::vector<std::string> words_;
};

}  // namespace rtfx
