#include "harness/stream/stream_quality.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "harness/results/statistics.h"
#include "harness/run/make_records.h"
#include "harness/scoring/wer.h"
#include "harness/stream/lost_words.h"
#include "harness/stream/stream_load.h"
#include "harness/stream/stream_results.h"
#include "speech/runtime/stages.h"
#include "speech/transcript/transcript.h"

namespace rtfx {

namespace {

/// Decodes the batches of a dataset, and returns the results by utterance.
std::vector<Hypothesis> decode_whole(Decoder& decoder, const EncodedDataset& encoded,
                                     size_t utterances) {
  std::vector<Hypothesis> whole(utterances);
  for (size_t b = 0; b < encoded.batches.size(); ++b) {
    check_interrupt();
    std::vector<Hypothesis> results = decoder.decode(encoded.encoded[b]).to_host();
    for (size_t row = 0; row < results.size(); ++row)
      whole[encoded.batches[b][row]] = std::move(results[row]);
  }
  return whole;
}

/// `whole` and `streamed` hold a result for each utterance of the dataset.
LostWords lost_words(const LoadedDataset& dataset, const std::vector<Hypothesis>& whole,
                     const std::vector<FinishedUtterance>& streamed, const AcousticModel& model,
                     const Normalizer& normalizer) {
  TranscriptRules rules;
  rules.frame_seconds = model.config.frame_seconds();
  LostWords counts;
  for (size_t i = 0; i < whole.size(); ++i) {
    rules.audio_seconds = dataset.seconds[i];
    const auto words = [&](const Hypothesis& result) {
      return normalized_words(transcript_of(result, {}, *model.tokenizer, rules).words, normalizer);
    };
    std::vector<double> borders;
    for (const int64_t frame : streamed[i].borders)
      borders.push_back(static_cast<double>(frame) * rules.frame_seconds);
    counts += count_lost_words(words(whole[i]), words(streamed[i].result), borders);
  }
  return counts;
}

/// Sets the word errors of the streams and of whole utterances, and their difference.
void add_word_errors(record::StreamedQuality& quality, const LoadedDataset& dataset,
                     const std::vector<Hypothesis>& whole,
                     const std::vector<FinishedUtterance>& streamed, const Tokenizer& tokenizer,
                     const Normalizer& normalizer, uint64_t seed) {
  std::vector<EditCounts> of_streams, of_whole;
  for (size_t i = 0; i < whole.size(); ++i) {
    if (!dataset.references[i]) continue;
    const auto edits = [&](const Hypothesis& result) {
      return count_edits_and_characters(*dataset.references[i],
                                        normalizer.words(text_of(result, tokenizer)));
    };
    of_streams.push_back(edits(streamed[i].result));
    of_whole.push_back(edits(whole[i]));
  }
  const auto sum = [](const std::vector<EditCounts>& all) {
    return std::accumulate(all.begin(), all.end(), EditCounts());
  };
  quality.streamed = wer_field(sum(of_streams), normalizer);
  quality.whole = wer_field(sum(of_whole), normalizer);
  const Interval difference = bootstrap_wer_difference(of_whole, of_streams, seed);
  quality.difference = difference.estimate;
  if (!std::isfinite(difference.high)) return;
  quality.low = Number(difference.low);
  quality.high = Number(difference.high);
}

void add_delays(record::StreamedQuality& quality, const ShownText& shown) {
  const auto of = [&](const std::vector<double>& values, double Percentiles::*figure) {
    return values.empty() ? std::nullopt : Nullable<Number>(percentiles(values).*figure);
  };
  quality.first_delay_seconds = of(shown.first_delays(), &Percentiles::mean);
  quality.lag_seconds = of(shown.lags(), &Percentiles::mean);
  quality.lag_p95_seconds = of(shown.lags(), &Percentiles::p95);
  quality.changed_share = shown.lags().empty() ? std::nullopt : Nullable<Number>(shown.changed());
}

}  // namespace

bool has_words(const LoadedDataset& dataset) {
  return std::ranges::any_of(dataset.references,
                             [](const auto& words) { return words && !words->empty(); });
}

void add_quality(record::StreamRun& run, const StreamSettings& settings,
                 const StreamSubject& subject, int64_t streams, const EncodedDataset& encoded,
                 const Normalizer& normalizer, uint64_t seed) {
  const LoadedDataset& dataset = *subject.dataset;
  const AcousticModel& model = *subject.model;
  if (!has_words(dataset)) return;
  const size_t count = dataset.seconds.size();
  const int64_t used = std::min(streams, static_cast<int64_t>(count));
  std::vector<FinishedUtterance> streamed;
  ShownText shown(model.config.frame_seconds(), model.config.features.sample_rate);
  {
    const auto server = subject.server(used, {});
    server->show_to(shown);
    streamed = serve_all(*server, used, settings.max_batch, count);
  }
  const std::vector<Hypothesis> whole = decode_whole(*subject.decoder, encoded, count);
  record::StreamedQuality quality;
  add_word_errors(quality, dataset, whole, streamed, *model.tokenizer, normalizer, seed);
  quality.lost_words = lost_words_field(lost_words(dataset, whole, streamed, model, normalizer));
  if (settings.scope == "speech" && settings.partial) add_delays(quality, shown);
  if (settings.rule && run.slo)
    run.slo = Nullable<bool>(keeps_limit(run) && keeps_words(*settings.rule, quality));
  run.quality = std::move(quality);
}

}  // namespace rtfx
