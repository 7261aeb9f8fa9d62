#include "models/settings/foreign_models.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

namespace rtfx {
namespace {

constexpr const char* kNotSupported =
    "rtfx decodes CTC, RNN-T and TDT models with a Conformer or FastConformer encoder";

struct Kind {
  const char* sign;  // part of a class name, or how a tensor's name begins
  const char* name;
};

constexpr Kind kClasses[] = {
    {"MultiTask", "an attention encoder-decoder"},
    {"EncDecTransf", "an attention encoder-decoder"},
    {"MultiTalker", "a multi-talker model, which wants each speaker's activity too"},
    {"WithPrompt", "a prompt-conditioned model, which wants a language or task besides the audio"},
    {"SelfSupervised", "a self-supervised encoder without a decoder"},
    {"MaskedTokenPred", "a self-supervised encoder without a decoder"},
    {"SpeakerLabel", "a speaker recognition model"},
    {"Sortformer", "a diarization model"},
    {"Classification", "a classification model"},
    {"RegressionModel", "a regression model"},
    {"SLU", "a spoken language understanding model"},
};

constexpr Kind kTensors[] = {
    {"transf_decoder.", "an attention encoder-decoder"},
    {"prompt_kernel.",
     "a prompt-conditioned model, which wants a language or task besides the audio"},
    {"spk_kernels.", "a multi-talker model, which wants each speaker's activity too"},
    {"joint.blank_pred.", "a hybrid autoregressive transducer (HAT)"},
    {"decoder_ssl.", "a self-supervised encoder without a decoder"},
};

std::string last_name(const std::string& path) { return path.substr(path.rfind('.') + 1); }

[[noreturn]] void refuse(const ConfigSource& source, const std::string& sign,
                         const std::string& name) {
  source.refuse(fmt::format("{}: this is {}", sign, name), kNotSupported);
}

void check_class(const ConfigSource& source) {
  const std::string target = source.yaml.text("target").value_or("");
  for (const Kind& kind : kClasses) {
    if (target.find(kind.sign) != std::string::npos)
      refuse(source, "unsupported model class " + target, kind.name);
  }
  for (const Kind& kind : kTensors) {
    if (source.has_prefix(kind.sign))
      refuse(source, fmt::format("tensors {}*", kind.sign), kind.name);
  }
  if (source.yaml.has("transf_decoder"))
    refuse(source, "transf_decoder in the YAML", "an attention encoder-decoder");
}

void check_parts(const ConfigSource& source) {
  const auto encoder = source.yaml.text("encoder._target_");
  const std::string name = encoder ? last_name(*encoder) : "ConformerEncoder";
  if (name != "ConformerEncoder" && name != "ConformerEncoderAdapter")
    source.refuse(fmt::format("unsupported encoder {}", name), kNotSupported);
  const auto features = source.yaml.text("preprocessor._target_");
  if (features && last_name(*features) != "AudioToMelSpectrogramPreprocessor") {
    source.refuse(fmt::format("unsupported preprocessor {}", last_name(*features)),
                  "rtfx computes the features of AudioToMelSpectrogramPreprocessor");
  }
  const std::string joint = source.yaml.text("joint._target_").value_or("");
  if (joint.find("HATJoint") != std::string::npos)
    refuse(source, "joint " + last_name(joint), "a hybrid autoregressive transducer (HAT)");
  if (!joint.empty() && last_name(joint) != "RNNTJoint" && last_name(joint) != "SampledRNNTJoint")
    source.refuse(fmt::format("unsupported joint {}", last_name(joint)), kNotSupported);
}

/// Multi-blank transducers (Xu et al. 2022): blanks that skip several frames, between the tokens
/// and the blank.
void check_blanks(const ConfigSource& source) {
  const auto any = [&](const char* path) {
    const auto list = source.yaml.integers(path);
    return list && !list->empty();
  };
  const bool tdt = any("decoding.durations") || any("model_defaults.tdt_durations");
  const int64_t extra = source.yaml.integer("joint.num_extra_outputs").value_or(0);
  if (source.yaml.text("decoding.model_type").value_or("") == "multiblank" ||
      any("decoding.big_blank_durations") || (extra > 0 && !tdt))
    refuse(source, "big blanks beside the blank", "a multi-blank transducer");
}

void check_tensors(const ConfigSource& source) {
  for (const auto& [name, tensor] : source.weights) {
    const bool counter = name.ends_with("num_batches_tracked");
    if (tensor.is_quantized() || name.find("_quantizer") != std::string::npos ||
        name.find("_packed_params") != std::string::npos ||
        (tensor.dim() > 0 && !counter && !tensor.is_floating_point() &&
         name.ends_with(".weight"))) {
      refuse(source, fmt::format("tensor '{}' of type {}", name, toString(tensor.scalar_type())),
             "a quantised export");
    }
    if (name.find(".adapter_layer.") != std::string::npos)
      refuse(source, fmt::format("tensor '{}'", name), "a model with adapter modules");
  }
}

}  // namespace

void refuse_foreign_models(const ConfigSource& source) {
  check_class(source);
  check_parts(source);
  check_blanks(source);
  check_tensors(source);
  if (source.has("ctc.weight") || source.has("joint.joint_net.weight")) return;
  source.refuse("neither a CTC head nor a joint network among the tensors", kNotSupported);
}

}  // namespace rtfx
