// Language models over words, as the transducer G.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/shared/wfst/composition.h"

namespace rtfx {

/// Returns the words of the 1-grams of an ARPA file (plain or gzip) without <s> and </s>, sorted by
/// their bytes. Throws UserError, also for a pipe, if there is no word, or if one is there twice.
std::vector<std::string> arpa_words(const std::filesystem::path& arpa);

/// Returns G, a back-off n-gram model over words as an acceptor. It has a state for each history
/// that an n-gram continues, and its start is the history <s>. Each n-gram is an arc to the longest
/// such history, with cost -ln p(word | history). Back-off is an arc with input `backoff` (#0),
/// output epsilon and cost -ln bow. </s> is a final cost. A history that no n-gram continues has no
/// state: its back-off weight is added to the arcs into it. `word_id` returns the label of a word,
/// 0 if it has none. N-grams with a word without label are left out and counted in *dropped. Throws
/// UserError, also for an n-gram that is there twice and for a model without </s>.
TransducerArcs grammar_transducer(const std::filesystem::path& arpa,
                                  const std::function<int32_t(std::string_view)>& word_id,
                                  int32_t backoff, int64_t* dropped);

}  // namespace rtfx
