#include "models/acoustic_model.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "models/checkpoint/checkpoint.h"

namespace rtfx {
namespace {

/// Returns the type in which an encoder with 8-bit products computes everything else.
at::ScalarType sixteen_bits(at::ScalarType decoder) {
  return decoder == at::kFloat ? at::kBFloat16 : decoder;
}

std::shared_ptr<const AcousticModel> built(const Checkpoint& checkpoint, at::Device device,
                                           const Dtypes& dtypes, EncoderForm form) {
  if (!device.is_cpu() && (dtypes.encoder == at::kDouble || dtypes.decoder == at::kDouble))
    throw UserError("dtype fp64", "is for CPUs only", "give --device cpu, or use fp32");
  at::globalContext().setAllowTF32CuBLAS(false);
  at::globalContext().setAllowTF32CuDNN(false);
  const ModelConfig& config = checkpoint.config;
  const StateDict& weights = checkpoint.weights;
  auto model = std::make_shared<AcousticModel>();
  model->config = config;
  model->tokenizer = checkpoint.tokenizer;
  model->device = device;
  const at::ScalarType dtype = model->dtype = dtypes.decoder;
  model->encoder_dtype = dtypes.encoder;
  model->features.emplace(config.features, weights, device, form != EncoderForm::reference);
  const bool eight_bits = dtypes.encoder == at::kFloat8_e4m3fn;
  model->encoder.emplace(config.encoder, config.features.mel_bins, weights, device,
                         eight_bits ? sixteen_bits(dtype) : dtypes.encoder,
                         EncoderOptions{form, eight_bits}, config.prompt);
  if (config.has_ctc) {
    const WeightReader ctc(weights, "ctc.", device, dtype);
    model->ctc_head.emplace(ctc.get("weight"), ctc.get("bias"));
  }
  if (config.has_transducer) {
    model->prediction.emplace(config.prediction, config.vocabulary, weights, device, dtype);
    model->joint.emplace(weights, config.joint_activation,
                         static_cast<int64_t>(config.durations.size()), device, dtype);
  }
  return model;
}

}  // namespace

std::shared_ptr<const AcousticModel> AcousticModel::build(const Checkpoint& checkpoint,
                                                          at::Device device, const Dtypes& dtypes,
                                                          EncoderForm form) {
  try {
    return built(checkpoint, device, dtypes, form);
  } catch (const NotFinite& error) {
    throw UserError(checkpoint.files.empty() ? "the model" : checkpoint.files.front().string(),
                    error.what(), "the checkpoint is damaged, or its training diverged");
  }
}

std::map<std::string, at::Tensor> head_weights(const AcousticModel& model) {
  std::map<std::string, at::Tensor> weights;
  const auto add = [&](const std::string& name, const at::Tensor& weight, const at::Tensor& bias) {
    weights[name + ".weight"] = weight;
    weights[name + ".bias"] = bias;
  };
  if (model.ctc_head) add("ctc", model.ctc_head->weight(), model.ctc_head->bias());
  if (!model.prediction) return weights;
  add("joint.enc", model.joint->encoder().weight, model.joint->encoder().bias);
  add("joint.pred", model.joint->prediction().weight, model.joint->prediction().bias);
  add("joint.joint_net", model.joint->output().weight, model.joint->output().bias);
  const bool lstm = model.prediction->config().kind == PredictionConfig::Kind::lstm;
  const auto& tables = model.prediction->embeddings();
  for (size_t i = 0; i < tables.size(); ++i) {
    weights["decoder.prediction." + (lstm ? "embed" : "embeds." + std::to_string(i)) + ".weight"] =
        tables[i];
  }
  const auto& layers = model.prediction->layers();
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::string lstm_name = "decoder.prediction.dec_rnn.lstm.",
                      end = "_l" + std::to_string(i);
    weights[lstm_name + "weight_ih" + end] = layers[i].w_ih;
    weights[lstm_name + "weight_hh" + end] = layers[i].w_hh;
    weights[lstm_name + "bias_ih" + end] = layers[i].b_ih;
    weights[lstm_name + "bias_hh" + end] = layers[i].b_hh;
  }
  return weights;
}

}  // namespace rtfx
