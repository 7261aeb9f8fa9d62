#include "algorithms/shared/biasing/boosting_options.h"

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
               "factor of that score for all tokens of a phrase but the first", 0, 1000),
        option("unk_score", &BoostingOptions::unk_score, "score of tokens that begin no phrase",
               -1000, 1000),
        option("spellings", &BoostingOptions::spellings,
               "phrases as they are written, or in lower case, upper case and capitalised too",
               {"as_is", "any"}),
        option("compatibility", &BoostingOptions::compatibility,
               "nemo: a phrase that breaks off leaves the scores that NeMo's tree leaves, not only "
               "those of the whole phrases inside it",
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

}  // namespace rtfx
