#include "algorithms/shared/biasing/compiled_bias.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <set>

#include "base/error.h"
#include "base/printable.h"
#include "models/tokenizers/spelling.h"

namespace rtfx {

std::vector<Phrase> PhraseBoostOptions::all_phrases() const {
  std::vector<Phrase> all = path.empty() ? std::vector<Phrase>{} : read_phrases(path);
  all.insert(all.end(), phrases.begin(), phrases.end());
  return all;
}

const OptionTable<PhraseBoostOptions>& phrase_boost_options() {
  static const OptionTable<PhraseBoostOptions> table = [] {
    OptionField<PhraseBoostOptions> phrases{
        "phrases",
        "Phrases in addition to those of the file, as text or as {\"phrase\": \"new york\", "
        "\"weight\": 2}. The weight counts in place of `context_score`.",
        "[a phrase, ...]",
        [](PhraseBoostOptions& o, const JsonView& v) { o.phrases = parse_phrases(v); },
        [](const PhraseBoostOptions& o) { return to_json(o.phrases); }};
    return OptionTable<PhraseBoostOptions>{{
        optional_file("path", &PhraseBoostOptions::path,
                      "File with one phrase in each line, plain or gzip. A tab and a number after "
                      "the phrase give it a weight."),
        std::move(phrases),
        option("scale", &PhraseBoostOptions::scale,
               "Factor of all scores of phrases. 0 turns boosting off. A list of values makes one "
               "decoder of each value.",
               0, 1000),
        option("context_score", &PhraseBoostOptions::context_score,
               "Weight of a phrase that has none of its own: the score of its first token.", 0,
               1000),
        option("depth_scaling", &PhraseBoostOptions::depth_scaling,
               "From its second token on, a phrase gives its token d the score w x `depth_scaling` "
               "+ ln d, where w is its weight.",
               0, 1000),
        option("unk_score", &PhraseBoostOptions::unk_score,
               "Score of a token that neither begins nor continues a phrase.", -1000, 1000),
        option("spellings", &PhraseBoostOptions::spellings,
               "`as_is`: boost phrases as they are written. `any`: boost them in lower case, upper "
               "case and capitalised as well.",
               {"as_is", "any"}),
        option("compatibility", &PhraseBoostOptions::compatibility,
               "Scores that are taken back when a phrase breaks off. `none`: all but those of "
               "complete phrases inside it. `nemo`: those that NeMo's boosting tree takes back.",
               {"none", "nemo"}),
        option("utterances", &PhraseBoostOptions::utterances,
               "Follow the keys `boost` and `allowed` of utterances in a manifest. Their phrases "
               "are added to those here, and their characters replace the option `allowed`."),
    }};
  }();
  return table;
}

const OptionTable<PhraseBoostOptions>& beam_phrase_boost_options() {
  static const OptionTable<PhraseBoostOptions> table = [] {
    OptionTable<PhraseBoostOptions> all = phrase_boost_options();
    all.fields.push_back(option(
        "blank_scoring", &PhraseBoostOptions::blank_scoring,
        "Score of blank. `no_score`: unchanged. `lm_weighted_full`: ln p(blank) counts 1 + "
        "`scale` times, and tokens get `scale` times ln(1 - p(blank)), as in NeMo by default.",
        {"no_score", "lm_weighted_full"}));
    return all;
  }();
  return table;
}

namespace {

/// Returns every spelling of every phrase, for the tree.
std::vector<PhraseTokens> spelled(const PhraseBoostOptions& boost,
                                  const std::vector<Phrase>& phrases, const Tokenizer& tokenizer) {
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

std::shared_ptr<const CompiledBias> compile_bias(const PhraseBoostOptions& boost,
                                                 const std::vector<Phrase>& phrases,
                                                 const std::vector<std::string>& allowed,
                                                 const std::string& where,
                                                 const Tokenizer& tokenizer, int64_t vocabulary) {
  auto bias = std::make_shared<CompiledBias>();
  for (const Phrase& phrase : phrases) bias->phrases.push_back(phrase.text);
  if (!phrases.empty()) {
    // The tree is made even at a scale of 0, so that errors in a list are reported.
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
