#include "models/architectures.h"

#include "base/error.h"

namespace rtfx {

namespace {

EncoderConfig fast_conformer(int64_t layers, int64_t width) {
  EncoderConfig e;
  e.layers = layers;
  e.width = width;
  e.heads = 8;
  e.conv_kernel = 9;
  return e;
}

Architecture conformer(const std::string& name, int64_t layers, int64_t width, int64_t heads) {
  Architecture a{name, 80, fast_conformer(layers, width)};
  a.encoder.heads = heads;
  a.encoder.conv_kernel = 31;
  a.encoder.subsampling_factor = 4;
  a.encoder.subsampling_channels = width;
  a.encoder.depthwise_subsampling = false;
  return a;
}

std::vector<Architecture> make_architectures() {
  Architecture v2{"parakeet-0.6b-v2", 128, fast_conformer(24, 1024)};
  v2.encoder.use_bias = false;
  v2.encoder.x_scaling = false;
  Architecture tiny{"tiny", 80, fast_conformer(2, 32)};
  tiny.encoder.subsampling_channels = 16;
  return {{"parakeet-1.1b", 80, fast_conformer(42, 1024)},
          {"parakeet-0.6b", 80, fast_conformer(24, 1024)},
          v2,
          {"fastconformer-large", 80, fast_conformer(17, 512)},
          conformer("conformer-small", 16, 176, 4),
          conformer("conformer-medium", 18, 256, 4),
          conformer("conformer-large", 17, 512, 8),
          conformer("conformer-ctc-large", 18, 512, 8),
          tiny};
}

const std::vector<Architecture>& architectures() {
  static const std::vector<Architecture> all = make_architectures();
  return all;
}

}  // namespace

std::vector<std::string> architecture_names() {
  std::vector<std::string> names;
  for (const Architecture& a : architectures()) names.push_back(a.name);
  return names;
}

const Architecture& find_architecture(std::string_view name, std::string_view where) {
  for (const Architecture& a : architectures()) {
    if (a.name == name) return a;
  }
  throw unknown_name(where, "encoder", name, architecture_names());
}

StateDict random_encoder(const ModelConfig& config) {
  ModelConfig headless = config;
  headless.has_ctc = headless.has_transducer = false;
  return random_state_dict(headless, /*seed=*/1);
}

}  // namespace rtfx
