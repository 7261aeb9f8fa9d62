// The encoder of a pipeline: recorded as CUDA graphs, and checked to fit into the memory of the
// device.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "models/acoustic_model.h"

namespace rtfx {

// The encoder as CUDA graphs: hundreds of small kernels a batch, launched at once.

/// Records `step` as a CUDA graph on the current device and gives what enqueues it on LibTorch's
/// current stream: a StepRecorder (models/streaming/encoder_streams.h). Waits for the device.
std::function<void()> record_step(const std::function<void()>& step);

/// Runs a model's encoder; on a GPU, with `graphs`, as a CUDA graph recorded for the batch's rows,
/// for its frames rounded up to a multiple of kMelFrameStep, and for Encoder::rows(). A size that
/// was not seen before is recorded at its first batch, which waits for the device: a warm-up round
/// sees every size. Sizes beyond the first kMostGraphs are launched kernel by kernel. The graphs
/// share the memory of what they compute in between.
class RecordedEncoder {
 public:
  static constexpr int64_t kMelFrameStep = 64;  // 8 or 16 encoder frames
  static constexpr size_t kMostGraphs = 256;

  RecordedEncoder(std::shared_ptr<const AcousticModel> model, bool graphs);
  ~RecordedEncoder();

  /// Takes and returns what Encoder does (models/encoder/encoder.h). The results are equal up to
  /// the rounding of differently shaped products. The result is the caller's. Waits only to record.
  Encoded operator()(const Features& features);

  /// Sizes that were recorded so far.
  int64_t captures() const { return static_cast<int64_t>(recordings_.size()); }

 private:
  struct Recording;
  /// Null if the size was not seen before and there are kMostGraphs.
  Recording* recording_for(const Features& features);

  std::shared_ptr<const AcousticModel> model_;
  bool graphs_;
  // The key is (utterances, mel frames, Encoder::rows()).
  std::map<std::array<int64_t, 3>, std::unique_ptr<Recording>> recordings_;
};

// Whether a batch fits into memory, asked before it is encoded: the kernel would end the program
// without a word, minutes later.

/// Bytes that this process can still get: of the device, or of the machine and its control group.
int64_t free_memory(const at::Device& device);

/// Bytes that encoding so many utterances, the longest of `samples` samples, needs at least.
int64_t least_encoder_memory(const AcousticModel& model, int64_t rows, int64_t samples);

/// Throws UserError at `where` if encoding `rows` utterances, the longest of `samples` samples,
/// needs more than `free` bytes (models/encoder/encoder.h).
void require_encoder_memory(const AcousticModel& model, int64_t rows, int64_t samples, int64_t free,
                            const std::string& where);

}  // namespace rtfx
