#include "models/formats/torch_weights.h"

#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "models/formats/archive.h"
#include "models/formats/pickle.h"

namespace rtfx {

namespace {

/// Converts the dictionary that a pickle built to tensors.
class PickleReader {
 public:
  PickleReader(std::string_view bytes, const std::string& where)
      : where_(where), program_(pickle::run(bytes, where)) {}

  std::vector<PickledTensor> tensors() const {
    const pickle::Value& dictionary = weights();
    std::vector<PickledTensor> all;
    for (size_t i = 0; i < dictionary.items.size(); i += 2) {
      const pickle::Value& key = program_.values[dictionary.items[i]];
      const pickle::Value& value = program_.values[dictionary.items[i + 1]];
      if (key.kind != pickle::Kind::text) throw fail("has an entry whose name is no text");
      require_known(value);
      if (value.kind == pickle::Kind::tensor) all.push_back(tensor(key.text, value));
    }
    if (all.empty()) throw fail("holds no tensor");
    return all;
  }

 private:
  /// Returns the dictionary of tensors: the result, or its entry "state_dict" or
  /// "model_state_dict".
  const pickle::Value& weights() const {
    const pickle::Value& all = program_.values[program_.result];
    require_known(all);
    if (all.kind != pickle::Kind::dictionary) throw fail("holds no dictionary of tensors");
    for (const std::string_view name : {"state_dict", "model_state_dict"}) {
      for (size_t i = 0; i < all.items.size(); i += 2) {
        const pickle::Value& value = program_.values[all.items[i + 1]];
        if (program_.values[all.items[i]].text == name && value.kind == pickle::Kind::dictionary)
          return value;
      }
    }
    return all;
  }

  void require_known(const pickle::Value& value) const {
    if (value.kind != pickle::Kind::foreign) return;
    std::string name(value.text);
    std::ranges::replace(name, ' ', '.');
    throw fail(fmt::format("names '{}', which is not allowed", name));
  }

  UserError fail(const std::string& problem) const { return pickle::failure(where_, problem); }

  PickledTensor tensor(std::string_view name, const pickle::Value& value) const {
    const pickle::Value& storage = program_.values[value.items[0]];
    if (storage.kind != pickle::Kind::storage)
      throw fail(fmt::format("gives '{}' no storage", name));
    const auto part = [&](size_t i, pickle::Kind kind) -> const pickle::Value& {
      const pickle::Value& found = program_.values[storage.items[i]];
      if (found.kind != kind) throw fail(fmt::format("gives '{}' a malformed storage", name));
      return found;
    };
    const auto dtype = pickle::storage_dtype(part(1, pickle::Kind::global).text);
    if (!dtype) throw fail(fmt::format("gives '{}' a storage without a type", name));
    return {std::string(name),
            std::string(part(2, pickle::Kind::text).text),
            *dtype,
            part(4, pickle::Kind::integer).integer,
            integer(name, value.items[1]),
            integers(name, value.items[2]),
            integers(name, value.items[3])};
  }

  int64_t integer(std::string_view name, uint32_t index) const {
    if (program_.values[index].kind != pickle::Kind::integer)
      throw fail(fmt::format("gives '{}' a shape that is no list of integers", name));
    return program_.values[index].integer;
  }

  std::vector<int64_t> integers(std::string_view name, uint32_t index) const {
    constexpr size_t kMostDimensions = 8;
    const pickle::Value& list = program_.values[index];
    if (list.kind != pickle::Kind::sequence || list.items.size() > kMostDimensions)
      throw fail(fmt::format("gives '{}' a shape that is no list of integers", name));
    std::vector<int64_t> all;
    for (const uint32_t item : list.items) all.push_back(integer(name, item));
    return all;
  }

  std::string where_;
  pickle::Program program_;
};

}  // namespace

std::vector<PickledTensor> read_state_dict_pickle(std::string_view pickle,
                                                  const std::string& where) {
  return PickleReader(pickle, where).tensors();
}

namespace {

using Members = std::map<std::string, ArchiveMember>;
constexpr const char* kNotSavedByTorch =
    "the checkpoint is damaged, or was not written by torch.save()";

/// Returns the folder in the archive that holds everything, with its slash.
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
