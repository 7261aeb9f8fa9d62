// rtfx_dump_tensors MODEL.nemo OUT.pt FILE...
// The program decodes each file alone, in fp32 on the CPU. It writes features, encoder output and
// CTC log-probabilities as a pickled dict that torch.load reads, for comparison with reference
// tensors. Each file stem has mel [M, T], enc [T', D] and ctc_logprobs [T', V+1].
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <torch/serialize.h>

#include <filesystem>
#include <fstream>
#include <iostream>

#include "datasets/audio.h"
#include "models/acoustic_model.h"
#include "models/load_checkpoint.h"

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: rtfx_dump_tensors MODEL.nemo OUT.pt FILE...\n";
    return 2;
  }
  const c10::InferenceMode inference;
  const auto model =
      rtfx::AcousticModel::build(rtfx::load_checkpoint(argv[1]), at::kCPU, at::kFloat);
  c10::Dict<std::string, c10::Dict<std::string, at::Tensor>> result;
  for (int i = 3; i < argc; ++i) {
    rtfx::Audio audio = rtfx::read_audio(argv[i]);
    const auto samples = static_cast<int64_t>(audio.samples.size());
    const at::Tensor wave = at::from_blob(audio.samples.data(), {1, samples}, at::kFloat);
    const rtfx::Features features = (*model->features)(wave, at::tensor({samples}, at::kLong));
    const rtfx::Encoded encoded = (*model->encoder)(features);
    c10::Dict<std::string, at::Tensor> tensors;
    tensors.insert("mel",
                   features.values[0].narrow(1, 0, features.lengths.item<int64_t>()).contiguous());
    const at::Tensor frames = encoded.frames[0].narrow(0, 0, encoded.lengths.item<int64_t>());
    tensors.insert("enc", frames.contiguous());
    if (model->ctc_head) {
      tensors.insert("ctc_logprobs", model->ctc_head->logits(frames).log_softmax(-1).contiguous());
    }
    result.insert(std::filesystem::path(argv[i]).stem().string(), tensors);
  }
  const std::vector<char> bytes = torch::pickle_save(result);
  std::ofstream(argv[2], std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return 0;
}
