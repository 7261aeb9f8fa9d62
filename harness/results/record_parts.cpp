// Tables of the parts that records are made of. Those of whole records are in records.cpp.
#include "harness/results/records.h"

namespace rtfx::record {

const RecordTable<Model>& Model::table() {
  static const auto table =
      RecordTable<Model>("model", "")
          .add("id", &Model::id, "", "name of the model in the configuration")
          .add("kind", &Model::kind, "", "`rnnt`, `multiblank`, `tdt`, `ctc` or a hybrid of them")
          .add("weights", &Model::weights, "",
               "`synthetic` in older journals for a model that was timed without its checkpoint: "
               "the region `encoder` then times random weights of the right size")
          .add(
              "stand_in", &Model::stand_in, "",
              "what the checkpoint was made from, where it stands in for another one; null: it was "
              "trained");
  return table;
}

template <template <class> class Presence>
const RecordTable<Dataset<Presence>>& Dataset<Presence>::table() {
  static const auto table =
      RecordTable<Dataset>(std::is_same_v<Presence<int>, int> ? "dataset" : "profiled dataset", "")
          .add("id", &Dataset::id, "", "name of the dataset in the configuration")
          .add("utterances", &Dataset::utterances, "", "number of its utterances")
          .add("audio_seconds", &Dataset::audio_seconds, "s", "their audio, without padding")
          .add("stand_in", &Dataset::stand_in, "",
               "description of the audio that stands in for the set; null: the set itself");
  return table;
}
template struct Dataset<Always>;
template struct Dataset<Optional>;

template <template <class> class Presence>
const RecordTable<Decoder<Presence>>& Decoder<Presence>::table() {
  static const auto table =
      RecordTable<Decoder>(std::is_same_v<Presence<int>, int> ? "decoder" : "profiled decoder", "")
          .add("id", &Decoder::id, "", "name of the decoder in the configuration")
          .add("name", &Decoder::name, "", "the decoder's name in `rtfx list`")
          .add("options", &Decoder::options, "", "its options with all defaults")
          .add("head", &Decoder::head, "", "`transducer`, `ctc`, or `none` for `null`")
          .add("exactness", &Decoder::exactness, "", "`exact` or `approximate`, as it declares")
          .add("score_kind", &Decoder::score_kind, "", "the numbers that its scores sum")
          .add("control_of", &Decoder::control_of, "",
               "the baseline in the A/A control, which `protocol.aa_control` runs a second time");
  return table;
}
template struct Decoder<Always>;
template struct Decoder<Optional>;

const RecordTable<Batch>& Batch::table() {
  static const auto table =
      RecordTable<Batch>("batch", "")
          .add("by", &Batch::by, "", "`count`, `seconds` of audio, or `streams`")
          .add("size", &Batch::size, "", "utterances, seconds of audio or streams")
          .add("largest", &Batch::largest, "", "true where `max` was asked for");
  return table;
}

const RecordTable<RegionTimes>& RegionTimes::table() {
  static const auto table =
      RecordTable<RegionTimes>("times of a region", "")
          .add("host_seconds", &RegionTimes::host_seconds, "s", "time of the host")
          .add("device_seconds", &RegionTimes::device_seconds, "s",
               "time of the GPU; null on a CPU");
  return table;
}

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
               "characters of the references")
          .add("unspaced_characters", &WordErrors::unspaced_characters, "",
               "of these, in scripts without spaces between words");
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

const RecordTable<FirstDifference>& FirstDifference::table() {
  static const auto table =
      RecordTable<FirstDifference>("first difference", "")
          .add("utterance", &FirstDifference::utterance, "", "id of the utterance")
          .add("frame", &FirstDifference::frame, "", "encoder frame of the first difference")
          .add("seconds", &FirstDifference::seconds, "s", "time of that frame")
          .add("baseline_words", &FirstDifference::baseline_words, "", "words of the baseline")
          .add("words", &FirstDifference::words, "", "words of this decoder");
  return table;
}

const RecordTable<BeyondDecision>& BeyondDecision::table() {
  static const auto table =
      RecordTable<BeyondDecision>("decision beyond rounding", "")
          .add("utterance", &BeyondDecision::utterance, "", "id of the utterance")
          .add("kind", &BeyondDecision::kind, "", "`label`, `duration`, `score` or `path`")
          .add("frame", &BeyondDecision::frame, "", "encoder frame of the decision")
          .add("seconds", &BeyondDecision::seconds, "s", "time of that frame")
          .add("chosen", &BeyondDecision::chosen, "", "label or duration of the hypothesis")
          .add("best", &BeyondDecision::best, "", "the best one by the reference network")
          .add("gap", &BeyondDecision::gap, "", "difference of their scores; null: infinite")
          .add("bound", &BeyondDecision::bound, "", "the most that rounding explains");
  return table;
}

const RecordTable<Replay>& Replay::table() {
  static const auto table =
      RecordTable<Replay>("proof by replay",
                          "A hypothesis that was replayed before is not replayed "
                          "again.")
          .add("decisions", &Replay::decisions, "", "decisions that were replayed")
          .add("beyond", &Replay::beyond, "", "how many were beyond rounding")
          .add("worst_gap_over_bound", &Replay::worst_gap_over_bound, "",
               "largest gap / bound; null: infinite")
          .add("first", &Replay::first, "", "the first one beyond");
  return table;
}

const RecordTable<Exactness>& Exactness::table() {
  static const auto table =
      RecordTable<Exactness>("exactness", "")
          .add("baseline", &Exactness::baseline, "", "id of the decoder that it is compared with")
          .add("grade", &Exactness::grade, "",
               "the worst of any utterance: `bitwise` > `exact` > `rounding` > `text` > `wer` > "
               "`different`, or `baseline`")
          .add("grades", &Exactness::grades, "", "number of utterances with each grade")
          .add("first_difference", &Exactness::first_difference, "",
               "the first utterance with the worst grade")
          .add("replay", &Exactness::replay, "", "null for decoders that cannot be replayed")
          .add("replay_left_out", &Exactness::replay_left_out, "",
               "what prevents replay, for example the option `boost` in a beam, or that a decoder "
               "is "
               "declared approximate");
  return table;
}

const RecordTable<Batches>& Batches::table() {
  static const auto table =
      RecordTable<Batches>("batches",
                           "Each list has an entry for each batch, in the order of the round, "
                           "rounded to 1 µs.")
          .add("audio_seconds", &Batches::audio_seconds, "s", "audio without padding", kPositive)
          .add(
              "total_seconds", &Batches::total_seconds, "s",
              "time of all regions; in mode `throughput` the time between the texts of two batches",
              kNotNegative)
          .add("decode_seconds", &Batches::decode_seconds, "s", "time of the region `decode`",
               kNotNegative)
          .add("latency_seconds", &Batches::latency_seconds, "s",
               "in mode `throughput`: from the padding of a batch to its text");
  return table;
}

const RecordTable<Pipeline>& Pipeline::table() {
  static const auto table =
      RecordTable<Pipeline>("pipeline", "")
          .add("in_flight", &Pipeline::in_flight, "", "batches in flight")
          .add("audio", &Pipeline::audio, "", "where the samples come from: `memory` or `files`")
          .add("pass_seconds", &Pipeline::pass_seconds, "s",
               "time of each pass of the round; the other times of the record are their means")
          .add("encoder", &Pipeline::encoder, "", "how the batches of these passes were encoded");
  return table;
}

const RecordTable<EncoderRuns>& EncoderRuns::table() {
  static const auto table =
      RecordTable<EncoderRuns>(
          "runs of the encoder",
          "They count batches. On a CPU, and without `encoder_graphs`, nothing "
          "is counted.")
          .add("launched", &EncoderRuns::launched, "", "batches launched kernel by kernel")
          .add("recorded", &EncoderRuns::recorded, "",
               "batches among them, the second of their size, that also recorded a CUDA graph")
          .add("replayed", &EncoderRuns::replayed, "",
               "batches of a size whose CUDA graph was there");
  return table;
}

const RecordTable<FirstPass>& FirstPass::table() {
  static const auto table =
      RecordTable<FirstPass>(
          "first pass",
          "It is the first pass of the case in its process. On a GPU, a batch of "
          "silence of the largest size came before it. A warm-up round has it "
          "where there is one.")
          .add("seconds", &FirstPass::seconds, "s", "from the first sample to the last text")
          .add("first_text_seconds", &FirstPass::first_text_seconds, "s",
               "from the samples of the first batch to its text")
          .add("encoder", &FirstPass::encoder, "", "how its batches were encoded");
  return table;
}

const RecordTable<IsolatedComparison>& IsolatedComparison::table() {
  static const auto table =
      RecordTable<IsolatedComparison>(
          "comparison with an isolated pass",
          "The results of overlapped passes are compared with those of one pass region by region, "
          "of the same decoder, batches and dtype.")
          .add("grade", &IsolatedComparison::grade, "",
               "the worst of any utterance, as in exactness")
          .add("grades", &IsolatedComparison::grades, "", "number of utterances with each grade")
          .add("first_difference", &IsolatedComparison::first_difference, "",
               "the first utterance with the worst grade");
  return table;
}

const RecordTable<LengthLatency>& LengthLatency::table() {
  static const auto table =
      RecordTable<LengthLatency>("latency of a length", "")
          .add("seconds", &LengthLatency::seconds, "s", "length of the utterances")
          .add("requests", &LengthLatency::requests, "", "batches of one utterance of this length")
          .add("p50_ms", &LengthLatency::p50_ms, "ms", "median of the times from samples to text")
          .add("p99_ms", &LengthLatency::p99_ms, "ms", "their 99th percentile");
  return table;
}

const RecordTable<DeviceMemory>& DeviceMemory::table() {
  static const auto table =
      RecordTable<DeviceMemory>(
          "device memory",
          "Bytes of LibTorch's allocator on a GPU. The model, the encoder, CUDA's own memory and "
          "the workspace of cuBLAS are not counted.")
          .add("kept_bytes", &DeviceMemory::kept_bytes, "byte",
               "what the decoder's `prepare()` kept: tensors, and all memory of its CUDA graphs")
          .add("decode_bytes", &DeviceMemory::decode_bytes, "byte",
               "the most that one batch took beyond that")
          .add("peak_bytes", &DeviceMemory::peak_bytes, "byte", "the sum of both");
  return table;
}

const RecordTable<Energy>& Energy::table() {
  static const auto table =
      RecordTable<Energy>("energy",
                          "After round 0 the decoder passed over the whole dataset by itself for "
                          "at least `protocol.energy_seconds`.")
          .add("watts", &Energy::watts, "W",
               "mean power between the first and the last step of NVML's counter")
          .add("updates", &Energy::updates, "", "steps of the counter")
          .add("seconds", &Energy::seconds, "s", "time of these passes")
          .add("passes", &Energy::passes, "", "their number")
          .add("audio_seconds", &Energy::audio_seconds, "s", "their audio");
  return table;
}

const RecordTable<ClockRate>& ClockRate::table() {
  static const auto table =
      RecordTable<ClockRate>("clock rate", "")
          .add("mean", &ClockRate::mean, "MHz", "mean of the samples")
          .add("min", &ClockRate::min, "MHz", "lowest sample")
          .add("device_max", &ClockRate::device_max, "MHz", "highest rate of the device");
  return table;
}

const RecordTable<MachineConditions>& MachineConditions::table() {
  static const auto table =
      RecordTable<MachineConditions>(
          "conditions",
          "They describe the machine during the round, which all its decoders share. All but the "
          "first four are of the GPU, sampled every 50 ms through NVML.")
          .add("wall_seconds", &MachineConditions::wall_seconds, "s", "time of the round")
          .add("cpu_wait_seconds", &MachineConditions::cpu_wait_seconds, "s",
               "time that threads waited for a CPU, summed over threads; null: unknown")
          .add("stopped_seconds", &MachineConditions::stopped_seconds, "s",
               "time in which no thread ran, because the process was stopped or the machine slept")
          .add("other_cpus", &MachineConditions::other_cpus, "CPUs",
               "CPUs that other programs and the hypervisor used on average; null: unknown")
          .add("sm_clock_mhz", &MachineConditions::sm_clock_mhz, "MHz", "clock of the processors")
          .add("memory_clock_mhz", &MachineConditions::memory_clock_mhz, "MHz", "memory clock")
          .add("temperature_c", &MachineConditions::temperature_c, "°C", "temperature")
          .add("power_w", &MachineConditions::power_w, "W", "power")
          .add("throttle", &MachineConditions::throttle, "", "reasons seen in any sample");
  return table;
}

const RecordTable<ShardTimes>& ShardTimes::table() {
  static const auto table =
      RecordTable<ShardTimes>("times of shards", "")
          .add("total_seconds", &ShardTimes::total_seconds, "s", "total time of each shard")
          .add("decode_seconds", &ShardTimes::decode_seconds, "s", "decode time of each shard")
          .add("skew", &ShardTimes::skew, "", "longest / mean total time");
  return table;
}

}  // namespace rtfx::record
