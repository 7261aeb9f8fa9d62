// Tests of damaged model files. Each checkpoint that can still be read must build and decode.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "models/acoustic_model.h"
#include "models/formats/archive.h"
#include "models/formats/safetensors.h"
#include "models/formats/torch_weights.h"
#include "models/load_checkpoint.h"
#include "tests/mutations/mutate.h"

namespace rtfx {
namespace {

const std::filesystem::path kData = "tests/data/checkpoints";

/// Builds the model and runs it on a tenth of a second, as a decoder would.
void use_model(const Checkpoint& checkpoint) {
  const c10::InferenceMode inference;
  const auto model = AcousticModel::build(checkpoint, at::kCPU, at::kFloat);
  const at::Tensor audio = at::zeros({1, 1600});
  const Encoded encoded =
      (*model->encoder)((*model->features)(audio, at::tensor({1600}, at::kLong)));
  if (model->ctc_head) model->ctc_head->logits(encoded.frames);
  const std::vector<int32_t> ids = {0, static_cast<int32_t>(model->tokenizer->size() - 1)};
  model->tokenizer->text(ids);
}

void load_file(const std::string& bytes) {
  const MemoryFile file(bytes);
  use_model(load_checkpoint(file.path()));
}

/// Returns everything but the weights: the tar's headers, the YAML, the pickle, the zip's
/// directory.
std::vector<std::pair<size_t, size_t>> structure_of(const std::string& archive) {
  std::vector<std::pair<size_t, size_t>> parts = {{0, 512}};
  const auto members =
      read_archive(archive, ArchiveFormat::tar, "test", [](const std::string&) { return true; });
  for (const auto& [name, member] : members) {
    const auto begin = static_cast<size_t>(member.bytes.data() - archive.data());
    parts.emplace_back(begin - 512, begin);
    const size_t size = member.bytes.size();
    if (!name.ends_with("model_weights.ckpt")) {
      parts.emplace_back(begin, begin + size);
      continue;
    }
    const auto records = read_archive(member.bytes, ArchiveFormat::zip, "test",
                                      [](const std::string&) { return true; });
    for (const auto& [record, contents] : records) {
      const auto at = static_cast<size_t>(contents.bytes.data() - archive.data());
      parts.emplace_back(at > 64 ? at - 64 : 0, at);  // its local header
      if (record.ends_with("data.pkl")) parts.emplace_back(at, at + contents.bytes.size());
    }
    parts.emplace_back(begin + size - std::min<size_t>(size, 4096), begin + size);
  }
  return parts;
}

class NemoMutation : public ::testing::TestWithParam<const char*> {};

TEST_P(NemoMutation, IsReadOrRefused) {
  const std::string bytes = file_bytes(kData / GetParam());
  const Counts counts = mutate(bytes, structure_of(bytes), 5'000, &load_file);
  EXPECT_GT(counts.read, 0);
  EXPECT_GT(counts.refused, scaled(1000));
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, NemoMutation,
                         ::testing::Values("tiny_streaming.nemo", "tiny_tdt.nemo"),
                         [](const auto& info) {
                           return std::filesystem::path(info.param).stem().string();
                         });

/// Tests the archive reader alone, with gzip. It does little with each copy, so more copies are
/// tried.
TEST(ArchiveMutation, IsReadOrRefused) {
  const std::string bytes = file_bytes(kData / "tiny_gzip.nemo");
  const Counts counts = mutate(bytes, {}, 20'000, [](const std::string& damaged) {
    read_archive(damaged, ArchiveFormat::tar, "test", [](const std::string&) { return true; });
  });
  EXPECT_GT(counts.refused, scaled(1000));
}

std::string pickle_of(const char* name) {
  const std::string archive = file_bytes(kData / name);
  std::string pickle;
  for (const auto& [member, bytes] :
       read_archive(archive, ArchiveFormat::tar, "test", [](const std::string&) { return true; })) {
    if (!member.ends_with("model_weights.ckpt")) continue;
    for (const auto& [record, contents] : read_archive(bytes.bytes, ArchiveFormat::zip, "test",
                                                       [](const std::string&) { return true; }))
      if (record.ends_with("data.pkl")) pickle = contents.bytes;
  }
  return pickle;
}

TEST(PickleMutation, IsReadOrRefused) {
  const Counts counts =
      mutate(pickle_of("tiny_streaming.nemo"), {}, 50'000,
             [](const std::string& damaged) { read_state_dict_pickle(damaged, "test"); });
  EXPECT_GT(counts.refused, scaled(10'000));
}

TEST(SafetensorsMutation, IsReadOrRefused) {
  const std::string bytes = file_bytes(kData / "tiny_hf_tdt/model.safetensors");
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const Counts counts =
      mutate(bytes, {{0, sizeof(header)}, {sizeof(header), sizeof(header) + header}}, 20'000,
             [](const std::string& damaged) {
               const MemoryFile file(damaged);
               read_safetensors(MappedFile::open(file.path()));
             });
  EXPECT_GT(counts.refused, scaled(1000));
}

/// Reads a whole folder in which one file, the parameter, is damaged.
class HuggingFaceMutation : public ::testing::TestWithParam<const char*> {};

TEST_P(HuggingFaceMutation, IsReadOrRefused) {
  namespace fs = std::filesystem;
  const fs::path source = kData / "tiny_hf_tdt";
  const fs::path folder = fs::path(::testing::TempDir()) / fmt::format("rtfx_hf_{}", ::getpid());
  fs::remove_all(folder);
  fs::create_directories(folder);
  for (const auto& entry : fs::directory_iterator(source))
    fs::create_symlink(fs::absolute(entry.path()), folder / entry.path().filename());
  const std::string bytes = file_bytes(source / GetParam());
  const Counts counts = mutate(bytes, {}, 5'000, [&](const std::string& damaged) {
    const MemoryFile file(damaged);
    fs::remove(folder / GetParam());
    fs::create_symlink(file.path(), folder / GetParam());
    use_model(load_checkpoint(folder));
  });
  fs::remove_all(folder);
  EXPECT_GT(counts.refused, scaled(100));
}

INSTANTIATE_TEST_SUITE_P(Files, HuggingFaceMutation,
                         ::testing::Values("config.json", "processor_config.json",
                                           "tokenizer.json"),
                         [](const auto& info) {
                           return std::filesystem::path(info.param).stem().string();
                         });

}  // namespace
}  // namespace rtfx
