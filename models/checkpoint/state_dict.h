// The tensors that a model of given settings holds, under one canonical name each.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "models/checkpoint/config.h"

namespace rtfx {

using StateDict = std::map<std::string, at::Tensor>;

/// Name -> shape. Names are NeMo's, but for two that NeMo itself varies: the joint's output linear
/// is "joint.joint_net" (joint_net.1 or .2 in files) and the CTC head is "ctc"
/// (decoder.decoder_layers.0 or ctc_decoder.decoder_layers.0).
std::map<std::string, std::vector<int64_t>> expected_tensors(const ModelConfig& config);

/// Trainable parameters: expected_tensors without the running statistics of batch norm.
int64_t count_parameters(const ModelConfig& config);

/// Renames NeMo's varying names, drops tensors that inference does not use (batch counters,
/// position tables, augmentation, loss) and checks names and shapes against `config`. Throws
/// UserError naming the tensor: missing, of the wrong shape, or unknown. Adds the names of what it
/// drops to `ignored`.
StateDict canonical_state_dict(StateDict file, const ModelConfig& config, const std::string& where,
                               std::vector<std::string>* ignored = nullptr);

/// NeMo's varying names made canonical; nothing is checked.
StateDict rename_tensors(StateDict file);

/// A model of these settings with random weights: normal with deviation 1/sqrt(fan-in), unit norms,
/// the blank row of the embedding zero. For timing shapes whose trained weights are not at hand.
StateDict random_state_dict(const ModelConfig& config, uint64_t seed);

}  // namespace rtfx
