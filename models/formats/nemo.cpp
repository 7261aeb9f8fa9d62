#include "models/formats/nemo.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "models/formats/archive.h"
#include "models/formats/torch_weights.h"
#include "models/settings/config_reader.h"
#include "models/tokenizers/nemo_tokenizers.h"
#include "models/tokenizers/sentencepiece.h"

namespace rtfx {
namespace {

using TokenizerPointer = std::shared_ptr<const Tokenizer>;

constexpr const char* kConfig = "model_config.yaml";
constexpr const char* kWeights = "model_weights.ckpt";

/// The archive's members in the folder that holds the configuration, or the files of a folder into
/// which an archive was unpacked.
class Archive {
 public:
  explicit Archive(const std::filesystem::path& path) : path_(path) {
    if (std::filesystem::is_directory(path)) return;
    file_ = MappedFile::open(path);
    require_no_bare_weights();
    members_ = read_archive(file_->bytes(), ArchiveFormat::tar, where(),
                            [](const std::string&) { return true; });
    for (const auto& [name, member] : members_) {
      const std::string_view folder = std::string_view(name).substr(0, name.rfind('/') + 1);
      if (name.substr(folder.size()) == kConfig) {
        root_ = folder;
        return;
      }
    }
    throw UserError(where(), fmt::format("no '{}' in the archive", kConfig),
                    "not a NeMo checkpoint");
  }

  std::string where() const { return path_.string(); }

  /// Returns the archive, or the files of the folder that bytes() has opened so far.
  std::vector<std::filesystem::path> files() const {
    if (file_) return {path_};
    return {opened_.begin(), opened_.end()};
  }

  StoredBytes bytes(const std::string& name) const {
    if (!file_) {
      const auto file = MappedFile::open(path_ / name);
      opened_.insert(path_ / name);
      return {file->bytes(), file, nullptr};
    }
    const auto found = members_.find(root_ + name);
    if (found == members_.end()) {
      throw UserError(where(), fmt::format("no '{}' in the archive", name),
                      "not a NeMo checkpoint, or incomplete");
    }
    const ArchiveMember& member = found->second;
    return {member.bytes, member.unpacked ? nullptr : file_, member.unpacked};
  }

  /// Returns the file that the YAML names as "nemo:<name>".
  std::string artifact(const YamlView& yaml, const std::string& path) const {
    const std::string reference = yaml.text(path).value_or("");
    constexpr std::string_view kScheme = "nemo:";
    if (!reference.starts_with(kScheme)) {
      throw UserError(where(), fmt::format("{} names no file of the archive", path),
                      "save the model again with NeMo's save_to()");
    }
    return reference.substr(kScheme.size());
  }

 private:
  /// Throws UserError for weights without the tokenizer and NeMo's configuration. torch.save()
  /// writes these as a zip archive, or before PyTorch 1.6 as a pickle.
  void require_no_bare_weights() const {
    const std::string_view bytes = file_->bytes();
    if (path_.extension() == ".safetensors") {
      throw UserError(where(), "holds weights alone",
                      "give the folder with it, config.json and tokenizer.json");
    }
    if (!bytes.starts_with("PK\3\4") && !bytes.starts_with("\x80\x02\x8a\n")) return;
    throw UserError(where(), "holds weights alone, as PyTorch and Lightning write them",
                    "load it in NeMo and write it with model.save_to(\"model.nemo\")");
  }

  std::filesystem::path path_;
  std::shared_ptr<const MappedFile> file_;  // null for a folder
  std::map<std::string, ArchiveMember> members_;
  std::string root_;
  mutable std::set<std::filesystem::path> opened_;  // files of a folder
};

TokenizerPointer read_subword(const Archive& archive, const YamlView& yaml,
                              const std::string& section) {
  yaml.require(section + "type", {"bpe", "wpe"});
  yaml.require(section + "custom_tokenizer", {});
  const bool wordpiece = yaml.text(section + "type").value_or("bpe") == "wpe";
  const std::string name =
      archive.artifact(yaml, section + (wordpiece ? "vocab_path" : "model_path"));
  const std::string bytes(archive.bytes(name).bytes);
  const std::string where = archive.where() + ":" + name;
  return wordpiece ? wordpiece_tokenizer(bytes, where) : sentencepiece_tokenizer(bytes, where);
}

/// Returns the list of characters of a model without sub-words, from any place where NeMo's class
/// may keep it.
std::vector<std::string> characters(const YamlView& yaml) {
  for (const char* path :
       {"decoder.vocabulary", "joint.vocabulary", "aux_ctc.decoder.vocabulary", "labels"}) {
    if (auto labels = yaml.texts(path); labels && !labels->empty()) return *labels;
  }
  throw UserError(yaml.where(), "has neither a tokenizer nor a list of characters",
                  "expected one of tokenizer, decoder.vocabulary, labels");
}

TokenizerPointer read_any(const Archive& archive, const YamlView& yaml) {
  if (!yaml.has("tokenizer")) return character_tokenizer(characters(yaml));
  const std::string type = yaml.text("tokenizer.type").value_or("bpe");
  if (type != "agg") return read_subword(archive, yaml, "tokenizer.");
  std::vector<std::pair<std::string, TokenizerPointer>> languages;
  for (const std::string& language : yaml.keys("tokenizer.langs")) {
    languages.emplace_back(
        language, read_subword(archive, yaml, fmt::format("tokenizer.langs.{}.", language)));
  }
  yaml.require("tokenizer.custom_tokenizer", {});
  if (languages.empty())
    throw UserError(yaml.where(), "tokenizer.langs is empty", "the YAML is damaged");
  return aggregate_tokenizer(std::move(languages));
}

TokenizerPointer read_tokenizer(const Archive& archive, const YamlView& yaml, int64_t vocabulary) {
  TokenizerPointer tokenizer = read_any(archive, yaml);
  if (tokenizer->size() != vocabulary) {
    throw UserError(yaml.where(),
                    fmt::format("the tokenizer has {} pieces, the model {} tokens",
                                tokenizer->size(), vocabulary),
                    "tokenizer and weights do not belong together");
  }
  return tokenizer;
}

/// Reads the mark that models/widen_checkpoint.py writes into its files.
void read_stand_in(const YamlView& yaml, Checkpoint& checkpoint) {
  if (!yaml.has("stand_in")) return;
  const auto text = [&](const char* key) {
    return yaml.text(std::string("stand_in.") + key).value_or("unknown");
  };
  checkpoint.stand_in = text("description");
  if (constexpr std::string_view kMark = "stand-in: "; checkpoint.stand_in.starts_with(kMark))
    checkpoint.stand_in.erase(0, kMark.size());
  checkpoint.stand_in_recipe = fmt::format(
      "source SHA-256 {:.12}, {} with SHA-256 {:.12}, torch {}, seed {}, {}", text("source_sha256"),
      text("program"), text("program_sha256"), text("torch"), text("seed"), text("dtype"));
}

}  // namespace

Checkpoint read_nemo(const std::filesystem::path& path) {
  const Archive archive(path);
  const std::string where = archive.where();
  const YamlView yaml(std::string(archive.bytes(kConfig).bytes), where);
  StateDict weights = rename_tensors(read_torch_weights(archive.bytes(kWeights), where));

  Checkpoint checkpoint;
  checkpoint.format = "NeMo " + yaml.text("nemo_version").value_or("of an unstated version");
  read_stand_in(yaml, checkpoint);
  checkpoint.config = read_config(yaml, weights, checkpoint.notices);
  checkpoint.weights =
      canonical_state_dict(std::move(weights), checkpoint.config, where, &checkpoint.ignored);
  checkpoint.tokenizer = read_tokenizer(archive, yaml, checkpoint.config.vocabulary);
  if (yaml.boolean("decoding.strip_lang_tags").value_or(false)) {
    constexpr const char* kStandard = R"(\s*<[a-z]{2}-[A-Z]{2}>)";  // of NeMo's class
    if (yaml.text("decoding.lang_tag_pattern").value_or(kStandard) != kStandard) {
      checkpoint.notices.emplace_back(
          "decoding.lang_tag_pattern: only NeMo's default is known, so tags stay in the text");
    } else {
      checkpoint.tokenizer = without_language_tags(checkpoint.tokenizer);
    }
  }
  checkpoint.files = archive.files();
  return checkpoint;
}

}  // namespace rtfx
