#include "harness/cli/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>

#include "algorithms/decoder.h"
#include "base/error.h"
#include "datasets/audio_files.h"
#include "datasets/dataset.h"
#include "datasets/manifest.h"
#include "models/formats/hub.h"
#include "models/load_checkpoint.h"

namespace rtfx {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kDecoderFlag = "--decoder";

/// Splits at commas outside of brackets.
std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

json value_of(const std::string& text) {
  json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_discarded() ? json(text) : value;
}

/// Returns whether a part of a bracket begins an option: "file=a.py", not "8" or "a/b=c".
bool begins_option(const std::string& part) {
  const size_t end =
      part.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
  return end != std::string::npos && end > 0 && part[end] == '=' && std::isalpha(part[0]) != 0;
}

[[noreturn]] void refuse(const std::string& where) {
  throw UserError(where, "what follows the name is not of the form [option=value]",
                  "for example 'label_looping[window=1,8]'");
}

/// Takes an option such as "[window=1,8,max_symbols=5]" from the front of `text`.
void take_option(std::string& text, json& options, const std::string& where) {
  const size_t equals = text.find('='), end = text.find(']');
  if (text.front() != '[' || end == std::string::npos || equals > end) refuse(where);
  std::vector<std::pair<std::string, json>> found;  // JSON pointers and lists of values
  const std::vector<std::string> parts = split(text.substr(1, end - 1));
  if (parts.front().find('=') == std::string::npos) refuse(where);
  for (const std::string& part : parts) {
    const size_t begin = found.empty() || begins_option(part) ? part.find('=') + 1 : 0;
    if (begin > 0) found.emplace_back("/" + part.substr(0, begin - 1), json::array());
    found.back().second.push_back(value_of(part.substr(begin)));
  }
  for (auto& [pointer, values] : found) {
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    try {
      if (options.contains(json::json_pointer(pointer))) {
        throw UserError(where, "an option is given twice",
                        "give its values with commas between them: 'label_looping[window=1,8]'");
      }
      options[json::json_pointer(pointer)] = values.size() == 1 ? values[0] : values;
    } catch (const json::exception&) {
      throw UserError(where, "an option is given as a value and as an object",
                      "leave one of them out");
    }
  }
  text.erase(0, end + 1);
}

json decoder_of(const std::string& text) {
  const std::string where = fmt::format("{} {}", kDecoderFlag, text);
  const size_t bracket = std::min(text.find('['), text.size());
  std::string name = text.substr(0, bracket);
  find_decoder(name, where);
  json decoder = {{"name", name}, {"options", json::object()}};
  std::string rest = text.substr(bracket);
  while (!rest.empty()) take_option(rest, decoder["options"], where);
  if (decoder["options"].empty()) return name;
  return decoder;
}

/// Returns whether the reader of LibriSpeech would find a transcript or a broken link to one.
bool is_librispeech(const fs::path& folder) {
  constexpr const char* kEnding = ".trans.txt";
  // Unreadable folders are no error here. Reading the dataset reports them.
  std::vector<UserError> skipped;
  try {
    if (!files_below(folder, {kEnding}, nullptr, &skipped).empty()) return true;
  } catch (const UserError&) {
    return false;  // there is no such file
  }
  return std::ranges::any_of(
      skipped, [&](const UserError& error) { return error.where().ends_with(kEnding); });
}

/// Returns the name, with a number behind it if it is in `taken` already, and adds it there.
std::string numbered(const std::string& name, std::set<std::string>& taken) {
  std::string id = name;
  for (int n = 2; !taken.insert(id).second; ++n) id = fmt::format("{}-{}", name, n);
  return id;
}

std::string name_of(const fs::path& path) {
  const fs::path named = path.has_filename() ? path : path.parent_path();
  return fs::is_directory(path) ? named.filename().string() : named.stem().string();
}

/// Returns the datasets. Each manifest and each folder is one, and all audio files together are
/// one.
json datasets_of(const BenchOptions& options) {
  json sets = json::array(), files = json::array();
  std::set<std::string> ids;
  const auto add = [&](const std::string& name, json set) {
    set["id"] = numbered(name, ids);
    if (options.limit > 0) set["limit"] = options.limit;
    sets.push_back(std::move(set));
  };
  for (const std::string& data : options.data) {
    const fs::path path = data;
    if (!fs::exists(path))
      throw UserError("--data " + data, "no such file or folder", "check the path");
    if (fs::is_directory(path)) {
      const bool speech = is_librispeech(path);
      add(name_of(path), speech ? json{{"librispeech", data}} : json{{"files", {data}}});
    } else if (is_manifest(path)) {
      add(path.stem() == "manifest" && path.has_parent_path() ? name_of(path.parent_path())
                                                              : name_of(path),
          {{"manifest", data}});
    } else {
      files.push_back(data);
    }
  }
  if (!files.empty()) add("files", {{"files", files}});
  return sets;
}

/// Returns the baseline of each head that a model has, and the fastest decoder that needs no GPU
/// kernels.
json usual_decoders(const BenchOptions& options) {
  bool ctc = false, transducer = false;
  for (const std::string& model : options.models) {
    for (const std::string& kind : load_checkpoint(model, {}).config.kinds())
      (kind == "ctc" ? ctc : transducer) = true;
  }
  json decoders = json::array();
  const auto add = [&](const char* name, const std::vector<std::string>& kinds) {
    decoders.push_back({{"name", name}, {"models", kinds}});
  };
  if (transducer) add("frame_looping", {"rnnt", "tdt", "multiblank"});
  if (transducer) add("label_looping", {"rnnt", "tdt", "multiblank"});
  if (ctc) add("ctc_greedy", {"ctc"});
  return decoders;
}

}  // namespace

json bench_decoders(const std::string& text) {
  json decoders = json::array();
  for (const std::string& one : split(text)) decoders.push_back(decoder_of(one));
  return decoders;
}

json bench_document(const BenchOptions& options) {
  ErrorList errors;
  for (const std::string& plugin : options.plugins) errors.run([&] { load_plugin(plugin); });
  json document = {
      {"name", "bench"},
      {"question", "Which decoder is fastest, and are their results the same?"},
      {"device", options.device},
      {"threads", options.threads},
      {"models", json::array()},
      {"batch_sizes", options.batches},
      {"dtypes", options.dtypes},
      {"output", options.output},
      {"protocol", {{"warmup_rounds", options.warmup}, {"measured_rounds", options.rounds}}}};
  errors.run([&] { document["datasets"] = datasets_of(options); });
  json decoders = json::array();
  for (const std::string& text : options.decoders) {
    errors.run([&] {
      for (json& decoder : bench_decoders(text)) decoders.push_back(std::move(decoder));
    });
  }
  std::set<std::string> ids;
  std::set<fs::path> paths;
  for (const std::string& model : options.models) {
    errors.run([&] {
      const fs::path path = find_checkpoint(model);
      if (!fs::exists(path))
        throw UserError("--model " + model, "no such file or folder", "check the path");
      if (!paths.insert(fs::absolute(path).lexically_normal()).second)
        throw UserError("--model " + model, "is there twice", "name it once");
      const std::string name = model_name(path), id = numbered(name, ids);
      document["models"].push_back(id == name ? json(path.string())
                                              : json{{"id", id}, {"path", path.string()}});
    });
  }
  errors.throw_any();
  if (!options.plugins.empty()) document["plugins"] = options.plugins;
  document["decoders"] = options.decoders.empty() ? usual_decoders(options) : decoders;
  return document;
}

Config bench_config(const BenchOptions& options) {
  return parse_config({bench_document(options), "rtfx bench"});
}

}  // namespace rtfx
