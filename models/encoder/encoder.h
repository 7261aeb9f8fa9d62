// The FastConformer / Conformer encoder (Rekesh et al. 2023; Gulati et al. 2020), inference only,
// and the memory that it needs.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/config.h"
#include "models/encoder/encoder_interface.h"

namespace rtfx {

/// How an encoder is computed: by LibTorch's operators, or by kernels that do several of their
/// steps at once (GPUs, 16-bit floats; fused/fused_encoder.h). `automatic`: fused where that is
/// possible.
enum class EncoderForm { automatic, fused, reference };

const std::vector<std::string>& encoder_form_names();
/// Throws UserError with `where` for another name.
EncoderForm parse_encoder_form(std::string_view text, std::string_view where);

struct EncoderOptions {
  EncoderForm form = EncoderForm::automatic;
  /// Most products of matrices as 8-bit floats, e4m3 (fused only).
  bool eight_bits = false;
};

class EncoderImplementation;
class FusedEncoder;
class PromptKernel;
class ReferenceEncoder;

class Encoder {
 public:
  /// `prompt`: of the layers behind the encoder that condition its frames, if there are any.
  /// Throws UserError where `options` ask for what the device, dtype or model does not allow.
  Encoder(const EncoderConfig& config, int64_t mel_bins, const StateDict& weights,
          at::Device device, at::ScalarType dtype, const EncoderOptions& options = {},
          const PromptConfig& prompt = {});
  ~Encoder();
  Encoder(Encoder&&) noexcept;

  /// Masked by length at every place where padding could leak, so that a row's frames do not depend
  /// on its batch mates (up to the rounding of differently shaped products). Does not synchronise.
  /// Frames of a model with prompts are conditioned on those of their rows.
  Encoded operator()(const Features& features) const;

  /// The features with the prompts of their rows, where the model takes prompts. Throws what
  /// PromptConfig::or_standard() does.
  Features with_prompts(Features features) const;
  /// frames [B, T', D] of an implementation, conditioned on `prompts` ([B] int64 on the device);
  /// as they are where the model takes no prompts.
  at::Tensor conditioned(const at::Tensor& frames, const at::Tensor& prompts) const;

  /// Rows of the matrices that a batch is computed as. Batches of the same features' shape and as
  /// many rows are the same work for the device. `host_lengths`: as in Features.
  int64_t rows(int64_t utterances, int64_t feature_frames,
               const std::vector<int64_t>& host_lengths) const;

  bool fused() const { return fused_; }
  /// The encoder by operators; null where it is fused.
  const ReferenceEncoder* by_operators() const;
  /// The fused encoder; null where it is by operators.
  const FusedEncoder* fused_encoder() const;

 private:
  bool fused_;
  std::unique_ptr<const EncoderImplementation> implementation_;
  PromptConfig prompt_;
  std::unique_ptr<const PromptKernel> prompt_kernel_;  // null where the model takes no prompts
};

/// Bytes that the encoder's largest intermediate results take at one time, for a batch of `rows`
/// rows of `mel_frames` mel frames, in elements of `element_bytes`. These are the first
/// convolution's channels, or the scores of attention, which grow with the square of the length
/// unless its context is limited. Weights and all else come on top. On a CPU, `rtfx transcribe`
/// takes 1.03 to 1.5 times as much, beyond 0.5 GB of its own, for recordings of 8 and 16 minutes.
int64_t encoder_bytes(const EncoderConfig& config, int64_t mel_bins, int64_t rows,
                      int64_t mel_frames, int64_t element_bytes);

/// Bytes of the fused encoder's largest intermediate results. Its attention keeps no scores, so
/// these are the channels behind the second convolution, or the values between the products of a
/// layer. Elements have two bytes, also where products have 8 bits. This is computed, not measured.
int64_t fused_encoder_bytes(const EncoderConfig& config, int64_t mel_bins, int64_t rows,
                            int64_t mel_frames);

}  // namespace rtfx
