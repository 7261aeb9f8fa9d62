// The common parts of the micro-benchmarks of rtfx_microbench: their device, their registration,
// and inputs of the size of a Parakeet RNN-T's, which are equal in every run.
#pragma once

#include <ATen/core/Tensor.h>
#include <benchmark/benchmark.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "algorithms/decoder.h"
#include "models/acoustic_model.h"

namespace rtfx::microbench {

constexpr int64_t kVocabulary = 1024;
constexpr int64_t kFrameWidth = 1024;      // width of an encoder frame
constexpr int64_t kHidden = 640;           // width of joint and prediction network
constexpr int64_t kUtteranceFrames = 200;  // 16 s
constexpr int64_t kBatches[] = {1, 8, 32, 128};
constexpr int64_t kBeams[] = {4, 8};

/// A device with the dtype of models on it.
struct Place {
  at::Device device;
  at::ScalarType dtype;
  std::string name;  // "cpu/fp32", "cuda/bf16"
};
/// Returns the CPU, and the GPU where there is one.
const std::vector<Place>& places();
/// Returns the GPU, or null where there is none.
const Place* gpu();

/// Registers `function`. Times are wall-clock times. CPU times are summed over all threads.
void add(const std::string& name, const std::function<void(benchmark::State&)>& function,
         benchmark::TimeUnit unit = benchmark::kMicrosecond);

/// Times `work` until the device has finished it. A first call is not counted.
void measure(benchmark::State& state, at::Device device, const std::function<void()>& work);

/// Adds a rate that Google Benchmark prints as `name`: `of_each` per iteration.
void rate(benchmark::State& state, const std::string& name, double of_each);

/// Returns an RNN-T without encoder, of the sizes above and with two LSTM layers. The weights are
/// random. The bias makes blank the best label at 70 % of random_frames(). The outputs at a frame
/// hardly change with the tokens before, so decoders need "max_symbols": 1. There is one model for
/// each place and vocabulary.
std::shared_ptr<const AcousticModel> transducer(const Place& place,
                                                int64_t vocabulary = kVocabulary);

/// Returns inputs for transducer(): [rows, frames, kFrameWidth] in the place's dtype.
at::Tensor random_frames(const Place& place, int64_t rows, int64_t frames);

/// Returns utterances that all have `frames` frames.
EncodedBatch random_utterances(const Place& place, int64_t rows, int64_t frames);

// Each source file has one of these functions.
void add_top_k();
void add_language_model();
void add_transducer();
void add_beam_step();
void add_wfst_frame();
void add_graph_nodes();
void add_greedy();
void add_word_errors();
void add_phrase_tree();
void add_streams();
void add_alignment();
void add_ctc_greedy();

}  // namespace rtfx::microbench
