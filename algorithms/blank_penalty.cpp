#include "algorithms/blank_penalty.h"

#include <ATen/ATen.h>

#include <nlohmann/json.hpp>

namespace rtfx {

double blank_penalty_of(const nlohmann::json& options) {
  if (!options.is_object()) return 0;
  const nlohmann::json value = options.value("blank_penalty", nlohmann::json());
  return value.is_number() ? value.get<double>() : 0;
}

double blank_penalty_of(const Decoder& decoder) {
  return decoder.is_foreign() ? 0 : blank_penalty_of(decoder.options());
}

at::Tensor with_blank_penalty(const at::Tensor& bias, int64_t first_blank, int64_t blanks_end,
                              double penalty) {
  if (penalty == 0) return bias;
  at::Tensor penalised = bias.clone();
  at::Tensor blanks = penalised.narrow(0, first_blank, blanks_end - first_blank);
  blanks.copy_(blanks.to(at::kDouble) - penalty);
  return penalised;
}

std::shared_ptr<const AcousticModel> with_blank_penalty(std::shared_ptr<const AcousticModel> model,
                                                        double penalty) {
  if (penalty == 0) return model;
  auto penalised = std::make_shared<AcousticModel>();
  penalised->config = model->config;
  penalised->tokenizer = model->tokenizer;
  penalised->device = model->device;
  penalised->dtype = model->dtype;
  penalised->encoder_dtype = model->encoder_dtype;
  penalised->prediction = model->prediction;
  const int64_t first_blank = model->config.vocabulary;
  if (const auto& ctc = model->ctc_head) {
    penalised->ctc_head.emplace(
        ctc->weight(), with_blank_penalty(ctc->bias(), first_blank, ctc->bias().size(0), penalty));
  }
  if (const auto& joint = model->joint) {
    penalised->joint = joint->with_output_bias(
        with_blank_penalty(joint->output().bias, first_blank, model->config.labels(), penalty));
  }
  return penalised;
}

}  // namespace rtfx
