// The compiled bias of a row: made once, and shared by all rows that ask for it.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/shared/biasing/boosting_options.h"
#include "algorithms/shared/biasing/phrase_tree.h"

namespace rtfx {

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
