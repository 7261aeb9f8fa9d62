// The tables of records.h about words: errors, boosted ones, and speech without any.
#include "harness/results/records.h"

namespace rtfx::record {

const RecordTable<WordErrors>& WordErrors::table() {
  static const auto table =
      RecordTable<WordErrors>("word errors", "")
          .add("normalizer", &WordErrors::normalizer, "", "name of the text normaliser")
          .add("version", &WordErrors::version, "", "version of the normaliser")
          .add("wer", &WordErrors::wer, "",
               "errors / reference words; null where no reference has words")
          .add("substitutions", &WordErrors::substitutions, "", "words that are wrong")
          .add("insertions", &WordErrors::insertions, "", "words that are too many")
          .add("deletions", &WordErrors::deletions, "", "words that are missing")
          .add("reference_words", &WordErrors::reference_words, "", "words of the references")
          .add("cer", &WordErrors::cer, "", "character errors / reference characters")
          .add("character_errors", &WordErrors::character_errors, "",
               "characters that are wrong, too many or missing; spaces do not count")
          .add("reference_characters", &WordErrors::reference_characters, "",
               "characters of the references");
  return table;
}

const RecordTable<OracleErrors>& OracleErrors::table() {
  static const auto table =
      RecordTable<OracleErrors>("oracle word errors",
                                "They count the text of each n-best list with the fewest errors.")
          .add("normalizer", &OracleErrors::normalizer, "", "name of the text normaliser")
          .add("version", &OracleErrors::version, "", "version of the normaliser")
          .add("wer", &OracleErrors::wer, "", "errors / reference words")
          .add("substitutions", &OracleErrors::substitutions, "", "words that are wrong")
          .add("insertions", &OracleErrors::insertions, "", "words that are too many")
          .add("deletions", &OracleErrors::deletions, "", "words that are missing")
          .add("reference_words", &OracleErrors::reference_words, "", "words of the references")
          .add("entries", &OracleErrors::entries, "", "length of the longest n-best list");
  return table;
}

const RecordTable<BoostedPhrases>& BoostedPhrases::table() {
  static const auto table =
      RecordTable<BoostedPhrases>("boosted phrases",
                                  "They count all entries by the rules of NeMo's `compute_fscore`.")
          .add("occurrences", &BoostedPhrases::occurrences, "", "entries in the references")
          .add("recalled", &BoostedPhrases::recalled, "", "how many of them the results have")
          .add("false_alarms", &BoostedPhrases::false_alarms, "", "entries only in the results")
          .add("recall", &BoostedPhrases::recall, "", "recalled / occurrences")
          .add("precision", &BoostedPhrases::precision, "", "recalled / (recalled + false alarms)")
          .add("count", &BoostedPhrases::count, "", "distinct entries");
  return table;
}

const RecordTable<Boosted>& Boosted::table() {
  static const auto table =
      RecordTable<Boosted>("boosted words",
                           "They count the utterances with a reference, by the alignment of `wer`. "
                           "A share is null where its divisor is 0.")
          .add("occurrences", &Boosted::occurrences, "", "boosted words in the references")
          .add("recalled", &Boosted::recalled, "", "how many of them the results have")
          .add("false_alarms", &Boosted::false_alarms, "", "boosted words only in the results")
          .add("recall", &Boosted::recall, "", "recalled / occurrences")
          .add("precision", &Boosted::precision, "", "recalled / (recalled + false alarms)")
          .add("phrases", &Boosted::phrases, "", "the counts of all entries, also of many words")
          .add("f_score", &Boosted::f_score, "",
               "2 recalled / (occurrences + recalled + false alarms), of the phrases")
          .add("words", &Boosted::words, "", "distinct words after normalisation")
          .add("left_out", &Boosted::left_out, "",
               "entries that the normaliser does not leave as one word");
  return table;
}

const RecordTable<WordlessSpeech>& WordlessSpeech::table() {
  static const auto table =
      RecordTable<WordlessSpeech>("speech without words",
                                  "Parts of 8 s or more, and whole utterances, with speech energy "
                                  "and without a token, as `rtfx transcribe` decodes them again. "
                                  "Here they are counted alone: no measured work is added.")
          .add("utterances", &WordlessSpeech::utterances, "", "utterances with such a part")
          .add("parts", &WordlessSpeech::parts, "", "all such parts")
          .add("seconds", &WordlessSpeech::seconds, "s", "sum of their lengths");
  return table;
}

}  // namespace rtfx::record
