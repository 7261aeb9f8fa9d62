// The FastConformer / Conformer encoder (Rekesh et al. 2023; Gulati et al. 2020), for inference
// only, and estimates of the memory that it needs.
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

/// The way in which an encoder is computed. `reference` uses LibTorch's operators. `fused` uses
/// kernels that do several steps at once (GPUs, 16-bit floats; fused/fused_encoder.h). `automatic`
/// is fused where that is possible.
enum class EncoderForm { automatic, fused, reference };

const std::vector<std::string>& encoder_form_names();
/// Returns the form of that name. Throws UserError with `where` for another name.
EncoderForm parse_encoder_form(std::string_view text, std::string_view where);

struct EncoderOptions {
  EncoderForm form = EncoderForm::automatic;
  /// Computes six of the eight matrix products of a layer with 8-bit floats, e4m3 (fused only).
  bool eight_bits = false;
};

class EncoderImplementation;
class FusedEncoder;
class PromptKernel;
class ReferenceEncoder;

class Encoder {
 public:
  /// `prompt` configures the layers after the encoder that condition its frames, if there are any.
  /// Throws UserError where `options` ask for something that the device, dtype or model does not
  /// allow.
  Encoder(const EncoderConfig& config, int64_t mel_bins, const StateDict& weights,
          at::Device device, at::ScalarType dtype, const EncoderOptions& options = {},
          const PromptConfig& prompt = {});
  ~Encoder();
  Encoder(Encoder&&) noexcept;

  /// Encodes a batch. Padding is masked at every place where it could leak. A row's frames
  /// therefore do not depend on the rest of its batch, up to the rounding of differently shaped
  /// products. Does not synchronise. If the model takes prompts, the prompt of a row conditions its
  /// frames.
  Encoded operator()(const Features& features) const;

  /// Returns the features, with the prompt of each row where the model takes prompts. Throws what
  /// PromptConfig::or_standard() does.
  Features with_prompts(Features features) const;
  /// Conditions frames [B, T', D] of an implementation on `prompts` ([B] int64 on the device).
  /// Returns them unchanged where the model takes no prompts.
  at::Tensor conditioned(const at::Tensor& frames, const at::Tensor& prompts) const;

  /// Returns the number of rows of the matrices that a batch is computed as. Two batches with the
  /// same shape of features and the same number of rows are the same work for the device.
  /// `host_lengths` are those of Features.
  int64_t rows(int64_t utterances, int64_t feature_frames,
               const std::vector<int64_t>& host_lengths) const;

  bool is_fused() const { return fused_; }
  /// Returns the encoder that uses operators, or null where it is fused.
  const ReferenceEncoder* reference_encoder() const;
  /// Returns the fused encoder, or null where it uses operators.
  const FusedEncoder* fused_encoder() const;

 private:
  bool fused_;
  std::unique_ptr<const EncoderImplementation> implementation_;
  PromptConfig prompt_;
  std::unique_ptr<const PromptKernel> prompt_kernel_;  // null where the model takes no prompts
};

/// Returns the bytes that the encoder's largest intermediate results take at one time. The batch
/// has `rows` rows of `mel_frames` mel frames, in elements of `element_bytes`. The largest results
/// are the first convolution's channels, or the scores of attention. The scores grow with the
/// square of the length unless the context is limited. Weights and everything else are not
/// included. On a CPU, `rtfx transcribe` takes 1.03 to 1.5 times as much, beyond 0.5 GB of its own,
/// for recordings of 8 and 16 minutes.
int64_t encoder_bytes(const EncoderConfig& config, int64_t mel_bins, int64_t rows,
                      int64_t mel_frames, int64_t element_bytes);

/// Returns the bytes of the fused encoder's largest intermediate results. Its attention keeps no
/// scores. The largest results are the channels after the second convolution, or the values between
/// the products of a layer. Elements have two bytes, also where products have 8 bits. This is
/// computed, not measured.
int64_t fused_encoder_bytes(const EncoderConfig& config, int64_t mel_bins, int64_t rows,
                            int64_t mel_frames);

}  // namespace rtfx
