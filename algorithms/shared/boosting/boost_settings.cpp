#include "algorithms/shared/boosting/boost_settings.h"

namespace rtfx {

std::vector<Phrase> Boosting::all_phrases() const {
  std::vector<Phrase> all = path.empty() ? std::vector<Phrase>{} : read_phrases(path);
  all.insert(all.end(), phrases.begin(), phrases.end());
  return all;
}

const OptionTable<Boosting>& boosting_options() {
  static const OptionTable<Boosting> table = [] {
    OptionField<Boosting> file =
        option("path", &Boosting::path, "lines of a phrase, or of a phrase, a tab and its weight");
    file.is_required = false;
    file.default_text = "none";
    file.get = [](const Boosting& o) {
      return o.path.empty() ? nlohmann::json() : nlohmann::json(o.path.string());
    };
    OptionField<Boosting> phrases{
        "phrases",
        "phrases beside those of the file; {\"phrase\": ..., \"weight\": 2} has its own score for "
        "each token",
        "[a phrase, ...]", [](Boosting& o, const JsonView& v) { o.phrases = parse_phrases(v); },
        [](const Boosting& o) { return to_json(o.phrases); }};
    return OptionTable<Boosting>{{
        std::move(file),
        std::move(phrases),
        option("scale", &Boosting::scale, "factor of all scores; a list of values makes a sweep", 0,
               1000),
        option("context_score", &Boosting::context_score,
               "score of each token of a phrase without a weight", 0, 1000),
        option("depth_scaling", &Boosting::depth_scaling,
               "factor of that score for all tokens of a phrase but the first", 0, 1000),
        option("unk_score", &Boosting::unk_score, "score of tokens that begin no phrase", -1000,
               1000),
        option("spellings", &Boosting::spellings,
               "phrases as they are written, or in lower case, upper case and capitalised too",
               {"as_is", "any"}),
        option("rules", &Boosting::rules,
               "what a phrase that does not come to its end leaves behind: nothing but the phrases "
               "inside it, or what NeMo's tree leaves",
               {"earned", "nemo"}),
        option("utterances", &Boosting::utterances,
               "phrases and allowed characters of single utterances (`boost` and `allowed` in a "
               "manifest) count too"),
    }};
  }();
  return table;
}

const OptionTable<Boosting>& beam_boosting_options() {
  static const OptionTable<Boosting> table = [] {
    OptionTable<Boosting> all = boosting_options();
    all.fields.push_back(option("blank_scoring", &Boosting::blank_scoring,
                                "whether blank is rescaled along with the tokens, as by a language "
                                "model of weight `scale`",
                                {"no_score", "lm_weighted_full"}));
    return all;
  }();
  return table;
}

}  // namespace rtfx
