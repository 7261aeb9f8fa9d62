// A trained model as it was found on disk: its configuration, its tensors under canonical names,
// its tokenizer.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "models/checkpoint/config.h"
#include "models/tokenizers/tokenizer.h"

namespace rtfx {

/// The tensors of a model, under one canonical name each (expected_tensors).
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

/// NeMo's varying names made canonical, without what distributed training ("module.") and
/// torch.compile() ("_orig_mod.") put before them; nothing is checked.
StateDict rename_tensors(StateDict file);

/// A model of these settings with random weights: normal with deviation 1/sqrt(fan-in), unit norms,
/// the blank row of the embedding zero. For timing shapes whose trained weights are not at hand.
StateDict random_state_dict(const ModelConfig& config, uint64_t seed);

struct Checkpoint {
  ModelConfig config;
  /// On the CPU, in the type that they are stored in. Those of a file are views of it, brought into
  /// memory when they are looked at: AcousticModel::build() copies what it needs.
  StateDict weights;
  std::shared_ptr<const Tokenizer> tokenizer;  // null only for models made by hand
  std::vector<std::string> notices;            // where file and settings disagree
  std::vector<std::string> ignored;            // tensors that inference does not use
  std::string format;                          // "NeMo 2.7.3", "Hugging Face ParakeetForCTC"
  std::vector<std::filesystem::path> files;    // what it was read from
  int64_t parameters = 0;

  /// Says what the file was made from where it stands in for another checkpoint
  /// (models/widen_checkpoint.py); empty for a checkpoint that was trained.
  std::string stand_in;
  /// Says how a stand-in was made: checksums of its source and its program, and the seed.
  std::string stand_in_recipe;

  /// SHA-256 of the file, or of the names and sums of several. Reads them whole, once.
  const std::string& sha256() const;

  mutable std::string checksum;  // what sha256() found; set beforehand for what has no file
};

/// A weight is NaN or infinite. what() names its tensor and its place there.
class NotFinite : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Gives weights under a common prefix, cast and moved to where they are needed.
/// A view of `weights`; valid as long as they are. `device` and `dtype` are what get() returns.
/// Weights of a file stay views of it where they are wanted on the CPU in the type that they are
/// stored in. These take no memory of their own, and processes share them. All others are copied,
/// and the memory that reading them took is given back one tensor at a time. All throw NotFinite.
class WeightReader {
 public:
  WeightReader(const StateDict& weights, std::string prefix, at::Device device,
               at::ScalarType dtype)
      : weights_(weights), prefix_(std::move(prefix)), device_(device), dtype_(dtype) {}

  WeightReader below(const std::string& name) const {
    return {weights_, prefix_ + name + ".", device_, dtype_};
  }

  /// Widened to float32, on the CPU; undefined when absent.
  at::Tensor raw(const std::string& name) const;
  /// On the device in the model's dtype. Throws std::logic_error when absent.
  at::Tensor get(const std::string& name) const;
  /// Undefined when absent (biases that a checkpoint does not have).
  at::Tensor optional(const std::string& name) const;
  /// Those of `names` that are there, one behind the other along the first axis; undefined for
  /// none.
  at::Tensor joined(const std::vector<std::string>& names) const;
  at::Tensor place(const at::Tensor& tensor) const;

  at::Device device() const { return device_; }
  at::ScalarType dtype() const { return dtype_; }

 private:
  const StateDict& weights_;
  std::string prefix_;
  at::Device device_;
  at::ScalarType dtype_;
};

}  // namespace rtfx
