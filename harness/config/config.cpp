#include "harness/config/config.h"

#include <fmt/format.h>

#include <fstream>
#include <set>
#include <sstream>

#include "algorithms/registry.h"
#include "base/error.h"
#include "base/json_view.h"
#include "base/sha256.h"
#include "harness/config/decoder_options.h"
#include "harness/scoring/exactness.h"
#include "harness/scoring/normalize.h"
#include "models/architectures.h"

namespace rtfx {
namespace {

using nlohmann::json;
const std::vector<std::string> kDtypes = {"fp32", "bf16", "fp16"};

/// One reading of a document; methods fill one part of the configuration each.
class Reader {
 public:
  Reader(const JsonView& root, std::filesystem::path folder)
      : root_(root), folder_(std::move(folder)) {}

  Config read(const std::string& default_name) {
    root_.check_keys(
        {"name", "question", "device", "threads", "models", "datasets", "decoders", "baseline",
         "batch_sizes", "batch_seconds", "dtypes", "sort", "protocol", "verify", "scorer",
         "encoder_graphs", "sync_debug", "isolate", "output", "plugins", "stream",
         // Read by harness/cli/prepare.cpp and, of a published table, `rtfx reproduce`.
         "prepare", "paper", "cells"});
    config_.name = text("name", default_name);
    config_.question = root_.at("question").text();
    config_.device = text("device", "auto");
    config_.sort =
        choice("sort", {"duration_desc", "duration_asc", "none", "shuffle"}, "duration_desc");
    config_.scorer = text("scorer", config_.scorer);
    find_normalizer(config_.scorer, root_.where() + "/scorer");
    config_.output = text("output", (std::filesystem::path("runs") / config_.name).string());
    if (const auto v = root_.find("threads")) config_.threads = v->integer(0, 1024);
    if (const auto v = root_.find("encoder_graphs")) config_.encoder_graphs = v->boolean();
    if (const auto v = root_.find("sync_debug")) config_.sync_debug = v->boolean();
    if (const auto v = root_.find("isolate")) config_.isolate = v->boolean();
    if (const auto v = root_.find("plugins")) {
      for (const JsonView& plugin : v->elements()) config_.plugins.push_back(path(plugin).string());
    }
    for (const std::string& plugin : config_.plugins) load_plugin(plugin);
    read_models();
    read_datasets();
    read_decoders();
    read_batches();
    if (const auto v = root_.find("dtypes")) {
      config_.dtypes.clear();
      std::set<std::string> seen;
      for (const JsonView& dtype : v->elements()) {
        config_.dtypes.push_back(dtype.choice(kDtypes));
        unique(seen, config_.dtypes.back(), dtype.where());
      }
    }
    read_protocol();
    if (const auto v = root_.find("stream")) config_.stream = read_stream_options(*v);
    if (config_.protocol.aa_control) add_control();
    return config_;
  }

 private:
  std::string text(const std::string& key, const std::string& fallback) const {
    const auto found = root_.find(key);
    return found ? found->text() : fallback;
  }
  std::string choice(const std::string& key, const std::vector<std::string>& allowed,
                     const std::string& fallback) const {
    const auto found = root_.find(key);
    return found ? found->choice(allowed) : fallback;
  }
  std::filesystem::path path(const JsonView& v) const {
    return (folder_ / v.text()).lexically_normal();
  }

  void unique(std::set<std::string>& seen, const std::string& id, const std::string& where) const {
    if (!seen.insert(id).second) {
      throw UserError(where, fmt::format("'{}' is there twice", id),
                      "give another \"id\" or value");
    }
  }

  void read_models() {
    std::set<std::string> seen;
    for (const JsonView& v : root_.at("models").elements()) {
      ModelSource model;
      if (v.value().is_object()) {
        v.check_keys({"id", "path", "fallback", "att_context_size"});
        model.path = path(v.at("path"));
        if (const auto fallback = v.find("fallback")) model.fallback = read_fallback(*fallback);
        if (const auto id = v.find("id")) model.id = id->text();
        if (const auto context = v.find("att_context_size"))
          for (const JsonView& n : context->elements())
            model.att_context_size.push_back(n.integer(-1, 1 << 20));
      } else {
        model.path = path(v);
      }
      if (model.id.empty()) model.id = name_of(model.path);
      unique(seen, model.id, v.where());
      config_.models.push_back(model);
    }
  }

  /// "parakeet-ctc-1.1b" of parakeet-ctc-1.1b.nemo, and of the folder parakeet-ctc-1.1b/.
  static std::string name_of(const std::filesystem::path& model) {
    if (model.extension() == ".nemo") return model.stem().string();
    return (model.has_filename() ? model : model.parent_path()).filename().string();
  }

  ModelSource::Fallback read_fallback(const JsonView& v) const {
    v.check_keys({"encoder", "decoder"});
    return {v.at("encoder").choice(architecture_names()), path(v.at("decoder"))};
  }

  void read_datasets() {
    std::set<std::string> seen;
    for (const JsonView& v : root_.at("datasets").elements()) {
      v.check_keys({"id", "manifest", "fallback", "librispeech", "files", "limit"});
      DatasetSource dataset;
      if (const auto m = v.find("manifest")) dataset.manifest = path(*m).string();
      if (const auto m = v.find("librispeech")) dataset.librispeech = path(*m).string();
      if (const auto m = v.find("files")) {
        for (const JsonView& file : m->elements()) dataset.files.push_back(path(file).string());
      }
      if (const auto m = v.find("limit")) dataset.limit = m->integer(1);
      if (dataset.manifest.empty() + dataset.librispeech.empty() + dataset.files.empty() != 2) {
        v.fail("an object with exactly one of manifest, librispeech, files");
      }
      if (const auto fallback = v.find("fallback")) {
        if (dataset.manifest.empty()) fallback->fail("no fallback, or one for a manifest");
        dataset.fallback = path(*fallback).string();
      }
      dataset.id = v.at("id").text();
      unique(seen, dataset.id, v.where());
      config_.datasets.push_back(dataset);
    }
  }

  void read_decoders() {
    std::set<std::string> seen;
    for (const JsonView& v : root_.at("decoders").elements()) {
      DecoderSpec spec;
      spec.where = v.where();
      if (v.value().is_object()) {
        v.check_keys({"id", "name", "options", "models"});
        spec.name = v.at("name").text();
        if (const auto o = v.find("options")) spec.options = o->value();
        if (const auto m = v.find("models")) {
          for (const JsonView& model : m->elements()) spec.models.push_back(model.text());
        }
        if (const auto id = v.find("id")) spec.id = id->text();
      } else {
        spec.name = v.text();
      }
      if (spec.id.empty()) spec.id = spec.name;
      const std::string where = spec.where + "/options";
      const std::string at = v.value().is_object() ? "/name" : "";
      spec.options =
          with_present_names(spec.options, where, find_decoder(spec.name, spec.where + at).options);
      for (OptionValues& values : expand_lists(spec.options, where)) {
        DecoderSpec one = spec;
        one.id += values.suffix;
        one.options = std::move(values.options);
        for_each_file(one.name, one.options, [&](json& file) {
          file = (folder_ / file.get<std::string>()).lexically_normal().string();
        });
        make_decoder(one.name, one.options, where);
        unique(seen, one.id, v.where());
        config_.decoders.push_back(std::move(one));
      }
    }
    config_.baseline = text("baseline", "");
    if (!config_.baseline.empty() && !seen.contains(config_.baseline)) {
      const std::vector<std::string> ids(seen.begin(), seen.end());
      throw unknown_name(root_.where() + "/baseline", "decoder id", config_.baseline, ids);
    }
    for (const DecoderSpec& spec : config_.decoders) {
      const auto decoder = make_decoder(spec.name, spec.options, spec.where);
      const bool transducer = decoder->describe().head == Head::transducer;
      if (config_.baseline.empty() && transducer) config_.baseline = spec.id;
      if (config_.baseline == spec.id && !transducer) {
        throw UserError(root_.where() + "/baseline",
                        fmt::format("'{}' is no transducer decoder", spec.id),
                        "CTC decoders are compared with the first of their kind by themselves");
      }
    }
  }

  void read_batches() {
    std::set<std::string> seen;
    if (const auto v = root_.find("batch_sizes")) {
      for (const JsonView& size : v->elements()) {
        config_.batches.push_back({false, static_cast<double>(size.integer(1, 65536))});
        unique(seen, config_.batches.back().label(), size.where());
      }
    }
    if (const auto v = root_.find("batch_seconds")) {
      for (const JsonView& size : v->elements()) {
        config_.batches.push_back({true, size.number(1, 1e6)});
        unique(seen, config_.batches.back().label(), size.where());
      }
    }
    if (config_.batches.empty()) {
      throw UserError(root_.where(), "neither batch_sizes nor batch_seconds is given",
                      "add for example \"batch_sizes\": [1, 16]");
    }
  }

  void read_protocol() {
    if (const auto v = root_.find("protocol")) {
      v->check_keys({"warmup_rounds", "measured_rounds", "seed", "cv_max", "aa_control",
                     "precision", "extra_rounds", "budget_seconds"});
      Protocol& p = config_.protocol;
      if (const auto x = v->find("warmup_rounds")) p.warmup_rounds = x->integer(0, 1000);
      if (const auto x = v->find("measured_rounds")) p.measured_rounds = x->integer(1, 1000);
      if (const auto x = v->find("seed")) p.seed = x->integer(0);
      if (const auto x = v->find("cv_max")) p.cv_max = x->number(0, 10);
      if (const auto x = v->find("aa_control")) p.aa_control = x->boolean();
      if (const auto x = v->find("precision")) p.precision = x->number(0, 1);
      if (const auto x = v->find("extra_rounds")) p.extra_rounds = x->integer(0, 1000);
      if (const auto x = v->find("budget_seconds")) p.budget_seconds = x->number(0, 1e7);
    }
    if (const auto v = root_.find("verify")) {
      v->check_keys({"required"});
      if (const auto required = v->find("required")) {
        required->check_keys(kDtypes);
        for (const std::string& dtype : kDtypes) {
          if (const auto grade = required->find(dtype))
            config_.required[dtype] = grade->choice(grade_names());
        }
      }
    }
  }

  /// The baseline once more, under another id.
  void add_control() {
    const auto original = std::find_if(config_.decoders.begin(), config_.decoders.end(),
                                       [&](const auto& d) { return d.id == config_.baseline; });
    if (original == config_.decoders.end()) {
      throw UserError(root_.where() + "/protocol/aa_control", "there is no transducer decoder",
                      "the control repeats the baseline; leave it out");
    }
    DecoderSpec control = *original;
    control.control_of = control.id;
    control.id += ".aa";
    config_.decoders.push_back(std::move(control));
  }

  JsonView root_;
  std::filesystem::path folder_;
  Config config_;
};

/// Sets a.b.0.c in the document, making objects on the way.
void apply_override(json& document, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw UserError("--set " + text, "not of the form a.b=value",
                    "for example --set protocol.measured_rounds=5");
  }
  json value = json::parse(text.substr(equals + 1), nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) value = text.substr(equals + 1);
  std::string pointer;
  std::istringstream keys(text.substr(0, equals));
  for (std::string key; std::getline(keys, key, '.');) pointer += "/" + key;
  try {
    document[json::json_pointer(pointer)] = value;
  } catch (const json::exception&) {
    throw UserError("--set " + text, "no such place in the configuration", "check the path");
  }
}

}  // namespace

std::string BatchRule::label() const { return fmt::format("{}{:g}", by_seconds ? "s" : "b", size); }

json Config::resolved() const {
  json out = {{"name", name},
              {"question", question},
              {"device", device},
              {"threads", threads},
              {"baseline", baseline},
              {"dtypes", dtypes},
              {"sort", sort},
              {"scorer", scorer},
              {"encoder_graphs", encoder_graphs},
              {"sync_debug", sync_debug},
              {"isolate", isolate},
              {"output", output.string()},
              {"plugins", plugins},
              {"verify", {{"required", required}}}};
  out["protocol"] = {{"warmup_rounds", protocol.warmup_rounds},
                     {"measured_rounds", protocol.measured_rounds},
                     {"seed", protocol.seed},
                     {"cv_max", protocol.cv_max},
                     {"aa_control", protocol.aa_control},
                     {"precision", protocol.precision},
                     {"extra_rounds", protocol.extra_rounds},
                     {"budget_seconds", protocol.budget_seconds}};
  if (stream) out["stream"] = stream->resolved();
  for (const ModelSource& m : models) {
    json entry = {{"id", m.id}, {"path", m.path.string()}};
    if (m.fallback) {
      entry["fallback"] = {{"encoder", m.fallback->encoder},
                           {"decoder", m.fallback->decoder.string()}};
    }
    if (!m.att_context_size.empty()) entry["att_context_size"] = m.att_context_size;
    out["models"].push_back(entry);
  }
  for (const DatasetSource& d : datasets) {
    json entry = {{"id", d.id}};
    if (!d.manifest.empty()) entry["manifest"] = d.manifest;
    if (!d.fallback.empty()) entry["fallback"] = d.fallback;
    if (!d.librispeech.empty()) entry["librispeech"] = d.librispeech;
    if (!d.files.empty()) entry["files"] = d.files;
    if (d.limit > 0) entry["limit"] = d.limit;
    out["datasets"].push_back(entry);
  }
  for (const DecoderSpec& d : decoders) {
    if (!d.control_of.empty()) continue;  // follows from protocol.aa_control
    json entry = {{"id", d.id}, {"name", d.name}, {"options", d.options}};
    if (!d.models.empty()) entry["models"] = d.models;
    out["decoders"].push_back(entry);
  }
  for (const BatchRule& b : batches) {
    if (b.by_seconds) {
      out["batch_seconds"].push_back(b.size);
    } else {
      out["batch_sizes"].push_back(static_cast<int64_t>(b.size));
    }
  }
  return out;
}

std::string Config::hash() const {
  json canonical = resolved();
  for (const char* key : {"name", "question", "output", "protocol", "isolate"})
    canonical.erase(key);
  const auto relative = [&](json& path) {
    path = std::filesystem::path(path.get<std::string>())
               .lexically_proximate(file.parent_path())
               .string();
  };
  for (json& model : canonical["models"]) {
    relative(model["path"]);
    if (model.contains("fallback")) relative(model["fallback"]["decoder"]);
  }
  for (json& plugin : canonical["plugins"]) relative(plugin);
  for (json& decoder : canonical["decoders"])
    for_each_file(decoder["name"], decoder["options"], relative);
  for (json& dataset : canonical["datasets"]) {
    for (const char* key : {"manifest", "fallback", "librispeech"}) {
      if (dataset.contains(key)) relative(dataset[key]);
    }
    if (dataset.contains("files")) {
      for (json& file : dataset["files"]) relative(file);
    }
  }
  return sha256(canonical.dump());
}

Config parse_config(json document, const std::filesystem::path& file,
                    const std::vector<std::string>& overrides) {
  for (const std::string& text : overrides) apply_override(document, text);
  Config config = Reader(JsonView(document, file.string() + "#"), file.parent_path())
                      .read(file.stem().string());
  config.file = file;
  config.overrides = overrides;
  return config;
}

json read_document(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  if (std::filesystem::is_directory(file))
    throw UserError(file.string(), "is a directory", "give a JSON file");
  std::ifstream in(file);
  if (!in) throw UserError(file.string(), "cannot be read", "check the path");
  try {
    json document = json::parse(in);
    for (const std::string& text : overrides) apply_override(document, text);
    return document;
  } catch (const json::parse_error& e) {
    throw UserError(file.string(), fmt::format("not JSON: {}", e.what()),
                    "plain JSON, no comments");
  }
}

Config load_config(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  return parse_config(read_document(file, {}), file, overrides);
}

}  // namespace rtfx
