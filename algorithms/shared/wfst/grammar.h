// G: a back-off n-gram model over words as an acceptor.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/shared/wfst/transducer_arcs.h"

namespace rtfx {

/// The words of the 1-grams of an ARPA file (plain or gzip) without <s> and </s>, sorted by their
/// bytes. Throws UserError, also when there is none.
std::vector<std::string> arpa_words(const std::filesystem::path& arpa);

/// A state for each history that an n-gram continues; an arc for each n-gram, to the longest such
/// history, with cost -ln p(word | history). Back-off: an arc with input `backoff` (#0), output
/// epsilon and cost -ln bow. </s> is a final cost; the start is the history <s>. A history that
/// nothing continues gets no state: its back-off weight is added to the arcs into it.
/// `word_id`: label of a word, 0 where it has none; n-grams with such a word are left out and
/// counted in *dropped.
TransducerArcs grammar_transducer(const std::filesystem::path& arpa,
                                  const std::function<int32_t(std::string_view)>& word_id,
                                  int32_t backoff, int64_t* dropped);

}  // namespace rtfx
