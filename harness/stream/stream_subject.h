// The subject of a stream trial: one decoder, which serves streams and decodes whole utterances.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "algorithms/decoder.h"
#include "harness/config/stream_settings.h"
#include "harness/run/loaded_inputs.h"
#include "harness/stream/stream_server.h"
#include "models/acoustic_model.h"

namespace rtfx {

/// A dataset whose batches the encoder has taken in one piece each.
struct EncodedDataset {
  std::vector<std::vector<size_t>> batches;  // utterances of each batch
  std::vector<EncodedBatch> encoded;         // frames of each batch
};

struct StreamSubject {
  Decoder* decoder;
  const AcousticModel* model;
  const LoadedDataset* dataset;
  /// Makes a server for so many streams.
  std::function<std::unique_ptr<LoadServer>(int64_t streams, const StreamStarts& starts)> server;
  /// Decodes utterances in one piece each. Called after the server of so many streams is gone.
  std::function<std::vector<Hypothesis>(const std::vector<size_t>& utterances, int64_t streams)>
      whole;
};

/// Returns the subject of the scope "search", whose requests bring frames of `encoded`. Decodes all
/// utterances in one piece. Decoder, model and dataset must outlive the subject.
StreamSubject search_subject(const StreamSettings& settings, Decoder& decoder,
                             const AcousticModel& model, const LoadedDataset& dataset,
                             const EncodedDataset& encoded);

/// Returns the subject of the scope "speech", whose requests bring samples. Decoder and dataset
/// must outlive the subject.
StreamSubject speech_subject(const StreamSettings& settings, Decoder& decoder,
                             const std::shared_ptr<const AcousticModel>& model,
                             const LoadedDataset& dataset);

/// Returns the options of an encoder that serves so many streams of the scope "speech".
StreamOptions encoder_options(const StreamSettings& settings, const AcousticModel& model,
                              int64_t streams);

/// Returns the number of samples that a request of the scope "speech" brings.
int64_t samples_of_request(const StreamSettings& settings, const AcousticModel& model);

/// Returns the samples of all utterances of a dataset.
Clips all_clips(const AcousticModel& model, const LoadedDataset& dataset);

}  // namespace rtfx
