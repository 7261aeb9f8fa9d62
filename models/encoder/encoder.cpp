#include "models/encoder/encoder.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>

#include <algorithm>

#include "base/error.h"
#include "models/encoder/fp8_support.h"
#include "models/encoder/fused/fused_encoder.h"
#include "models/encoder/prompt_kernel.h"
#include "models/encoder/reference_encoder.h"

namespace rtfx {

namespace {

/// Returns why the encoder cannot be fused. The text is empty if it can.
std::string why_not_fused(const EncoderConfig& config, at::Device device, at::ScalarType dtype) {
  if (!device.is_cuda()) return "runs on a GPU only";
  if (dtype != at::kBFloat16 && dtype != at::kHalf) return "computes in bf16 or fp16 only";
  const std::string missing = FusedEncoder::missing(config);
  return missing.empty() ? missing : "knows no " + missing;
}

bool decide_fused(const EncoderConfig& config, at::Device device, at::ScalarType dtype,
                  const EncoderOptions& options) {
  if (options.form == EncoderForm::reference) {
    if (options.eight_bits)
      throw UserError("dtype fp8", "the reference encoder knows none", "use encoder: fused");
    return false;
  }
  const std::string reason = why_not_fused(config, device, dtype);
  if (reason.empty() && options.eight_bits &&
      !multiplies_fp8(at::cuda::getDeviceProperties(device.index())->major))
    throw UserError("dtype fp8", "needs a GPU of compute capability 9.0 (Hopper)", "use bf16");
  if (reason.empty()) return true;
  if (options.eight_bits)
    throw UserError("dtype fp8", "needs the fused encoder, which " + reason, "use bf16");
  if (options.form == EncoderForm::fused)
    throw UserError("encoder", "the fused encoder " + reason, "use encoder: automatic");
  return false;
}

std::unique_ptr<const EncoderImplementation> make_implementation(const EncoderConfig& config,
                                                                 int64_t mel_bins,
                                                                 const WeightReader& reader,
                                                                 bool fused, bool eight_bits) {
  if (fused) return std::make_unique<FusedEncoder>(config, mel_bins, reader, eight_bits);
  return std::make_unique<ReferenceEncoder>(config, mel_bins, reader);
}

}  // namespace

const std::vector<std::string>& encoder_form_names() {
  static const std::vector<std::string> names = {"automatic", "fused", "reference"};
  return names;
}

EncoderForm parse_encoder_form(std::string_view text, std::string_view where) {
  const auto& names = encoder_form_names();
  const auto found = std::ranges::find(names, text);
  if (found == names.end()) throw unknown_name(where, "encoder", text, names);
  return static_cast<EncoderForm>(found - names.begin());
}

Encoder::Encoder(const EncoderConfig& config, int64_t mel_bins, const StateDict& weights,
                 at::Device device, at::ScalarType dtype, const EncoderOptions& options,
                 const PromptConfig& prompt)
    : fused_(decide_fused(config, device, dtype, options)),
      implementation_(make_implementation(config, mel_bins,
                                          WeightReader(weights, "encoder.", device, dtype), fused_,
                                          options.eight_bits)),
      prompt_(prompt) {
  if (prompt.count > 0) {
    prompt_kernel_ = std::make_unique<const PromptKernel>(
        prompt, WeightReader(weights, "prompt_kernel.", device, dtype));
  }
}

Encoder::~Encoder() = default;
Encoder::Encoder(Encoder&&) noexcept = default;

Encoded Encoder::operator()(const Features& features) const {
  Encoded encoded = (*implementation_)(features);
  if (prompt_kernel_ != nullptr)
    encoded.frames = conditioned(encoded.frames, with_prompts(features).prompts);
  return encoded;
}

Features Encoder::with_prompts(Features features) const {
  if (prompt_kernel_ != nullptr && !features.prompts.defined())
    features.prompts = at::full_like(features.lengths, prompt_.or_standard(std::nullopt));
  return features;
}

at::Tensor Encoder::conditioned(const at::Tensor& frames, const at::Tensor& prompts) const {
  return prompt_kernel_ == nullptr ? frames : (*prompt_kernel_)(frames, prompts);
}

const ReferenceEncoder* Encoder::reference_encoder() const {
  return dynamic_cast<const ReferenceEncoder*>(implementation_.get());
}

const FusedEncoder* Encoder::fused_encoder() const {
  return dynamic_cast<const FusedEncoder*>(implementation_.get());
}

int64_t Encoder::rows(int64_t utterances, int64_t feature_frames,
                      const std::vector<int64_t>& host_lengths) const {
  return implementation_->rows(utterances, feature_frames, host_lengths);
}

int64_t encoder_bytes(const EncoderConfig& config, int64_t mel_bins, int64_t rows,
                      int64_t mel_frames, int64_t element_bytes) {
  // Input and output of the activation after the first convolution, which halves both axes.
  const int64_t channels =
      config.front_end == EncoderConfig::FrontEnd::convolution && config.subsampling_factor > 1
          ? config.subsampling_channels
          : 0;
  const int64_t convolution = 2 * channels * config.halved(mel_frames) * config.halved(mel_bins);

  // With an unlimited context, there are products with 2 T' - 1 positions. From them, the scores of
  // T' keys are made.
  const int64_t frames = config.subsampled(mel_frames);
  const bool limited = config.left_context >= 0 && config.right_context >= 0;
  const int64_t attention = limited ? 0 : config.heads * frames * 3 * frames;
  return rows * element_bytes * std::max(convolution, attention);
}

int64_t fused_encoder_bytes(const EncoderConfig& config, int64_t mel_bins, int64_t rows,
                            int64_t mel_frames) {
  const bool strided = config.front_end == EncoderConfig::FrontEnd::convolution &&
                       config.depthwise_subsampling && config.subsampling_factor > 2;
  const int64_t convolution = strided ? 2 * config.subsampling_channels *
                                            config.halved(config.halved(mel_frames)) *
                                            config.halved(config.halved(mel_bins))
                                      : 0;
  // The frames, their norm, the wide result of a product, and the output of attention or
  // convolution.
  const int64_t layer = config.subsampled(mel_frames) * config.width *
                        (3 + std::max<int64_t>(3, config.feed_forward_expansion));
  return rows * 2 * std::max(convolution, layer);
}

}  // namespace rtfx
