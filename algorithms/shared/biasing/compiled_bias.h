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

/// Names and defaults are those of NeMo 2.7.3 where it has the setting; `scale` is its
/// boosting_tree_alpha.
struct BoostingOptions {
  std::filesystem::path path;       // lines of phrases (read_phrases); empty: none
  std::vector<Phrase> phrases;      // beside those
  double scale = 1;                 // factor of all scores; 0: as without phrases
  double context_score = 1;         // of each token of a phrase without a weight of its own
  double depth_scaling = 2;         // see phrase_tree.h
  double unk_score = 0;             // of a token that begins no phrase, where none is begun
  std::string spellings = "as_is";  // or "any": lower, upper and capitalised, where they can be
                                    // spelled
  /// "none", or "nemo" for the scores of NeMo's tree: see phrase_tree.h.
  std::string compatibility = "none";
  bool utterances = true;  // what a dataset's utterances ask for counts too
  /// In beam searches of transducers: whether blank is rescaled along with the tokens, which a
  /// language model of weight `scale` would do (fusion.h).
  std::string blank_scoring = "no_score";  // or "lm_weighted_full", NeMo's default

  /// The phrases of the file and of the list. Throws UserError.
  std::vector<Phrase> all_phrases() const;
};
/// All fields are for beams of transducers; elsewhere `blank_scoring` can change nothing.
const OptionTable<BoostingOptions>& boosting_options();
const OptionTable<BoostingOptions>& beam_boosting_options();

/// The field "allowed" of a decoder's options.
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
  std::optional<PhraseTree> tree;    // none: nothing is boosted
  float blank_weight = 0;            // of the tree, see DeviceBias
  at::Tensor forbidden;              // [V] bool; undefined: all tokens may come
  std::vector<std::string> phrases;  // verbatim, at a scale of 0 too
};

/// phrases: boosted as `boost` says (its own phrases do not count). allowed: see allowed_tokens();
/// empty: all tokens. Throws UserError for a phrase that the tokenizer cannot spell, with its
/// place.
std::shared_ptr<const CompiledBias> compile_bias(const BoostingOptions& boost,
                                                 const std::vector<Phrase>& phrases,
                                                 const std::vector<std::string>& allowed,
                                                 const std::string& where,
                                                 const Tokenizer& tokenizer, int64_t vocabulary);

}  // namespace rtfx
