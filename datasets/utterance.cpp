#include "datasets/utterance.h"

#include <fmt/format.h>

#include "base/error.h"

namespace rtfx {

void UtteranceList::add(Utterance utterance, std::string_view where) {
  const auto [first, is_new] = ids_.try_emplace(utterance.id, where);
  if (!is_new) {
    const std::string& before = first->second;
    throw UserError(where,
                    fmt::format("utterance '{}' occurs a second time{}", utterance.id,
                                before == where ? "" : ", first at " + before),
                    "list every utterance once, under an id of its own");
  }
  utterances_.push_back(std::move(utterance));
}

}  // namespace rtfx
