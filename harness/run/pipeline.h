// From samples to encoder frames, region by region: shared by `run` and `transcribe`.
#pragma once

#include <memory>
#include <vector>

#include "algorithms/decoder.h"
#include "base/nvtx.h"
#include "harness/run/recorded_encoder.h"
#include "harness/run/regions.h"
#include "models/acoustic_model.h"

namespace rtfx {

/// Samples of each utterance, mono at the model's rate; they must outlive the call.
using Clips = std::vector<const std::vector<float>*>;

/// What a batch's range says of it.
BatchSize batch_size(const AcousticModel& model, const Clips& clips);

/// Pads, copies to the model's device (h2d), extracts features, encodes with `encoder`, which is of
/// `model`; adds the time of each region and of all (wall) to `times`. The batch holds the model's
/// frames_for_decoder(), whose own work is in neither. The device is idle on return.
EncodedBatch encode_batch(const AcousticModel& model, RecordedEncoder& encoder, const Clips& clips,
                          const RegionClock& clock, RegionTimes& times);

/// decode, d2h and detokenize of one batch.
struct Decoded {
  std::vector<Hypothesis> hypotheses;
  std::vector<std::string> texts;
};

/// Adds to `times` as encode_batch() does. The result is checked between the regions, which counts
/// as wall time: a decoder that breaks its contract is a WrongResult.
/// `sync_debug`: an undeclared wait for the device throws (algorithms/gpu/sync_debug.h).
Decoded decode_batch(Decoder& decoder, const AcousticModel& model, const EncodedBatch& batch,
                     const RegionClock& clock, RegionTimes& times, bool sync_debug);

}  // namespace rtfx
