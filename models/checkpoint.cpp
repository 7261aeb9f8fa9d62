#include "models/checkpoint.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/serialize.h>

#include "base/error.h"
#include "base/sha256.h"
#include "models/archive.h"
#include "models/config_reader.h"
#include "models/tokenizers/sentencepiece.h"

namespace rtfx {
namespace {

using Members = std::map<std::string, std::string>;

bool wanted(std::string_view name) {
  return name == "model_config.yaml" || name == "model_weights.ckpt" ||
         name.ends_with("tokenizer.model");
}

const std::string& member(const Members& members, const std::string& name,
                          const std::string& where) {
  const auto found = members.find(name);
  if (found == members.end()) {
    throw UserError(where, fmt::format("no '{}' in the archive", name), "not a NeMo checkpoint");
  }
  return found->second;
}

StateDict unpickle(const std::string& bytes, const std::string& where) {
  StateDict weights;
  try {
    const at::IValue value = torch::pickle_load(std::vector<char>(bytes.begin(), bytes.end()));
    for (const auto& entry : value.toGenericDict()) {
      weights[entry.key().toStringRef()] = entry.value().toTensor();
    }
  } catch (const c10::Error& e) {
    throw UserError(where, fmt::format("not PyTorch weights ({})", e.what_without_backtrace()),
                    "the checkpoint is damaged");
  }
  return weights;
}

std::shared_ptr<const Tokenizer> read_tokenizer(const YamlView& yaml, const Members& members,
                                                int64_t vocabulary) {
  yaml.require("tokenizer.type", {"bpe"});
  const auto reference = yaml.text("tokenizer.model_path");
  std::string name;
  for (const auto& [candidate, bytes] : members) {
    if (!candidate.ends_with("tokenizer.model")) continue;
    if (name.empty() || (reference && reference->ends_with(candidate))) name = candidate;
  }
  if (name.empty()) {
    throw UserError(yaml.where(), "no SentencePiece model (*tokenizer.model) in the archive",
                    "character models and WordPiece tokenizers are not supported");
  }
  auto tokenizer = sentencepiece_tokenizer(members.at(name), yaml.where() + ":" + name);
  if (tokenizer->size() != vocabulary) {
    throw UserError(yaml.where(),
                    fmt::format("the tokenizer has {} pieces, the model {} tokens",
                                tokenizer->size(), vocabulary),
                    "tokenizer and weights do not belong together");
  }
  return tokenizer;
}

}  // namespace

Checkpoint Checkpoint::load(const std::filesystem::path& path) {
  const std::string where = path.string();
  Members members = read_archive(path, wanted);
  const YamlView yaml(member(members, "model_config.yaml", where), where);
  StateDict weights = rename_tensors(unpickle(member(members, "model_weights.ckpt", where), where));
  members.erase("model_weights.ckpt");

  Checkpoint checkpoint;
  checkpoint.config = read_config(yaml, weights, checkpoint.notices);
  checkpoint.weights = canonical_state_dict(std::move(weights), checkpoint.config, where);
  checkpoint.tokenizer = read_tokenizer(yaml, members, checkpoint.config.vocabulary);
  checkpoint.sha256 = sha256_file(path);
  checkpoint.parameters = count_parameters(checkpoint.config);
  return checkpoint;
}

}  // namespace rtfx
