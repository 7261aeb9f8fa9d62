#include "algorithms/shared/biasing/compiled_bias.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <set>

#include "base/error.h"
#include "base/printable.h"
#include "models/tokenizers/spelling.h"

namespace rtfx {
namespace {

/// Every spelling of every phrase, of which the tree is made.
std::vector<PhraseTokens> spelled(const BoostingOptions& boost, const std::vector<Phrase>& phrases,
                                  const Tokenizer& tokenizer) {
  const Speller speller(tokenizer);
  std::vector<PhraseTokens> all;
  for (const Phrase& phrase : phrases) {
    const double weight = phrase.weight > 0 ? phrase.weight : boost.context_score;
    std::set<std::vector<int32_t>> different;
    const auto add = [&](const std::string& text) {
      std::vector<int32_t> ids = speller(text);
      if (!ids.empty() && different.insert(ids).second) all.push_back({std::move(ids), weight});
    };
    add(phrase.text);
    if (boost.spellings == "any")
      for (const std::string& other : other_spellings(phrase.text)) add(other);
    if (different.empty()) {
      throw UserError(
          phrase.where,
          fmt::format("the model's tokenizer cannot spell '{}'", printable(phrase.text)),
          boost.spellings == "any" ? "write it with the characters that the model's texts have"
                                   : "write it as the model's texts have it, or set \"spellings\": "
                                     "\"any\"");
    }
  }
  return all;
}

}  // namespace

std::shared_ptr<const CompiledBias> compile_bias(const BoostingOptions& boost,
                                                 const std::vector<Phrase>& phrases,
                                                 const std::vector<std::string>& allowed,
                                                 const std::string& where,
                                                 const Tokenizer& tokenizer, int64_t vocabulary) {
  auto bias = std::make_shared<CompiledBias>();
  for (const Phrase& phrase : phrases) bias->phrases.push_back(phrase.text);
  if (!phrases.empty()) {
    // Also at a scale of 0, so that what is wrong with a list is said.
    PhraseTree tree = make_phrase_tree(
        spelled(boost, phrases, tokenizer),
        {boost.depth_scaling, boost.unk_score, boost.scale, boost.compatibility == "nemo"});
    if (boost.scale != 0) bias->tree = std::move(tree);
    if (boost.blank_scoring == "lm_weighted_full")
      bias->blank_weight = static_cast<float>(boost.scale);
  }
  if (!allowed.empty()) {
    const std::vector<bool> may = allowed_tokens(tokenizer, vocabulary, allowed, where);
    bias->forbidden = at::zeros({vocabulary}, at::kBool);
    bool* forbidden = bias->forbidden.mutable_data_ptr<bool>();
    for (size_t id = 0; id < may.size(); ++id) forbidden[id] = !may[id];
  }
  return bias;
}

}  // namespace rtfx
