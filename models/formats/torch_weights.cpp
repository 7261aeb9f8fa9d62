#include "models/formats/torch_weights.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/error.h"
#include "models/formats/archive.h"
#include "models/formats/pickle.h"

namespace rtfx {
namespace {

using Members = std::map<std::string, ArchiveMember>;
constexpr const char* kNotSavedByTorch =
    "the checkpoint is damaged, or was not written by torch.save()";

/// The folder in the archive that holds everything, with its slash.
std::string root_of(const Members& members, const std::string& where) {
  for (const auto& [name, member] : members) {
    if (name == "data.pkl" || name.ends_with("/data.pkl"))
      return name.substr(0, name.size() - std::string_view("data.pkl").size());
  }
  throw UserError(where, "not PyTorch weights: no data.pkl in the zip archive", kNotSavedByTorch);
}

void check_byte_order(const Members& members, const std::string& root, const std::string& where) {
  const auto order = members.find(root + "byteorder");
  if (order != members.end() && order->second.bytes != "little")
    throw UserError(where, "was written on a big-endian machine",
                    "save the model again on another");
}

}  // namespace

StateDict read_torch_weights(const StoredBytes& file, const std::string& where) {
  if (!file.bytes.starts_with("PK")) {
    throw UserError(
        where, "not PyTorch weights: no zip archive",
        "files of PyTorch before 1.6 can be converted: torch.save(torch.load(FILE), FILE)");
  }
  const Members members =
      read_archive(file.bytes, ArchiveFormat::zip, where, [](const std::string&) { return true; });
  const std::string root = root_of(members, where);
  check_byte_order(members, root, where);
  StateDict weights;
  for (const PickledTensor& tensor :
       read_state_dict_pickle(members.at(root + "data.pkl").bytes, where)) {
    const auto record = members.find(root + "data/" + tensor.storage);
    if (record == members.end()) {
      throw UserError(where,
                      fmt::format("tensor '{}': no member data/{}", tensor.name, tensor.storage),
                      kNotSavedByTorch);
    }
    const ArchiveMember& member = record->second;
    int64_t bytes = 0;
    if (tensor.storage_elements < 0 ||
        __builtin_mul_overflow(tensor.storage_elements,
                               static_cast<int64_t>(c10::elementSize(tensor.dtype)), &bytes) ||
        static_cast<size_t>(bytes) != member.bytes.size()) {
      throw UserError(
          where,
          fmt::format("tensor '{}': its storage has {} bytes, announced were {} elements",
                      tensor.name, member.bytes.size(), tensor.storage_elements),
          kNotSavedByTorch);
    }
    const StoredBytes storage{member.bytes, member.unpacked ? nullptr : file.file,
                              member.unpacked ? member.unpacked : file.unpacked};
    weights[tensor.name] = stored_tensor(storage, tensor.dtype, tensor.offset, tensor.sizes,
                                         tensor.strides, where, tensor.name);
  }
  return weights;
}

}  // namespace rtfx
