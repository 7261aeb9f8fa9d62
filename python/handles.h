// The objects that the handles of library.h point to, and the way its functions fail.
#pragma once

#include <ATen/DeviceGuard.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/result_check.h"
#include "base/error.h"
#include "python/views.h"
#include "speech/pipeline/recorded_encoder.h"

struct rtfx_model {
  std::shared_ptr<const rtfx::AcousticModel> model;
  // Batches of the caller rarely have a size that came before, so that recording would only cost.
  std::unique_ptr<rtfx::RecordedEncoder> encoder;
  std::shared_ptr<rtfx::RecordedEncoder> recorded;  // for rtfx_transcribe()
  rtfx::ModelConfig config;
  std::vector<std::string> notices;
};

struct rtfx_decoder {
  std::shared_ptr<const rtfx::AcousticModel> model;
  std::shared_ptr<rtfx::Decoder> decoder;  // streams outlive the handle
  std::optional<rtfx::ResultRules> rules;  // rules of its results
};

struct rtfx_result {
  std::shared_ptr<const rtfx::AcousticModel> model;
  rtfx::ResultRules rules;
  rtfx::EncodedBatch batch;  // for its lengths, which the check of values reads
  rtfx::Hypotheses hypotheses;
  std::vector<rtfx_hypothesis> rows;  // filled on the first request
  rtfx::ViewMemory memory;
};

namespace rtfx {

/// Keeps a string until the thread's next call.
const char* keep(std::string value);

/// Stores the exception that is being handled as the thread's last failure.
void note_failure();

/// Runs `work`. An exception becomes rtfx_error(), since the caller's language cannot catch it. The
/// caller's autocast is off during the call, because it would change the dtypes, and with them the
/// results.
template <class Result, class Work>
Result guarded(Result on_failure, const Work& work) {
  try {
    const c10::InferenceMode inference;
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    return work();
  } catch (...) {
    note_failure();
  }
  return on_failure;
}

/// Returns the argument `where`. Throws UserError unless it is from `least` to `most` seconds.
double require_seconds(double seconds, std::string_view where, double least, double most);

inline at::DeviceGuard on_device_of(const AcousticModel& model) {
  return at::DeviceGuard(model.device);
}

/// Makes the batch that decoders read from the caller's frames [B, T, D]. In row b, the first
/// lengths[b] frames count. Copies the lengths to the device and waits for that. Throws UserError
/// without rows, for a shape, dtype or device that is not the model's, and for a length outside of
/// 0 to T.
EncodedBatch batch_of(const AcousticModel& model, at::Tensor frames, const int64_t* lengths,
                      int64_t rows);

}  // namespace rtfx
