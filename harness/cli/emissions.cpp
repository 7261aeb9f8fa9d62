#include "harness/cli/emissions.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "algorithms/shared/wfst/wfst_batch.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/printable.h"
#include "harness/results/journal.h"
#include "harness/run/encoded_batches.h"
#include "harness/run/loaded_inputs.h"
#include "speech/pipeline/pipeline.h"
#include "speech/runtime/device.h"

namespace rtfx {

namespace {

using nlohmann::json;

/// Returns the head of a file in NumPy's format 1.0. It has a multiple of 64 bytes, and the numbers
/// follow.
std::string npy_head(int64_t rows, int64_t columns) {
  constexpr size_t kFixed = 10, kStep = 64;
  std::string about =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, columns);
  about.append(kStep - 1 - (kFixed + about.size()) % kStep, ' ');
  about += '\n';
  std::string head("\x93NUMPY\x01\x00", 8);
  head += static_cast<char>(about.size() & 0xff);
  head += static_cast<char>(about.size() >> 8);
  return head + about;
}

std::string bytes_of(const at::Tensor& values) {
  const at::Tensor host = values.cpu().contiguous();
  return {static_cast<const char*>(host.const_data_ptr()), static_cast<size_t>(host.nbytes())};
}

}  // namespace

int write_emissions(const Config& config, const std::filesystem::path& folder) {
  require_sizes(config, "rtfx emissions");
  const DeviceScope scope(config.threads, config.device, "device");
  const at::Device device = scope.device();
  LoadedInputs inputs(config);
  inputs.read_audio_files();
  inputs.print_notices();
  const LoadedDataset& dataset = inputs.datasets().front();
  if (dataset.failure) throw std::runtime_error(*dataset.failure);
  const auto model = inputs.model(0, device, config.dtypes.front());
  if (!model->ctc_head) {
    throw UserError(config.models.front().path.string(), "has no CTC head",
                    "name a CTC or hybrid model first");
  }
  std::vector<at::Tensor> emissions(dataset.seconds.size());
  for_each_encoded_batch(
      inputs, first_group(config), device,
      [&](const std::vector<size_t>& batch, const EncodedBatch& encoded) {
        const at::Tensor lp = scaled_log_probs(*model, encoded.frames, 1);
        for (size_t row = 0; row < batch.size(); ++row)
          emissions[batch[row]] =
              lp[static_cast<int64_t>(row)].narrow(0, 0, encoded.lengths_host[row]).cpu();
      });

  int64_t frames = 0;
  std::string lines, numbers;
  for (size_t i = 0; i < emissions.size(); ++i) {
    const Utterance& utterance = dataset.dataset.utterances[i];
    lines += to_line({{"id", utterance.id},
                      {"frames", emissions[i].size(0)},
                      {"seconds", dataset.seconds[i]},
                      {"text", utterance.text ? json(*utterance.text) : json()}});
    numbers += bytes_of(emissions[i]);
    frames += emissions[i].size(0);
  }
  for (const char* name : {"emissions.npy", "utterances.jsonl"}) set_aside(folder / name);
  write_file(folder / "emissions.npy",
             npy_head(frames, model->config.vocabulary + 1) + std::move(numbers));
  write_file(folder / "utterances.jsonl", lines);
  fmt::print("{}: {}, {:.1f} s, {} frames of {} columns\n", printable(folder.string()),
             counted(static_cast<int64_t>(emissions.size()), "utterance"), dataset.audio_seconds,
             frames, model->config.vocabulary + 1);
  return kOk;
}

}  // namespace rtfx
