// A trained model as it was found on disk: its configuration, its tensors under canonical names,
// and its tokenizer.
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

/// The tensors of a model, each under one canonical name (expected_tensors).
using StateDict = std::map<std::string, at::Tensor>;

/// Returns the shape of each tensor by its name. The names are NeMo's, except for two that NeMo
/// itself varies. The joint's output linear is "joint.joint_net" (joint_net.1 or .2 in files). The
/// CTC head is "ctc" (decoder.decoder_layers.0 or ctc_decoder.decoder_layers.0).
std::map<std::string, std::vector<int64_t>> expected_tensors(const ModelConfig& config);

/// Counts the trainable parameters: expected_tensors without the running statistics of batch norm.
int64_t count_parameters(const ModelConfig& config);

/// Renames NeMo's varying names, drops tensors that inference does not use (batch counters,
/// position tables, augmentation, loss) and checks names and shapes against `config`. Throws
/// UserError for a tensor that is missing, unknown or of the wrong shape, and names it. Adds the
/// names of the dropped tensors to `ignored`.
StateDict canonical_state_dict(StateDict file, const ModelConfig& config, const std::string& where,
                               std::vector<std::string>* ignored = nullptr);

/// Makes NeMo's varying names canonical. Removes the prefixes of distributed training ("module.")
/// and of torch.compile() ("_orig_mod."). Checks nothing.
StateDict rename_tensors(StateDict file);

struct Checkpoint {
  ModelConfig config;
  /// The tensors are on the CPU, in the type that they are stored in. Those of a file are views of
  /// it, and come into memory when they are read. AcousticModel::build() copies those it needs.
  StateDict weights;
  std::shared_ptr<const Tokenizer> tokenizer;  // null only for models made by hand
  std::vector<std::string> notices;            // differences between tensors and settings
  std::vector<std::string> ignored;            // tensors that inference does not use
  std::string format;                          // "NeMo 2.7.3", "Hugging Face ParakeetForCTC"
  std::vector<std::filesystem::path> files;    // the files that it was read from
  int64_t parameters = 0;

  /// Where the file stands in for another checkpoint, this says what it was made from
  /// (models/widen_checkpoint.py). It is empty for a checkpoint that was trained.
  std::string stand_in;
  /// Says how a stand-in was made: checksums of its source and its program, and the seed.
  std::string stand_in_recipe;

  /// Returns the SHA-256 of the file, or of the names and sums of several files. The first call
  /// reads them completely.
  const std::string& sha256() const;

  mutable std::string checksum;  // result of sha256(); set beforehand where there is no file
};

/// Says that a weight is NaN or infinite. what() names its tensor and the position in it.
class NotFinite : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Gives weights under a common prefix, in the dtype and on the device where they are needed.
///
/// It is a view of `weights`, and valid as long as they are. get() returns tensors of `dtype` on
/// `device`. A weight of a file stays a view of it if it is wanted on the CPU in its stored type.
/// Such a view takes no memory of its own, and processes share it. All others are copied, and the
/// memory that reading them took is given back one tensor at a time. All functions throw NotFinite.
class WeightReader {
 public:
  WeightReader(const StateDict& weights, std::string prefix, at::Device device,
               at::ScalarType dtype)
      : weights_(weights), prefix_(std::move(prefix)), device_(device), dtype_(dtype) {}

  WeightReader below(const std::string& name) const {
    return {weights_, prefix_ + name + ".", device_, dtype_};
  }

  /// Returns the weight as float32 on the CPU. The tensor is undefined when the weight is absent.
  at::Tensor raw(const std::string& name) const;
  /// Returns the weight on the device in the model's dtype. Throws std::logic_error when it is
  /// absent.
  at::Tensor get(const std::string& name) const;
  /// Returns an undefined tensor when the weight is absent, such as a bias that a checkpoint does
  /// not have.
  at::Tensor optional(const std::string& name) const;
  /// Concatenates, along the first axis, those of `names` that exist. The result is undefined when
  /// none exists.
  at::Tensor joined(const std::vector<std::string>& names) const;
  /// Returns the tensor on the device in the model's dtype, contiguous. It is not copied if it is
  /// so already.
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
