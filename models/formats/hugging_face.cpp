#include "models/formats/hugging_face.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "models/checkpoint/config.h"
#include "models/formats/safetensors.h"
#include "models/tokenizers/tokenizer_json.h"

namespace rtfx {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMost = 1 << 20;  // limit of any size in a configuration
/// The number of tokens per frame for which results have room. transformers lets a TDT model emit
/// any number of tokens at a frame, whatever max_symbols_per_step says.
constexpr int64_t kTdtSymbols = 100;

int64_t integer(const JsonView& view, const char* key, int64_t otherwise, int64_t low = 1) {
  const auto found = view.find(key);
  return found ? found->integer(low, kMost) : otherwise;
}

bool boolean(const JsonView& view, const char* key, bool otherwise) {
  const auto found = view.find(key);
  return found ? found->boolean() : otherwise;
}

std::string text(const JsonView& view, const char* key, const char* otherwise) {
  const auto found = view.find(key);
  return found ? found->text() : otherwise;
}

/// Refuses every value except the one that transformers' own classes support.
void require(const JsonView& view, const char* key, int64_t only) {
  if (const int64_t value = integer(view, key, only, 0); value != only) {
    throw UserError(fmt::format("{}/{}", view.where(), key),
                    fmt::format("unsupported setting: {}", value),
                    fmt::format("rtfx supports {}", only));
  }
}

enum class Family { parakeet, nemotron_streaming };

struct Kind {
  const char *model_type, *name;
  Family family;
  bool transducer, tdt;
  bool prompts = false;
};
constexpr Kind kKinds[] = {
    {"parakeet_ctc", "ParakeetForCTC", Family::parakeet, false, false},
    {"parakeet_rnnt", "ParakeetForRNNT", Family::parakeet, true, false},
    {"parakeet_tdt", "ParakeetForTDT", Family::parakeet, true, true},
    {"nemotron_asr_streaming", "NemotronAsrStreamingForRNNT", Family::nemotron_streaming, true,
     false},
    {"nemotron3_5_asr", "Nemotron3_5AsrForRNNT", Family::nemotron_streaming, true, false, true},
};

const Kind& kind_of(const JsonView& config) {
  const std::string type = text(config, "model_type", "");
  for (const Kind& kind : kKinds)
    if (type == kind.model_type) return kind;
  std::string known;
  for (const Kind& kind : kKinds) known += (known.empty() ? "" : ", ") + std::string(kind.name);
  throw UserError(config.where() + "/model_type", fmt::format("unsupported model '{}'", type),
                  "rtfx reads " + known);
}

EncoderConfig read_encoder(const JsonView& view, const Kind& kind) {
  EncoderConfig e;
  e.layers = integer(view, "num_hidden_layers", 24);
  e.width = integer(view, "hidden_size", 1024);
  e.heads = integer(view, "num_attention_heads", 8);
  e.conv_kernel = integer(view, "conv_kernel_size", 9);
  e.subsampling_factor = integer(view, "subsampling_factor", 8);
  e.subsampling_channels = integer(view, "subsampling_conv_channels", 256);
  require(view, "subsampling_conv_kernel_size", 3);
  require(view, "subsampling_conv_stride", 2);
  e.x_scaling = boolean(view, "scale_input", true);
  e.use_bias = boolean(view, "attention_bias", true);
  const int64_t inner = integer(view, "intermediate_size", 4096);
  const bool whole = e.width % e.heads == 0 && inner % e.width == 0 && e.conv_kernel % 2 == 1;
  const bool power = (e.subsampling_factor & (e.subsampling_factor - 1)) == 0;
  if (!whole || !power || boolean(view, "convolution_bias", true) != e.use_bias ||
      text(view, "hidden_act", "silu") != "silu") {
    throw UserError(
        view.where(), "unsupported sizes or settings",
        "rtfx supports hidden_size a multiple of num_attention_heads and a divisor of "
        "intermediate_size, an odd kernel, a subsampling_factor that is a power of two, "
        "attention_bias equal to convolution_bias, hidden_act silu");
  }
  e.feed_forward_expansion = inner / e.width;
  if (kind.family == Family::nemotron_streaming) {
    e.causal_downsampling = true;
    e.conv_right_context = 0;
    e.conv_norm = EncoderConfig::ConvolutionNorm::layer;
    e.context_style = EncoderConfig::ContextStyle::chunked;
    e.context = {integer(view, "sliding_window", 71) - 1,
                 integer(view, "default_num_lookahead_tokens", 13, 0)};
  }
  return e;
}

/// Reads the lookaheads that the model was trained for, and the default among them, from the
/// processor.
void read_lookaheads(const JsonView& processor, EncoderConfig& e) {
  e.context[1] = integer(processor, "default_num_lookahead_tokens", e.context[1], 0);
  e.contexts = {e.context};
  const auto supported = processor.find("supported_num_lookahead_tokens");
  if (!supported) return;
  for (const JsonView& tokens : supported->elements()) {
    const std::vector<int64_t> context = {e.context[0], tokens.integer(0, kMost)};
    if (context != e.context) e.contexts.push_back(context);
  }
}

/// Reads the names of prompts from the processor.
void read_languages(const JsonView& processor, PromptConfig& prompt) {
  const auto dictionary = processor.find("prompt_dictionary");
  if (!dictionary) return;
  if (!dictionary->value().is_object()) dictionary->fail("an object of languages and prompts");
  for (const auto& [language, id] : dictionary->value().items())
    prompt.languages[language] = dictionary->at(language).integer(0, prompt.count - 1);
}

/// Reads the features, and from the same file the contexts of the encoder and the languages.
FeatureConfig read_processor(const fs::path& folder, const Kind& kind, int64_t mel_bins,
                             ModelConfig& model, std::vector<fs::path>& files,
                             std::vector<std::string>& notices) {
  EncoderConfig& encoder = model.encoder;
  FeatureConfig f;
  f.mel_bins = mel_bins;
  encoder.contexts = {encoder.context};
  if (kind.family == Family::nemotron_streaming)
    f.normalization = FeatureConfig::Normalization::none;
  for (const char* name : {"processor_config.json", "preprocessor_config.json"}) {
    if (!fs::exists(folder / name)) continue;
    files.push_back(folder / name);
    const nlohmann::json document = read_json_file(folder / name);
    const JsonView root(document, (folder / name).string() + "#");
    const JsonView view = root.find("feature_extractor").value_or(root);
    if (kind.family == Family::nemotron_streaming) read_lookaheads(root, encoder);
    if (kind.prompts) read_languages(root, model.prompt);
    require(view, "sampling_rate", f.sample_rate);
    require(view, "feature_size", mel_bins);
    f.n_fft = integer(view, "n_fft", f.n_fft, 2);
    f.window = integer(view, "win_length", f.window);
    f.hop = integer(view, "hop_length", f.hop);
    if (const auto v = view.find("preemphasis"))
      f.preemphasis = v->number(0, 1);
    else if (view.value().contains("preemphasis"))
      f.preemphasis = 0;  // null means none, as in transformers
    if (text(view, "mel_filters_dtype", "float32") != "float32" || f.window > f.n_fft) {
      throw UserError(view.where(), "unsupported settings",
                      "rtfx supports mel_filters_dtype float32 and win_length up to n_fft");
    }
    return f;
  }
  notices.emplace_back("no processor_config.json: the features are taken to be Parakeet's");
  return f;
}

void read_head(const JsonView& config, const Kind& kind, ModelConfig& model) {
  model.has_transducer = kind.transducer;
  model.has_ctc = !kind.transducer;
  const char* const blank = kind.transducer ? "blank_token_id" : "pad_token_id";
  const int64_t outputs = integer(config, "vocab_size", 1025, 2);
  model.vocabulary = integer(config, blank, outputs - 1, 0);
  if (model.vocabulary != outputs - 1) {
    throw UserError(fmt::format("{}/{}", config.where(), blank), "blank is not the last token",
                    fmt::format("rtfx supports {} for a vocab_size of {}", outputs - 1, outputs));
  }
  if (!kind.transducer) return;
  model.prediction.width = integer(config, "decoder_hidden_size", 640);
  model.prediction.layers = integer(config, "num_decoder_layers", 2);
  model.joint_width = model.prediction.width;
  model.joint_activation = text(config, "hidden_act", "relu");
  model.max_symbols = std::min(integer(config, "max_symbols_per_step", 10), kMostSymbols);
  if (!kind.tdt) return;
  model.max_symbols = kTdtSymbols;
  model.durations = {0, 1, 2, 3, 4};
  if (const auto list = config.find("durations")) {
    model.durations.clear();
    for (const JsonView& duration : list->elements())
      model.durations.push_back(duration.integer(0, kMost));
  }
}

void replace(std::string& name, std::string_view from, std::string_view to) {
  if (const size_t at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
}

/// Removes `prefix`, the number after it and the dot from `name`. Returns the number, or -1 where
/// there is none.
int64_t cut_number(std::string& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return -1;
  const size_t dot = name.find('.', prefix.size());
  const std::string digits = name.substr(prefix.size(), dot - prefix.size());
  if (dot == std::string::npos || digits.empty() || digits.size() > 3 ||
      digits.find_first_not_of("0123456789") != std::string::npos)
    return -1;
  name.erase(0, dot + 1);
  return std::stoll(digits);
}

/// Converts transformers' name of a tensor to the canonical one (models/checkpoint/checkpoint.h).
std::string canonical_name(std::string name) {
  static const std::vector<std::pair<std::string, std::string>> kParts = {
      {"encoder.subsampling.linear.", "encoder.pre_encode.out."},
      {"encoder.subsampling.conv_in.", "encoder.pre_encode.conv.0."},
      {".self_attn.q_proj.", ".self_attn.linear_q."},
      {".self_attn.k_proj.", ".self_attn.linear_k."},
      {".self_attn.v_proj.", ".self_attn.linear_v."},
      {".self_attn.o_proj.", ".self_attn.linear_out."},
      {".self_attn.relative_k_proj.", ".self_attn.linear_pos."},
      {".self_attn.bias_", ".self_attn.pos_bias_"},
      {".conv.norm.", ".conv.batch_norm."},
      {"ctc_head.", "ctc."},
      {"decoder.embedding.", "decoder.prediction.embed."},
      {"decoder.lstm.", "decoder.prediction.dec_rnn.lstm."},
      {"decoder.decoder_projector.", "joint.pred."},
      {"encoder_projector.", "joint.enc."},
      {"joint.head.", "joint.joint_net."},
      {"prompt_projector.linear_1.", "prompt_kernel.0."},
      {"prompt_projector.linear_2.", "prompt_kernel.2."},
  };
  for (const auto& [from, to] : kParts) replace(name, from, to);
  if (const int64_t layer = cut_number(name, "encoder.subsampling.layers."); layer >= 0) {
    // Nemotron's layers are pairs of convolutions. The first pair follows the convolution conv_in.
    int64_t index = layer;
    if (name.starts_with("depthwise_conv.")) index = 3 * layer + 2;
    if (name.starts_with("pointwise_conv.")) index = 3 * layer + 3;
    name = fmt::format("encoder.pre_encode.conv.{}.{}", index, name.substr(name.rfind('.') + 1));
  }
  return name;
}

}  // namespace

Checkpoint read_hugging_face(const fs::path& folder) {
  if (!fs::exists(folder / "config.json")) {
    throw UserError(folder.string(), "no config.json in this folder",
                    "give a .nemo file, or a folder as transformers' save_pretrained() writes it");
  }
  const nlohmann::json document = read_json_file(folder / "config.json");
  const JsonView config(document, (folder / "config.json").string() + "#");
  const Kind& kind = kind_of(config);
  const JsonView encoder = config.at("encoder_config");

  Checkpoint checkpoint;
  checkpoint.format = fmt::format("Hugging Face {}", kind.name);
  checkpoint.files = {folder / "config.json"};
  ModelConfig& model = checkpoint.config;
  model.target = kind.name;
  model.encoder = read_encoder(encoder, kind);
  read_head(config, kind, model);
  if (kind.prompts) {
    model.prompt = {.count = integer(config, "num_prompts", 128),
                    .width = integer(config, "prompt_intermediate_size", 2048),
                    .standard = integer(config, "default_prompt_id", 101, 0),
                    .languages = {}};
    if (model.prompt.standard >= model.prompt.count)
      throw UserError(config.where() + "/default_prompt_id", "there is no such prompt",
                      fmt::format("0 to {} are possible", model.prompt.count - 1));
  }
  model.features = read_processor(folder, kind, integer(encoder, "num_mel_bins", 80), model,
                                  checkpoint.files, checkpoint.notices);
  if (kind.prompts && model.prompt.languages.empty())
    checkpoint.notices.emplace_back("no prompt_dictionary: the model's languages have no names");
  select_context(model, model.encoder.contexts.front(), encoder.where());

  StateDict weights;
  for (auto& [name, tensor] : read_safetensors_folder(folder, checkpoint.files))
    weights[canonical_name(name)] = tensor;
  checkpoint.weights =
      canonical_state_dict(std::move(weights), model, folder.string(), &checkpoint.ignored);

  const fs::path tokenizer = folder / "tokenizer.json";
  checkpoint.files.push_back(tokenizer);
  const auto file = MappedFile::open(tokenizer);
  std::string config_bytes;
  if (const fs::path settings = folder / "tokenizer_config.json"; fs::exists(settings)) {
    checkpoint.files.push_back(settings);
    config_bytes = MappedFile::open(settings)->bytes();
  }
  checkpoint.tokenizer = tokenizer_json(std::string(file->bytes()), model.vocabulary,
                                        tokenizer.string(), config_bytes);
  if (checkpoint.tokenizer->size() != model.vocabulary) {
    throw UserError(tokenizer.string(),
                    fmt::format("has {} pieces, the model {} tokens", checkpoint.tokenizer->size(),
                                model.vocabulary),
                    "tokenizer and weights do not belong together");
  }
  return checkpoint;
}

}  // namespace rtfx
