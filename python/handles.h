// What the handles of library.h hold, and how its functions fail.
#pragma once

#include <ATen/DeviceGuard.h>
#include <c10/core/InferenceMode.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/result_check.h"
#include "base/error.h"
#include "harness/run/recorded_encoder.h"

struct rtfx_model {
  std::shared_ptr<const rtfx::AcousticModel> model;
  std::unique_ptr<rtfx::RecordedEncoder> encoder;
  rtfx::ModelConfig config;
  std::vector<std::string> notices;
};

struct rtfx_decoder {
  std::shared_ptr<const rtfx::AcousticModel> model;
  std::shared_ptr<rtfx::Decoder> decoder;  // streams outlive the handle
};

struct rtfx_result {
  std::shared_ptr<const rtfx::AcousticModel> model;
  rtfx::ResultRules rules;
  rtfx::EncodedBatch batch;  // its lengths, for the check of values
  rtfx::Hypotheses hypotheses;
};

namespace rtfx {

/// A string that lives until the thread's next call.
const char* keep(std::string value);

/// Notes the exception that is being handled as the thread's last failure.
void note_failure();

/// What the caller's language cannot catch becomes rtfx_error().
template <class Result, class Work>
Result guarded(Result on_failure, const Work& work) {
  try {
    const c10::InferenceMode inference;
    return work();
  } catch (...) {
    note_failure();
  }
  return on_failure;
}

inline at::DeviceGuard on_device_of(const AcousticModel& model) {
  return at::DeviceGuard(model.device);
}

/// What decoders are given, of frames [B, T, D] that the caller made, lengths[b] of which count in
/// row b. Throws UserError where they are not the model's.
EncodedBatch batch_of(const AcousticModel& model, at::Tensor frames, const int64_t* lengths,
                      int64_t rows);

/// As rtfx_result_json() has a row.
nlohmann::json row_json(const Hypothesis& row, const AcousticModel& model);

}  // namespace rtfx
