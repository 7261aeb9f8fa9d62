// Tables of the parts that records are made of. Those of whole records are in records.cpp.
#include "harness/results/records.h"

namespace rtfx::record {

const RecordTable<Model>& Model::table() {
  static const auto table =
      RecordTable<Model>("model", "")
          .add("id", &Model::id, "", "Id of the model in the configuration.")
          .add("kind", &Model::kind, "",
               "Kind of model: `rnnt`, `multiblank`, `tdt` or `ctc`. A hybrid of a transducer and "
               "CTC has the kind of its transducer.")
          .add("stand_in", &Model::stand_in, "",
               "Origin of a checkpoint that stands in for another one. Null: it was trained.");
  return table;
}

template <template <class> class Presence>
const RecordTable<Dataset<Presence>>& Dataset<Presence>::table() {
  static const auto table =
      RecordTable<Dataset>(std::is_same_v<Presence<int>, int> ? "dataset" : "profiled dataset", "")
          .add("id", &Dataset::id, "", "Id of the dataset in the configuration.")
          .add("utterances", &Dataset::utterances, "", "Number of utterances.")
          .add("audio_seconds", &Dataset::audio_seconds, "s",
               "Length of the audio of all utterances, without padding.")
          .add("stand_in", &Dataset::stand_in, "",
               "Description of the audio that stands in for the dataset. Null: the dataset itself "
               "was used.");
  return table;
}
template struct Dataset<Always>;
template struct Dataset<Optional>;

template <template <class> class Presence>
const RecordTable<Decoder<Presence>>& Decoder<Presence>::table() {
  static const auto table =
      RecordTable<Decoder>(std::is_same_v<Presence<int>, int> ? "decoder" : "profiled decoder", "")
          .add("id", &Decoder::id, "", "Id of the decoder in the configuration.")
          .add("name", &Decoder::name, "", "Name of the decoder in `rtfx list`.")
          .add("options", &Decoder::options, "", "Options of the decoder, with all defaults.")
          .add("head", &Decoder::head, "",
               "Head of the model that the decoder uses: `transducer`, `ctc`, or `none` for the "
               "decoder `null`.")
          .add("exactness", &Decoder::exactness, "",
               "Declared kind of result. `exact`: equal to greedy search up to rounding. "
               "`approximate`: it may differ.")
          .add("score_kind", &Decoder::score_kind, "",
               "Numbers that make a score: sums of logits (`logit`) or log-probabilities "
               "(`logprob`), or the log-probability of a text in a beam (`text_logprob`, "
               "`monotonic_text_logprob`). Empty: no score.")
          .add("control_of", &Decoder::control_of, "",
               "Id of the baseline that this decoder repeats as the A/A control "
               "(`protocol.aa_control`). Absent for other decoders.");
  return table;
}
template struct Decoder<Always>;
template struct Decoder<Optional>;

const RecordTable<Batch>& Batch::table() {
  static const auto table =
      RecordTable<Batch>("batch", "")
          .add("by", &Batch::by, "",
               "Unit of `size`: `count` for utterances, `seconds` for seconds of audio, or "
               "`streams`.")
          .add("size", &Batch::size, "", "Size of a batch, or number of streams.")
          .add("largest", &Batch::largest, "",
               "True if the configuration asks for the largest batch that fits (`max`).");
  return table;
}

const RecordTable<RegionTimes>& RegionTimes::table() {
  static const auto table =
      RecordTable<RegionTimes>("times of a region", "")
          .add("host_seconds", &RegionTimes::host_seconds, "s", "Time by the clock of the host.")
          .add("device_seconds", &RegionTimes::device_seconds, "s",
               "Time of the GPU, between CUDA events around the region. Null on a CPU.");
  return table;
}

const RecordTable<WordErrors>& WordErrors::table() {
  static const auto table =
      RecordTable<WordErrors>("word errors", "")
          .add("normalizer", &WordErrors::normalizer, "", "Name of the scorer.")
          .add("version", &WordErrors::version, "", "Version of the scorer.")
          .add("wer", &WordErrors::wer, "",
               "Word error rate: (substitutions + insertions + deletions) / reference words. "
               "Null: no reference has words.")
          .add("substitutions", &WordErrors::substitutions, "",
               "Number of reference words that are replaced by another word.")
          .add("insertions", &WordErrors::insertions, "",
               "Number of additional words in the results.")
          .add("deletions", &WordErrors::deletions, "",
               "Number of reference words that are missing in the results.")
          .add("reference_words", &WordErrors::reference_words, "",
               "Number of words in the references.")
          .add("cer", &WordErrors::cer, "",
               "Character error rate: `character_errors` / `reference_characters`.")
          .add("character_errors", &WordErrors::character_errors, "",
               "Number of characters that are substituted, inserted or deleted. Spaces do not "
               "count.")
          .add("reference_characters", &WordErrors::reference_characters, "",
               "Number of characters in the references, without spaces.")
          .add("unspaced_characters", &WordErrors::unspaced_characters, "",
               "Number of these characters that belong to scripts without spaces between words.");
  return table;
}

const RecordTable<OracleErrors>& OracleErrors::table() {
  static const auto table =
      RecordTable<OracleErrors>("oracle word errors",
                                "The text with the fewest errors is counted for each n-best list.")
          .add("normalizer", &OracleErrors::normalizer, "", "Name of the scorer.")
          .add("version", &OracleErrors::version, "", "Version of the scorer.")
          .add("wer", &OracleErrors::wer, "",
               "Word error rate: (substitutions + insertions + deletions) / reference words.")
          .add("substitutions", &OracleErrors::substitutions, "",
               "Number of reference words that are replaced by another word.")
          .add("insertions", &OracleErrors::insertions, "",
               "Number of additional words in the results.")
          .add("deletions", &OracleErrors::deletions, "",
               "Number of reference words that are missing in the results.")
          .add("reference_words", &OracleErrors::reference_words, "",
               "Number of words in the references.")
          .add("entries", &OracleErrors::entries, "", "Length of the longest n-best list.");
  return table;
}

const RecordTable<BoostedPhrases>& BoostedPhrases::table() {
  static const auto table =
      RecordTable<BoostedPhrases>(
          "boosted phrases",
          "Phrases of one word or more are counted by the rules of NeMo's `compute_fscore`. "
          "A share is null if its divisor is 0.")
          .add("occurrences", &BoostedPhrases::occurrences, "",
               "Number of boosted phrases in the references. A phrase counts each time that it "
               "occurs.")
          .add("recalled", &BoostedPhrases::recalled, "",
               "Number of these phrases that the results have too.")
          .add("false_alarms", &BoostedPhrases::false_alarms, "",
               "Number of boosted phrases in the results where the reference has other words.")
          .add("recall", &BoostedPhrases::recall, "", "Recall: recalled / occurrences.")
          .add("precision", &BoostedPhrases::precision, "",
               "Precision: recalled / (recalled + false alarms).")
          .add("count", &BoostedPhrases::count, "",
               "Number of distinct phrases. If utterances have lists of their own, it is that of "
               "the longest list.");
  return table;
}

const RecordTable<Boosted>& Boosted::table() {
  static const auto table =
      RecordTable<Boosted>(
          "boosted words",
          "Words are counted in utterances with a reference, by the alignment of `wer`. A "
          "share is null if its divisor is 0.")
          .add("occurrences", &Boosted::occurrences, "",
               "Number of boosted words in the references. A word counts each time that it occurs.")
          .add("recalled", &Boosted::recalled, "",
               "Number of these words that the results have too.")
          .add("false_alarms", &Boosted::false_alarms, "",
               "Number of boosted words in the results where the reference has another word or "
               "none.")
          .add("recall", &Boosted::recall, "", "Recall: recalled / occurrences.")
          .add("precision", &Boosted::precision, "",
               "Precision: recalled / (recalled + false alarms).")
          .add("phrases", &Boosted::phrases, "",
               "Counts of boosted phrases, which have one word or more.")
          .add("f_score", &Boosted::f_score, "",
               "F-score of the phrases: 2 recalled / (occurrences + recalled + false alarms).")
          .add("words", &Boosted::words, "",
               "Number of distinct words in the decoder's options, after normalisation.")
          .add("left_out", &Boosted::left_out, "",
               "Number of entries in the decoder's options that normalisation turns into several "
               "words or none. They count as phrases alone.");
  return table;
}

const RecordTable<WordlessSpeech>& WordlessSpeech::table() {
  static const auto table =
      RecordTable<WordlessSpeech>(
          "speech without words",
          "A part is the speech in a stretch of at least 8 s without tokens. The stretch needs 1.5 "
          "s of speech. An utterance without any token may be shorter, and needs 0.5 s. `rtfx "
          "transcribe` decodes such parts again, but a run only counts them.")
          .add("utterances", &WordlessSpeech::utterances, "",
               "Number of utterances with such a part.")
          .add("parts", &WordlessSpeech::parts, "", "Number of such parts.")
          .add("seconds", &WordlessSpeech::seconds, "s", "Total length of these parts.");
  return table;
}

const RecordTable<FirstDifference>& FirstDifference::table() {
  static const auto table =
      RecordTable<FirstDifference>("first difference", "")
          .add("utterance", &FirstDifference::utterance, "", "Id of the utterance.")
          .add("frame", &FirstDifference::frame, "", "Encoder frame of the first difference.")
          .add("seconds", &FirstDifference::seconds, "s", "Time of this frame in the utterance.")
          .add("baseline_words", &FirstDifference::baseline_words, "",
               "Words around the first difference, in the result that this one is compared with.")
          .add("words", &FirstDifference::words, "",
               "Words around the first difference, in this result.");
  return table;
}

const RecordTable<BeyondDecision>& BeyondDecision::table() {
  static const auto table =
      RecordTable<BeyondDecision>(
          "decision beyond rounding",
          "The object describes a decision of a hypothesis that rounding does not explain.")
          .add("utterance", &BeyondDecision::utterance, "", "Id of the utterance.")
          .add("kind", &BeyondDecision::kind, "",
               "Kind of decision: a `label`, a `duration`, the `score` of the hypothesis, or a "
               "`path` to the next token that does not exist.")
          .add("frame", &BeyondDecision::frame, "", "Encoder frame of the decision.")
          .add("seconds", &BeyondDecision::seconds, "s", "Time of this frame in the utterance.")
          .add("chosen", &BeyondDecision::chosen, "",
               "Label or duration that the hypothesis has. 0 for a score or a path.")
          .add("best", &BeyondDecision::best, "",
               "Label or duration that the reference network finds best. 0 for a score or a path.")
          .add("gap", &BeyondDecision::gap, "",
               "Difference between the scores of `best` and `chosen`. Null: infinite.")
          .add("bound", &BeyondDecision::bound, "",
               "Largest difference that rounding explains. Null: infinite.");
  return table;
}

const RecordTable<Replay>& Replay::table() {
  static const auto table =
      RecordTable<Replay>(
          "proof by replay",
          "Replay computes each decision of a hypothesis again with a reference network. "
          "Equal hypotheses of an utterance are replayed once.")
          .add("decisions", &Replay::decisions, "", "Number of decisions that were checked.")
          .add("beyond", &Replay::beyond, "", "Number of decisions that rounding does not explain.")
          .add("worst_gap_over_bound", &Replay::worst_gap_over_bound, "",
               "Largest gap / bound of a decision. Null: infinite.")
          .add("first", &Replay::first, "",
               "First decision that rounding does not explain. Null: there is none.");
  return table;
}

const RecordTable<Exactness>& Exactness::table() {
  static const auto table =
      RecordTable<Exactness>(
          "exactness",
          "[Exactness](../background/exactness.md) explains the grades and the replay.")
          .add("baseline", &Exactness::baseline, "",
               "Id of the decoder with which this one is compared.")
          .add("grade", &Exactness::grade, "",
               "Grade of the worst utterance: `bitwise`, `exact`, `rounding`, `text` or "
               "`different`, from best to worst. Instead of `different` it is `wer` if the word "
               "errors of all utterances together equal the baseline's and replay found no error. "
               "`baseline`: the decoder is the baseline itself.")
          .add("grades", &Exactness::grades, "", "Number of utterances with each grade.")
          .add("first_difference", &Exactness::first_difference, "",
               "First utterance with the worst grade. Null: no utterance has a grade below "
               "`exact`.")
          .add("replay", &Exactness::replay, "",
               "Findings of the replay of the decoder's own results. Null: they were not replayed.")
          .add("replay_left_out", &Exactness::replay_left_out, "",
               "Reason why the results cannot be replayed, for example that the decoder is "
               "declared approximate.");
  return table;
}

const RecordTable<Batches>& Batches::table() {
  static const auto table =
      RecordTable<Batches>(
          "batches",
          "Each list has an entry for each batch, in the order of the round. Times are "
          "rounded to 1 µs.")
          .add("audio_seconds", &Batches::audio_seconds, "s",
               "Length of the batch's audio, without padding.", kPositive)
          .add("total_seconds", &Batches::total_seconds, "s",
               "Time of all regions. In the mode `throughput`: time from the text of the batch "
               "before to the text of this batch.",
               kNotNegative)
          .add("decode_seconds", &Batches::decode_seconds, "s", "Time of the region `decode`.",
               kNotNegative)
          .add("latency_seconds", &Batches::latency_seconds, "s",
               "Time from the padding of the batch to its text. Present in the mode `throughput`.");
  return table;
}

const RecordTable<Pipeline>& Pipeline::table() {
  static const auto table =
      RecordTable<Pipeline>("pipeline", "")
          .add("in_flight", &Pipeline::in_flight, "", "Largest number of batches in flight.")
          .add("audio", &Pipeline::audio, "",
               "Source of the samples. `memory`: they are read before the pass. `files`: each "
               "pass reads the files.")
          .add("pass_seconds", &Pipeline::pass_seconds, "s",
               "Time of each pass of the round. Other times of the record are means over these "
               "passes.")
          .add("encoder", &Pipeline::encoder, "",
               "Number of batches in these passes, by the way in which the encoder ran.");
  return table;
}

const RecordTable<EncoderRuns>& EncoderRuns::table() {
  static const auto table =
      RecordTable<EncoderRuns>(
          "runs of the encoder",
          "Batches are counted by the way in which the encoder ran. On a CPU, and without "
          "`encoder_graphs`, nothing is counted.")
          .add("launched", &EncoderRuns::launched, "",
               "Number of batches for which the encoder was launched kernel by kernel.")
          .add("recorded", &EncoderRuns::recorded, "",
               "Number of these batches that also recorded a CUDA graph: the second batch of each "
               "size.")
          .add("replayed", &EncoderRuns::replayed, "",
               "Number of batches that launched a CUDA graph which was recorded before.");
  return table;
}

const RecordTable<FirstPass>& FirstPass::table() {
  static const auto table =
      RecordTable<FirstPass>(
          "first pass",
          "The object describes the first pass of the case in its process, which is a "
          "warm-up round if there are any. On a GPU, a batch of silence of the largest size "
          "comes before it.")
          .add("seconds", &FirstPass::seconds, "s", "Time from the first sample to the last text.")
          .add("first_text_seconds", &FirstPass::first_text_seconds, "s",
               "Time from the samples of the first batch to its text.")
          .add("encoder", &FirstPass::encoder, "",
               "Number of batches by the way in which the encoder ran.");
  return table;
}

const RecordTable<IsolatedComparison>& IsolatedComparison::table() {
  static const auto table =
      RecordTable<IsolatedComparison>(
          "comparison with an isolated pass",
          "The results of overlapped passes are compared with those of one pass region by "
          "region, with the same decoder, batches and dtype.")
          .add("grade", &IsolatedComparison::grade, "",
               "Grade of the worst utterance, as in [exactness](#exactness), but never `wer`.")
          .add("grades", &IsolatedComparison::grades, "", "Number of utterances with each grade.")
          .add("first_difference", &IsolatedComparison::first_difference, "",
               "First utterance with the worst grade. Null: no utterance has a grade below "
               "`exact`.");
  return table;
}

const RecordTable<LengthLatency>& LengthLatency::table() {
  static const auto table =
      RecordTable<LengthLatency>("latency of a length", "")
          .add("seconds", &LengthLatency::seconds, "s", "Length of the utterances.")
          .add("requests", &LengthLatency::requests, "",
               "Number of batches that had one utterance of this length.")
          .add("p50_ms", &LengthLatency::p50_ms, "ms", "Median of the times from samples to text.")
          .add(
              "p99_ms", &LengthLatency::p99_ms, "ms",
              "99th percentile of the times from samples to text. Null: there are fewer than 100.");
  return table;
}

const RecordTable<DeviceMemory>& DeviceMemory::table() {
  static const auto table =
      RecordTable<DeviceMemory>(
          "device memory",
          "Memory of LibTorch's allocator on the GPU is counted. The model, the encoder, "
          "CUDA's own memory and the workspace of cuBLAS are left out.")
          .add("kept_bytes", &DeviceMemory::kept_bytes, "byte",
               "Memory that the decoder's `prepare()` keeps: tensors, and all memory of its CUDA "
               "graphs. Null: not known.")
          .add("decode_bytes", &DeviceMemory::decode_bytes, "byte",
               "Largest amount of memory that decoding a batch takes beyond that. Null: not "
               "known, as in the mode `throughput`.")
          .add("peak_bytes", &DeviceMemory::peak_bytes, "byte",
               "Largest amount of memory in use: `kept_bytes` + `decode_bytes`. Null: not known.");
  return table;
}

const RecordTable<Energy>& Energy::table() {
  static const auto table =
      RecordTable<Energy>(
          "energy",
          "After round 0, the decoder makes passes over the whole dataset by itself, for at "
          "least `protocol.energy_seconds`.")
          .add("watts", &Energy::watts, "W",
               "Mean power between the first and the last step of NVML's energy counter.")
          .add("updates", &Energy::updates, "", "Number of steps of the counter.")
          .add("seconds", &Energy::seconds, "s", "Time of these passes.")
          .add("passes", &Energy::passes, "", "Number of these passes.")
          .add("audio_seconds", &Energy::audio_seconds, "s",
               "Length of the audio of all these passes.");
  return table;
}

const RecordTable<ClockRate>& ClockRate::table() {
  static const auto table =
      RecordTable<ClockRate>("clock rate", "")
          .add("mean", &ClockRate::mean, "MHz", "Mean of the samples.")
          .add("min", &ClockRate::min, "MHz", "Lowest sample.")
          .add("device_max", &ClockRate::device_max, "MHz", "Highest clock rate of the device.");
  return table;
}

const RecordTable<MachineConditions>& MachineConditions::table() {
  static const auto table =
      RecordTable<MachineConditions>(
          "conditions",
          "All decoders of a round share these figures. Figures of the GPU come from NVML, "
          "which is sampled every 50 ms.")
          .add("wall_seconds", &MachineConditions::wall_seconds, "s", "Length of the round.")
          .add("cpu_wait_seconds", &MachineConditions::cpu_wait_seconds, "s",
               "Time that threads of the process waited for a CPU, summed over threads. Null: not "
               "known.")
          .add("stopped_seconds", &MachineConditions::stopped_seconds, "s",
               "Time in which no thread ran, because the process was stopped or the machine "
               "slept. Delays of up to 0.25 s do not count.")
          .add("other_cpus", &MachineConditions::other_cpus, "CPUs",
               "Mean number of CPUs that other programs and the hypervisor used. Null: not known.")
          .add("sm_clock_mhz", &MachineConditions::sm_clock_mhz, "MHz",
               "Clock rate of the multiprocessors.")
          .add("memory_clock_mhz", &MachineConditions::memory_clock_mhz, "MHz",
               "Clock rate of the memory at the end of the round.")
          .add("temperature_c", &MachineConditions::temperature_c, "°C",
               "Temperature at the end of the round.")
          .add("power_w", &MachineConditions::power_w, "W", "Power at the end of the round.")
          .add("throttle", &MachineConditions::throttle, "",
               "Reasons for a lower clock in any sample: `sw_power_cap`, `hw_slowdown`, "
               "`sw_thermal`, `hw_thermal` or `hw_power_brake`.");
  return table;
}

const RecordTable<ShardTimes>& ShardTimes::table() {
  static const auto table =
      RecordTable<ShardTimes>("times of shards", "")
          .add("total_seconds", &ShardTimes::total_seconds, "s", "Total time of each shard.")
          .add("decode_seconds", &ShardTimes::decode_seconds, "s",
               "Time of the region `decode` in each shard.")
          .add("skew", &ShardTimes::skew, "", "Longest total time of a shard / mean total time.");
  return table;
}

}  // namespace rtfx::record
