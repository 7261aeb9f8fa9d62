#include "algorithms/shared/biasing/compiled_bias.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <set>

#include "base/error.h"
#include "base/printable.h"
#include "models/tokenizers/spelling.h"

namespace rtfx {

std::vector<Phrase> BoostingOptions::all_phrases() const {
  std::vector<Phrase> all = path.empty() ? std::vector<Phrase>{} : read_phrases(path);
  all.insert(all.end(), phrases.begin(), phrases.end());
  return all;
}

const OptionTable<BoostingOptions>& boosting_options() {
  static const OptionTable<BoostingOptions> table = [] {
    OptionField<BoostingOptions> file = option(
        "path", &BoostingOptions::path, "lines of a phrase, or of a phrase, a tab and its weight");
    file.is_required = false;
    file.default_text = "none";
    file.get = [](const BoostingOptions& o) {
      return o.path.empty() ? nlohmann::json() : nlohmann::json(o.path.string());
    };
    OptionField<BoostingOptions> phrases{
        "phrases",
        "phrases beside those of the file; {\"phrase\": ..., \"weight\": 2} has its own score for "
        "each token",
        "[a phrase, ...]",
        [](BoostingOptions& o, const JsonView& v) { o.phrases = parse_phrases(v); },
        [](const BoostingOptions& o) { return to_json(o.phrases); }};
    return OptionTable<BoostingOptions>{{
        std::move(file),
        std::move(phrases),
        option("scale", &BoostingOptions::scale,
               "factor of all scores; a list of values makes a sweep", 0, 1000),
        option("context_score", &BoostingOptions::context_score,
               "score of each token of a phrase without a weight", 0, 1000),
        option("depth_scaling", &BoostingOptions::depth_scaling,
               "token d > 1 of a phrase scores the phrase's weight times this, + ln d", 0, 1000),
        option("unk_score", &BoostingOptions::unk_score,
               "score of a token that neither begins nor continues a phrase", -1000, 1000),
        option("spellings", &BoostingOptions::spellings,
               "phrases as they are written, or in lower case, upper case and capitalised too",
               {"as_is", "any"}),
        option("compatibility", &BoostingOptions::compatibility,
               "nemo: if a phrase breaks off, scores are taken back as in NeMo's tree; none: all "
               "but those of whole phrases inside it",
               {"none", "nemo"}),
        option("utterances", &BoostingOptions::utterances,
               "phrases and allowed characters of single utterances (`boost` and `allowed` in a "
               "manifest) count too"),
    }};
  }();
  return table;
}

const OptionTable<BoostingOptions>& beam_boosting_options() {
  static const OptionTable<BoostingOptions> table = [] {
    OptionTable<BoostingOptions> all = boosting_options();
    all.fields.push_back(option("blank_scoring", &BoostingOptions::blank_scoring,
                                "whether blank is rescaled along with the tokens, as by a language "
                                "model of weight `scale`",
                                {"no_score", "lm_weighted_full"}));
    return all;
  }();
  return table;
}

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
