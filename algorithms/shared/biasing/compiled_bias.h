// The compiled bias of a row: made once, and shared by all rows that ask for it.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/shared/biasing/phrase_tree.h"
#include "base/options.h"
#include "base/phrases.h"

namespace rtfx {

// The value of a decoder's option "boost": phrases that are made more likely, in all utterances.

/// Names are those of NeMo 2.7.3 where it has the setting, and so are defaults but those of `scale`
/// and `blank_scoring`. `scale` is its boosting_tree_alpha, which is 0 by default.
struct PhraseBoostOptions {
  std::filesystem::path path;       // file of phrases (read_phrases); empty: none
  std::vector<Phrase> phrases;      // in addition to those of the file
  double scale = 1;                 // factor of all scores; 0: as without phrases
  double context_score = 1;         // weight of a phrase that has none of its own
  double depth_scaling = 2;         // see phrase_tree.h
  double unk_score = 0;             // score of a token that begins no phrase, where none has begun
  std::string spellings = "as_is";  // or "any": lower, upper and capitalised, where they can be
                                    // spelled
  /// "none", or "nemo" for the scores of NeMo's tree: see phrase_tree.h.
  std::string compatibility = "none";
  bool utterances = true;  // phrases of a dataset's utterances count, too
  /// Whether beam searches of transducers rescale blank along with the tokens, as a language model
  /// of weight `scale` would do (fusion.h).
  std::string blank_scoring = "no_score";  // or "lm_weighted_full", NeMo's default

  /// Returns the phrases of the file and of the list. Throws UserError.
  std::vector<Phrase> all_phrases() const;
};
/// Beam searches of transducers have all fields. Other searches lack `blank_scoring`, which cannot
/// change their results.
const OptionTable<PhraseBoostOptions>& phrase_boost_options();
const OptionTable<PhraseBoostOptions>& beam_phrase_boost_options();

/// Returns the field "allowed" of a decoder's options.
template <class Options>
OptionField<Options> allowed_option(std::vector<std::string> Options::*member) {
  return list_option("allowed", member,
                     "Letters that results may have, as scripts (latin), ranges (U+0400-U+04FF) or "
                     "single characters. An empty list allows all. Digits, punctuation, symbols "
                     "and spaces are always allowed.",
                     "text", [](const JsonView& v) { return v.text(); });
}

class Tokenizer;

/// Immutable; on the host.
struct CompiledBias {
  std::optional<PhraseTree> tree;    // nullopt if nothing is boosted
  float blank_weight = 0;            // weight of the tree for blank, see DeviceBias
  at::Tensor forbidden;              // [V] bool; undefined if all tokens are allowed
  std::vector<std::string> phrases;  // verbatim, at a scale of 0 too
};

/// Compiles the bias of a row. `phrases` are boosted as `boost` says, whose own phrases do not
/// count. `allowed` is the argument of allowed_tokens(); an empty list allows all tokens. Throws
/// UserError, with the phrase's place, for a phrase that the tokenizer cannot spell.
std::shared_ptr<const CompiledBias> compile_bias(const PhraseBoostOptions& boost,
                                                 const std::vector<Phrase>& phrases,
                                                 const std::vector<std::string>& allowed,
                                                 const std::string& where,
                                                 const Tokenizer& tokenizer, int64_t vocabulary);

}  // namespace rtfx
