#include "models/formats/safetensors.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "models/checkpoint/tensor_data.h"

namespace rtfx {
namespace {

using nlohmann::json;

constexpr uint64_t kMostHeader = 100'000'000;
constexpr const char* kDamaged = "the file is damaged; download or copy it again";

c10::ScalarType dtype_of(const std::string& name, const std::string& where,
                         const std::string& tensor) {
  static const std::map<std::string, c10::ScalarType> kTypes = {
      {"F64", c10::kDouble}, {"F32", c10::kFloat}, {"F16", c10::kHalf},  {"BF16", c10::kBFloat16},
      {"I64", c10::kLong},   {"I32", c10::kInt},   {"I16", c10::kShort}, {"I8", c10::kChar},
      {"U8", c10::kByte},    {"BOOL", c10::kBool}};
  const auto found = kTypes.find(name);
  if (found == kTypes.end()) {
    throw UserError(where, fmt::format("tensor '{}' is of type '{}'", tensor, name),
                    "rtfx reads fp32, fp16 and bf16 weights; quantised exports are not supported");
  }
  return found->second;
}

struct Entry {
  std::string name;
  c10::ScalarType dtype;
  std::vector<int64_t> shape;
  uint64_t begin, end;
};

Entry read_entry(const std::string& name, const json& value, const std::string& where) {
  constexpr size_t kMostDimensions = 8;
  const auto fail = [&](const char* problem) {
    return UserError(where, fmt::format("tensor '{}' {}", name, problem), kDamaged);
  };
  if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") ||
      !value.contains("data_offsets"))
    throw fail("lacks dtype, shape or data_offsets");
  const auto unsigned_list = [&](const char* key, size_t most) {
    const json& list = value.at(key);
    std::vector<uint64_t> numbers;
    if (!list.is_array() || list.size() > most) throw fail("has a malformed shape or data_offsets");
    for (const json& number : list) {
      if (!number.is_number_unsigned()) throw fail("has a malformed shape or data_offsets");
      numbers.push_back(number.get<uint64_t>());
    }
    return numbers;
  };
  const std::vector<uint64_t> offsets = unsigned_list("data_offsets", 2);
  if (offsets.size() != 2 || !value.at("dtype").is_string())
    throw fail("has malformed data_offsets or dtype");
  Entry entry{name,
              dtype_of(value.at("dtype").get<std::string>(), where, name),
              {},
              offsets[0],
              offsets[1]};
  uint64_t bytes = c10::elementSize(entry.dtype);
  for (const uint64_t size : unsigned_list("shape", kMostDimensions)) {
    if (__builtin_mul_overflow(bytes, size, &bytes) || size > uint64_t{INT64_MAX})
      throw fail("has an absurd shape");
    entry.shape.push_back(static_cast<int64_t>(size));
  }
  if (entry.end < entry.begin || entry.end - entry.begin != bytes)
    throw fail("has data_offsets that do not fit its shape");
  return entry;
}

}  // namespace

StateDict read_safetensors(const std::shared_ptr<const MappedFile>& file) {
  const std::string where = file->path().string();
  const std::string_view bytes = file->bytes();
  uint64_t header = 0;
  if (bytes.size() >= sizeof(header)) std::memcpy(&header, bytes.data(), sizeof(header));
  if (header < 2 || header > kMostHeader || header > bytes.size() - sizeof(header))
    throw UserError(where, "not a safetensors file, or truncated", kDamaged);
  const json index = parse_json(bytes.substr(sizeof(header), header), where);
  if (!index.is_object()) throw UserError(where, "has a header that is no JSON object", kDamaged);

  std::vector<Entry> entries;
  for (const auto& [name, value] : index.items())
    if (name != "__metadata__") entries.push_back(read_entry(name, value, where));
  std::ranges::sort(entries, {}, [](const Entry& e) { return std::pair(e.begin, e.end); });
  const std::string_view data = bytes.substr(sizeof(header) + header);
  uint64_t at = 0;
  StateDict weights;
  for (const Entry& e : entries) {
    if (e.begin != at) {
      throw UserError(where, fmt::format("tensor '{}' overlaps another or leaves a gap", e.name),
                      kDamaged);
    }
    at = e.end;
    if (at > data.size())
      throw UserError(where, fmt::format("tensor '{}' lies beyond the file's end", e.name),
                      kDamaged);
    weights[e.name] = stored_tensor({data.substr(e.begin, e.end - e.begin), file, nullptr}, e.dtype,
                                    0, e.shape, dense_strides(e.shape), where, e.name);
  }
  if (at != data.size())
    throw UserError(where, fmt::format("has {} bytes that belong to no tensor", data.size() - at),
                    kDamaged);
  return weights;
}

StateDict read_safetensors_folder(const std::filesystem::path& folder,
                                  std::vector<std::filesystem::path>& files) {
  const std::filesystem::path whole = folder / "model.safetensors";
  const std::filesystem::path index = folder / "model.safetensors.index.json";
  if (std::filesystem::exists(whole) || !std::filesystem::exists(index)) {
    files.push_back(whole);
    return read_safetensors(MappedFile::open(whole));
  }
  files.push_back(index);
  const json document = read_json_file(index);
  const json map = document.is_object() ? document.value("weight_map", json()) : json();
  if (!map.is_object()) throw UserError(index.string(), "has no object 'weight_map'", kDamaged);
  std::map<std::string, std::set<std::string>> names;  // the tensors of each file
  for (const auto& [name, shard] : map.items()) {
    const std::string text = shard.is_string() ? shard.get<std::string>() : "";
    if (text.empty() || text != std::filesystem::path(text).filename().string() || text == "..")
      throw UserError(index.string(), fmt::format("names no file of this folder for '{}'", name),
                      kDamaged);
    names[text].insert(name);
  }
  StateDict weights;
  for (const auto& [shard, wanted] : names) {
    files.push_back(folder / shard);
    StateDict part = read_safetensors(MappedFile::open(folder / shard));
    for (const std::string& name : wanted) {
      const auto found = part.find(name);
      if (found == part.end()) {
        throw UserError((folder / shard).string(),
                        fmt::format("lacks tensor '{}', which {} places there", name,
                                    index.filename().string()),
                        kDamaged);
      }
      weights.insert(*found);
    }
  }
  return weights;
}

}  // namespace rtfx
