// The registry of decoders, which decoder.h declares.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "algorithms/decoder.h"
#include "algorithms/nbest_risk.h"
#include "base/error.h"

namespace rtfx {

namespace {

std::map<std::string, DecoderEntry>& table() {
  static std::map<std::string, DecoderEntry> entries;
  return entries;
}

}  // namespace

static thread_local bool loads_plugin = false;

RegisterDecoder::RegisterDecoder(DecoderEntry entry) {
  entry.is_foreign = entry.is_foreign || loads_plugin;
  if (entry.is_foreign) {
    entry.make = [make = std::move(entry.make)](const nlohmann::json& options,
                                                std::string_view where) {
      auto decoder = make(options, where);
      decoder->is_foreign_ = true;
      return decoder;
    };
  } else {
    entry.make = [make = std::move(entry.make)](const nlohmann::json& options,
                                                std::string_view where) {
      return with_minimum_bayes_risk(make(options, where), where);
    };
  }
  const std::string name = entry.name;
  RTFX_CHECK(table().emplace(name, std::move(entry)).second, "two decoders are named " + name);
}

std::vector<std::string> DecoderEntry::model_kinds() const {
  return deciding.kinds.empty() ? make(nullptr, "")->describe().model_kinds : deciding.all_kinds;
}

std::vector<const DecoderEntry*> decoder_entries() {
  std::vector<const DecoderEntry*> entries;
  for (const auto& [name, entry] : table()) entries.push_back(&entry);
  return entries;
}

const DecoderEntry& find_decoder(std::string_view name, std::string_view where) {
  const auto found = table().find(std::string(name));
  if (found == table().end()) {
    std::vector<std::string> names;
    for (const auto& [known, entry] : table()) names.push_back(known);
    throw unknown_name(where, "decoder", name, names);
  }
  return found->second;
}

std::unique_ptr<Decoder> make_decoder(std::string_view name, const nlohmann::json& options,
                                      std::string_view where) {
  return find_decoder(name, where).make(options, where);
}

std::unique_ptr<Decoder> make_decoder(std::string_view name, const nlohmann::json& options,
                                      std::string_view where, const ModelConfig& model) {
  constexpr const char* kKey = "max_symbols";
  const DecoderEntry& entry = find_decoder(name, where);
  const bool known = std::ranges::any_of(
      entry.options, [&](const OptionInfo& option) { return option.name == kKey; });
  nlohmann::json completed = options.is_null() ? nlohmann::json::object() : options;
  if (known && model.has_transducer && completed.is_object() && !completed.contains(kKey))
    completed[kKey] = model.max_symbols;
  return entry.make(completed, where);
}

void load_plugin(const std::string& path) {
  struct Loading {
    Loading() { loads_plugin = true; }
    ~Loading() { loads_plugin = false; }  // also where the plugin's registration throws
  };
  const void* library = nullptr;
  {
    const Loading loading;
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) {
    throw UserError(path, fmt::format("cannot be loaded ({})", dlerror()),
                    "a plugin is a shared library built against this rtfx");
  }
}

}  // namespace rtfx
