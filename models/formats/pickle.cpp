#include "models/formats/pickle.h"

#include <fmt/format.h>

#include "models/formats/pickle_machine.h"

namespace rtfx {
namespace {

/// The dictionary that a pickle built, as tensors.
class PickleReader {
 public:
  PickleReader(std::string_view bytes, const std::string& where)
      : where_(where), program_(pickle::run(bytes, where)) {}

  std::vector<PickledTensor> tensors() const {
    const pickle::Value& dictionary = program_.values[program_.result];
    if (dictionary.kind != pickle::Kind::dictionary) throw fail("holds no dictionary of tensors");
    std::vector<PickledTensor> all;
    for (size_t i = 0; i < dictionary.items.size(); i += 2) {
      const pickle::Value& key = program_.values[dictionary.items[i]];
      const pickle::Value& value = program_.values[dictionary.items[i + 1]];
      if (key.kind != pickle::Kind::text) throw fail("has an entry whose name is no text");
      if (value.kind == pickle::Kind::none) continue;
      if (value.kind != pickle::Kind::tensor)
        throw fail(fmt::format("has an entry '{}' that is no tensor", key.text));
      all.push_back(tensor(key.text, value));
    }
    return all;
  }

 private:
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

}  // namespace rtfx
