#include "harness/results/metric_table.h"

#include <algorithm>

namespace rtfx {
namespace {

constexpr auto kRatio = MetricInfo::Change::ratio;
constexpr auto kDifference = MetricInfo::Change::difference;
constexpr bool kRequired = true;

using MetricSource = decltype(MetricInfo::source);

/// Makes a metric that the gate judges with this tolerance and exported tables show.
MetricInfo gated(const char* key, MetricSource source, const char* unit, const char* meaning,
                 int direction, MetricInfo::Change change, double tolerance) {
  return {key, source, unit, meaning, direction, change, tolerance, true};
}

/// Makes a metric that exported tables show and the gate does not judge.
MetricInfo exported(const char* key, MetricSource source, const char* unit, const char* meaning,
                    int direction, MetricInfo::Change change) {
  return {key, source, unit, meaning, direction, change, std::nullopt, true};
}

/// Makes a metric that the gate does not judge and exported tables do not show.
MetricInfo not_exported(const char* key, MetricSource source, const char* unit, const char* meaning,
                        int direction, MetricInfo::Change change) {
  return {key, source, unit, meaning, direction, change, std::nullopt, false};
}

}  // namespace

const std::vector<MetricInfo>& metric_table() {
  static const std::vector<MetricInfo> all = {
      gated("rtfx.total", StoredInRun(kPositive | kNull, Merge::rate, kRequired), "x",
            "Seconds of audio per second of work, from samples to text. The time is the sum of all "
            "regions. In the mode throughput, it is that of a whole pass, which may include the "
            "reading of files.",
            1, kRatio, 0.05),
      exported(
          "rtfx.first_pass", StoredInRun(kPositive | kNull, Merge::absent), "x",
          "Seconds of audio per second of the first pass of a case in its process. Only in the "
          "mode throughput.",
          1, kRatio),
      exported("tokens.per_second", StoredInRun(kNotNegative | kNull, Merge::per_second), "tokens",
               "Number of tokens in the results per second of audio.", 0, kDifference),
      not_exported("tokens.reference_per_second",
                   StoredInRun(kNotNegative | kNull, Merge::per_reference_second), "tokens",
                   "Number of tokens in the reference texts per second of their audio.", 0,
                   kDifference),
      exported("rtfx.wall", Computed(), "x",
               "Seconds of audio per second of wall-clock time, which includes the time between "
               "regions.",
               1, kRatio),
      not_exported(
          "rtfx.encode_decode", StoredInRun(kPositive | kNull, Merge::rate, kRequired), "x",
          "Seconds of audio per second of encoder, decoder and the copy of results to the host.", 1,
          kRatio),
      gated("rtfx.decode", StoredInRun(kPositive | kNull, Merge::rate, kRequired), "x",
            "Seconds of audio per second of the decoder alone.", 1, kRatio, 0.05),
      not_exported("share.decode", StoredInRun(kNumber | kNull, Merge::slowest, kRequired), "",
                   "Share of the total time that the decoder takes.", 0, kDifference),
      gated("wer", Computed(), "",
            "Word error rate of the whole dataset: word errors / reference words.", -1, kDifference,
            0.001),
      exported("wer.substitutions", Computed(), "words",
               "Number of reference words that are replaced by another word.", -1, kDifference),
      exported("wer.deletions", Computed(), "words",
               "Number of reference words that are missing in the results.", -1, kDifference),
      exported("wer.insertions", Computed(), "words", "Number of additional words in the results.",
               -1, kDifference),
      exported("cer", Computed(), "",
               "Character error rate: character errors / reference characters, without spaces.", -1,
               kDifference),
      exported("wer.oracle", Computed(), "",
               "Word error rate if the best text of each n-best list were chosen.", -1,
               kDifference),
      exported("boosted.recall", Computed(), "",
               "Share of the boosted words in the references that the results have too.", 1,
               kDifference),
      exported("boosted.precision", Computed(), "",
               "Share of the boosted words in the results that the reference has at that place.", 1,
               kDifference),
      exported("boosted.f_score", Computed(), "",
               "F-score of boosted phrases: the harmonic mean of their recall and precision.", 1,
               kDifference),
      not_exported("exact.grade", Computed(), "grade",
                   "Grade of the case against the baseline: 5 bitwise, 4 exact, 3 rounding, 2 "
                   "text, 1 wer, 0 different. It is the grade of the worst utterance, but `wer` "
                   "may stand in place of `different`.",
                   1, kDifference),
      not_exported(
          "exact.rate", Computed(), "",
          "Share of the utterances that have the grade bitwise or exact against the baseline.", 1,
          kDifference),
      exported(
          "batch_ms.first", StoredInRun(kPositive | kNull, Merge::absent), "ms",
          "Time from samples to text of the first batch in the first pass of a case. Only in the "
          "mode throughput.",
          -1, kRatio),
      exported("batch_ms.p50", StoredInRun(kPositive | kNull, Merge::greatest), "ms",
               "Median over the batches of a round of the time from samples to text.", -1, kRatio),
      exported("batch_ms.p95", StoredInRun(kPositive | kNull, Merge::greatest), "ms",
               "95th percentile over the batches of a round of the time from samples to text.", -1,
               kRatio),
      exported("batch_ms.p99", StoredInRun(kPositive | kNull, Merge::greatest), "ms",
               "99th percentile over the batches of a round of the time from samples to text.", -1,
               kRatio),
      exported(
          "busy.load", StoredInRun(kNotNegative | kNull, Merge::slowest), "",
          "Share of a pass in which the stage that reads audio files is busy. Only in the mode "
          "throughput.",
          0, kDifference),
      exported(
          "busy.copy", StoredInRun(kNotNegative | kNull, Merge::slowest), "",
          "Share of a pass in which the stage that pads batches and copies them to the device is "
          "busy. Only in the mode throughput.",
          0, kDifference),
      exported(
          "busy.encoder", StoredInRun(kNotNegative | kNull, Merge::slowest), "",
          "Share of a pass in which the stage of features and encoder is busy. Only in the mode "
          "throughput.",
          0, kDifference),
      exported(
          "busy.decode", StoredInRun(kNotNegative | kNull, Merge::slowest), "",
          "Share of a pass in which the stage of the decoder is busy. Only in the mode throughput.",
          0, kDifference),
      exported(
          "busy.texts", StoredInRun(kNotNegative | kNull, Merge::slowest), "",
          "Share of a pass in which the stage that copies results back and makes texts is busy. "
          "Only in the mode throughput.",
          0, kDifference),
      exported("memory.kept_mib", StoredInRun(kNotNegative | kNull, Merge::greatest), "MiB",
               "GPU memory that the decoder keeps between batches.", -1, kDifference),
      exported("memory.peak_mib", StoredInRun(kNotNegative | kNull, Merge::greatest), "MiB",
               "Largest amount of GPU memory that the decoder holds while it decodes.", -1,
               kDifference),
      exported(
          "energy.joules_per_hour", StoredInRun(kPositive | kNull, Merge::energy), "J",
          "Energy of the GPU for one hour of audio, from samples to text, while one decoder runs "
          "alone.",
          -1, kRatio),
      exported("host_reads", Computed(), "reads",
               "Number of times in one pass over the dataset that the decoder waits for the device "
               "to learn a value.",
               -1, kDifference),
      exported("wasted.joint", Computed(), "",
               "Share of the rows of joint calls whose decision no utterance needed. Only with the "
               "decoder's option count_rows.",
               -1, kDifference),
      exported("wasted.prediction", Computed(), "",
               "Share of the rows of prediction calls that no utterance needed. Only with the "
               "decoder's option count_rows.",
               -1, kDifference),
      exported("collisions", Computed(), "",
               "Share of the compared pairs of hypotheses that have one hash and different tokens. "
               "Only with the decoder's option count_collisions.",
               -1, kDifference),
      exported(
          "launches", Computed(), "launches",
          "Number of kernels that the host launches in a pass of the decoder, from the profile.",
          -1, kDifference),
      exported("graph_launches", Computed(), "launches",
               "Number of CUDA graphs that the host launches in a pass of the decoder, from the "
               "profile.",
               -1, kDifference),
      exported("idle.share", Computed(), "",
               "Share of the decoder's time in which no kernel runs, from the profile.", -1,
               kDifference),
      exported(
          "stream.total_ms", StoredInStream(), "ms",
          "Mean latency of a request of simulated streams: the time in the queue and in its batch.",
          -1, kRatio),
      exported("stream.total_ms.p50", StoredInStream(), "ms",
               "Median latency of a request of simulated streams.", -1, kRatio),
      exported("stream.total_ms.p99", StoredInStream(), "ms",
               "99th percentile of the latency of a request of simulated streams.", -1, kRatio),
      exported("stream.queue_ms", StoredInStream(), "ms",
               "Mean time that a request of simulated streams waits until its batch begins.", -1,
               kDifference),
      exported("stream.compute_ms", StoredInStream(), "ms",
               "Mean time of the batch that serves a request of simulated streams.", -1, kRatio),
      exported(
          "stream.rtfx", StoredInStream(), "x",
          "Seconds of new audio per second until the last request of simulated streams was served.",
          1, kRatio),
      exported("streams.sustained", StoredInStream(), "streams",
               "Largest number of simulated streams that the rule confirmed. Without a rule: the "
               "largest number up to which no tested number failed, and every one had a stable "
               "queue and kept `stream.slo_ms`, if that is given.",
               1, kDifference),
  };
  return all;
}

const StoredInRun* find_stored_in_run(std::string_view key) {
  const auto found =
      std::ranges::find_if(metric_table(), [&](const MetricInfo& m) { return m.key == key; });
  return found == metric_table().end() ? nullptr : std::get_if<StoredInRun>(&found->source);
}

}  // namespace rtfx
