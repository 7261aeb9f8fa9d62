#include "harness/config/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "algorithms/decoder.h"
#include "base/error.h"
#include "base/json.h"
#include "base/sha256.h"
#include "harness/config/decoder_options.h"
#include "harness/config/document.h"

namespace rtfx {

namespace {

using nlohmann::json;

/// Reads what the table of keys cannot read: paths, names, and conditions on several keys.
class Reader {
 public:
  explicit Reader(const Document& document)
      : document_(document.value), root_(document_, document.origins.root()) {
    config_.origins = document.origins;
    open_paths(config_keys().info(), root_.where(), document_);
    errors_.run([&] { config_keys().fill_into(config_, root_); });
    if (config_.name.empty()) config_.name = document.origins.file().stem().string();
    errors_.run([&] { check_name(); });
    if (config_.output.empty()) config_.output = std::filesystem::path("runs") / config_.name;
  }

  Config read() {
    // A key that could not be read is not reported as missing further down.
    for (const std::string& plugin : config_.plugins) errors_.run([&] { load_plugin(plugin); });
    errors_.run([&] { name_models(); });
    check_datasets();
    const bool all_decoders = read_well("decoders") && expand_decoders();
    if (all_decoders) errors_.run([&] { find_baseline(); });
    for (size_t i = 0; all_decoders && i < config_.tune.size(); ++i)
      errors_.run([&] { complete_tune(config_.tune[i], element("tune", i)); });
    errors_.run([&] { make_batch_rules(); });
    std::set<std::string> dtypes;
    for (size_t i = 0; root_.find("dtypes") && i < config_.dtypes.size(); ++i)
      errors_.run([&] { unique(dtypes, config_.dtypes[i], element("dtypes", i)); });
    if (config_.protocol.aa_control && all_decoders) errors_.run([&] { add_control(); });
    if (config_.sync_debug && config_.protocol.overlapped()) {
      errors_.add({root_.where() + "/sync_debug",
                   "with \"mode\": \"throughput\": the threads of a pass would be blamed for each "
                   "other's waits",
                   "look for waits with \"mode\": \"isolated\""});
    }
    if (config_.protocol.budget_seconds > 0 && config_.protocol.precision == 0) {
      errors_.add({root_.where() + "/protocol/budget_seconds",
                   "limits only the rounds that \"precision\" adds, which is 0",
                   "give protocol.precision, or leave budget_seconds out"});
    }
    errors_.throw_any();
    return config_;
  }

 private:
  /// The name is also that of the run's folder.
  void check_name() const {
    const std::filesystem::path name = config_.name;
    if (name == name.filename() && name != "." && name != "..") return;
    throw UserError(root_.where() + "/name",
                    fmt::format("'{}' is no name of a folder in runs/", config_.name),
                    "give one without slashes; `output` may be any folder");
  }

  /// Returns whether no error is about the key.
  bool read_well(const char* key) const {
    const std::string where = fmt::format("{}/{}", root_.where(), key);
    return root_.value().is_object() && root_.find(key) &&
           std::ranges::none_of(errors_.all(),
                                [&](const UserError& e) { return e.where().starts_with(where); });
  }

  JsonView element(const char* list, size_t i) const { return root_.at(list).elements()[i]; }

  /// A slash divides the parts of a case's name, and those of a path. An id that is made of options
  /// has them in brackets, and they may be paths.
  static void unique(std::set<std::string>& seen, const std::string& id, const JsonView& where) {
    if (id.substr(0, id.find('[')).find('/') != std::string::npos)
      throw UserError(where.where(), fmt::format("'{}' has a slash", id), "give an \"id\" without");
    if (!seen.insert(id).second) {
      throw UserError(where.where(), fmt::format("'{}' is there twice", id),
                      "give another \"id\" or value");
    }
  }

  void name_models() {
    std::set<std::string> seen;
    for (size_t i = 0; i < config_.models.size(); ++i) {
      ModelSource& model = config_.models[i];
      if (model.id.empty()) model.id = model_name(model.path);
      unique(seen, model.id, element("models", i));
    }
  }

  void check_datasets() {
    std::set<std::string> seen;
    for (size_t i = 0; i < config_.datasets.size(); ++i) {
      errors_.run([&] {
        const DatasetSource& d = config_.datasets[i];
        const JsonView view = element("datasets", i);
        if (d.manifest.empty() + d.librispeech.empty() + d.files.empty() != 2)
          view.fail("an object with exactly one of manifest, librispeech, files");
        unique(seen, d.id, view);
      });
    }
  }

  /// Replaces each decoder whose options hold lists by one decoder for each combination of values.
  /// Makes every decoder once, to find errors early. Returns whether there was no error.
  bool expand_decoders() {
    std::set<std::string> seen;
    std::vector<DecoderSpec> all;
    bool well = true;
    for (size_t i = 0; i < config_.decoders.size(); ++i)
      well = errors_.run([&] { expand_decoder(i, seen, all); }) && well;
    config_.decoders = std::move(all);
    return well;
  }

  /// Replaces the paths in the object at `where` by the paths that this process opens.
  void open_paths(const std::vector<OptionInfo>& table, const std::string& where,
                  json& object) const {
    for_each_path(table, where, object, [&](const std::string& place, json& path) {
      path = config_.origins.opened(place, path.get<std::string>());
    });
  }

  void expand_decoder(size_t i, std::set<std::string>& seen, std::vector<DecoderSpec>& all) const {
    DecoderSpec spec = config_.decoders[i];
    const JsonView view = element("decoders", i);
    spec.where = view.where();
    if (spec.id.empty()) spec.id = spec.name;
    const auto& entry =
        find_decoder(spec.name, view.value().is_object() ? view.at("name").where() : spec.where);
    const std::string where = spec.where + "/options";
    open_paths(entry.options, where, spec.options);
    for (OptionValues& values : expand_lists(spec.options, where, entry.options)) {
      DecoderSpec one = spec;
      one.id += values.suffix;
      one.options = std::move(values.options);
      one.describe();
      unique(seen, one.id, view);
      all.push_back(std::move(one));
    }
  }

  void find_baseline() {
    std::vector<std::string> ids;
    for (const DecoderSpec& spec : config_.decoders) ids.push_back(spec.id);
    if (!config_.baseline.empty() && !std::ranges::count(ids, config_.baseline))
      throw unknown_name(root_.where() + "/baseline", "decoder id", config_.baseline, ids);
    std::optional<Head> chosen;
    std::string first;  // id of the first transducer decoder
    for (const DecoderSpec& spec : config_.decoders) {
      const Head head = spec.description.head;
      if (first.empty() && head == Head::transducer) first = spec.id;
      if (spec.id == config_.baseline) chosen = head;
    }
    if (config_.baseline.empty()) config_.baseline = first;
    if (!chosen || chosen == Head::transducer || (chosen == Head::ctc && first.empty())) return;
    throw UserError(root_.where() + "/baseline",
                    chosen == Head::none
                        ? fmt::format("'{}' gives no words to compare with", config_.baseline)
                        : fmt::format("'{}' is no transducer decoder", config_.baseline),
                    "CTC decoders are compared with the first of their kind by themselves");
  }

  /// Completes an entry of "tune". The id of a dataset becomes that dataset, and each range is
  /// tried at both ends. A decoder or dataset that the configuration lacks is no error here, since
  /// an override for another command may have replaced it. `rtfx tune` reports it.
  void complete_tune(TuneSpec& tune, const JsonView& view) const {
    tune.where = view.where();
    const auto dataset = std::ranges::find(config_.datasets, tune.dataset.id, &DatasetSource::id);
    if (view.at("dataset").value().is_string() && dataset != config_.datasets.end())
      tune.dataset = *dataset;
    const auto decoder = std::ranges::find(config_.decoders, tune.decoder, &DecoderSpec::id);
    if (decoder != config_.decoders.end())
      complete_ranges(tune, *decoder, view.at("options").where());
    for (size_t i = 0; i < tune.shared_with.size(); ++i) {
      const auto other = std::ranges::find(config_.decoders, tune.shared_with[i], &DecoderSpec::id);
      if (other == config_.decoders.end()) continue;  // `rtfx tune` reports it
      const std::string where = view.at("shared_with").elements()[i].where();
      for (const auto& [name, range] : tune.options) try_range(name, range, *other, where);
    }
  }

  static bool is_number(const OptionInfo& option) {
    return option.allowed.starts_with("an integer") || option.allowed.starts_with("a number");
  }

  /// Returns whether the option is a choice such as "late | early" or "true | false".
  static bool is_choice(const OptionInfo& option) {
    return option.allowed.find(" | ") != std::string::npos && !option.allowed.starts_with("null");
  }

  static void complete_ranges(TuneSpec& tune, const DecoderSpec& decoder,
                              const std::string& where) {
    const std::vector<OptionInfo>& known = find_decoder(decoder.name, where).options;
    for (auto& [name, range] : tune.options) {
      const bool is_number_wanted = range.choices.empty();
      const auto is_wanted = is_number_wanted ? is_number : is_choice;
      const auto option = std::ranges::find(known, name, &OptionInfo::name);
      if (option == known.end() || !is_wanted(*option)) {
        std::vector<std::string> names;
        for (const OptionInfo& other : known)
          if (is_wanted(other)) names.push_back(other.name);
        const char* kind = is_number_wanted ? "option that is a number" : "option with choices";
        throw unknown_name(where, kind, name, names);
      }
      range.is_integer = option->allowed.starts_with("an integer");
      try_range(name, range, decoder, where);
    }
  }

  /// Makes the decoder with both ends of the range, or with each choice.
  static void try_range(const std::string& name, const TuneRange& range, const DecoderSpec& decoder,
                        const std::string& where) {
    std::vector<json> tried = range.choices;
    if (tried.empty()) {
      for (const double end : {range.low, range.high})
        tried.push_back(range.is_integer ? json(std::llround(end)) : json(end));
    }
    for (json& value : tried) {
      json options = decoder.options;
      set_option(options, name, std::move(value));
      make_decoder(decoder.name, options, where);
    }
  }

  bool is_given(const char* key) const {
    return root_.value().is_object() && root_.find(key).has_value();
  }

  /// Returns the sizes of all datasets, if each of them names some.
  std::vector<int64_t> batch_sizes_of_datasets() const {
    std::set<int64_t> sizes;
    for (const DatasetSource& dataset : config_.datasets) {
      if (dataset.batch_sizes.empty()) return {};
      sizes.insert(dataset.batch_sizes.begin(), dataset.batch_sizes.end());
    }
    return {sizes.begin(), sizes.end()};
  }

  void make_batch_rules() {
    if (!is_given("batch_sizes") && !is_given("batch_seconds")) {
      config_.batch_sizes = batch_sizes_of_datasets();
      const bool is_unread = config_.datasets.empty() && is_given("datasets");
      if (config_.batch_sizes.empty() && !is_unread) {
        throw UserError(root_.where(), "neither batch_sizes nor batch_seconds is given",
                        "add for example \"batch_sizes\": [1, 16]");
      }
    }
    std::set<std::string> seen;
    const auto add = [&](const char* key, bool by_seconds, const auto& sizes) {
      for (size_t i = 0; i < sizes.size(); ++i) {
        const bool largest = !by_seconds && sizes[i] == kLargestBatch;
        config_.batches.push_back({by_seconds, static_cast<double>(sizes[i]), largest});
        if (is_given(key)) unique(seen, config_.batches.back().label(), element(key, i));
      }
    };
    add("batch_sizes", false, config_.batch_sizes);
    add("batch_seconds", true, config_.batch_seconds);
  }

  /// Adds the baseline a second time, under another id.
  void add_control() {
    const auto original = std::find_if(config_.decoders.begin(), config_.decoders.end(),
                                       [&](const auto& d) { return d.id == config_.baseline; });
    if (original == config_.decoders.end()) {
      throw UserError(root_.where() + "/protocol/aa_control", "there is no transducer decoder",
                      "the control repeats the baseline: name one, or leave the control out");
    }
    DecoderSpec control = *original;
    control.control_of = control.id;
    control.id += ".aa";
    const auto taken = std::ranges::find(config_.decoders, control.id, &DecoderSpec::id);
    if (taken != config_.decoders.end()) {
      throw UserError(
          taken->where,
          fmt::format("'{}' is the id of the control that protocol.aa_control adds", control.id),
          "give another \"id\"");
    }
    config_.decoders.push_back(std::move(control));
  }

  json document_;  // with paths as this process opens them, except those of decoders
  JsonView root_;
  Config config_;
  ErrorList errors_;
};

}  // namespace

std::string model_name(const std::filesystem::path& model) {
  if (model.extension() == ".nemo") return model.stem().string();
  const std::filesystem::path folder = model.has_filename() ? model : model.parent_path();
  const std::filesystem::path snapshots = folder.parent_path();
  const std::string cached = snapshots.parent_path().filename().string();
  if (snapshots.filename() == "snapshots" && cached.starts_with("models--"))
    return cached.substr(cached.rfind("--") + 2);
  return folder.filename().string();
}

void DecoderSpec::describe() {
  description = make_decoder(name, options, where + "/options")->describe();
}

std::string BatchRule::label() const {
  return largest ? "bmax" : fmt::format("{}{:g}", by_seconds ? "s" : "b", size);
}

json Config::resolved() const {
  Config given = *this;
  std::erase_if(given.decoders, [](const DecoderSpec& spec) {
    return !spec.control_of.empty();  // it follows from protocol.aa_control
  });
  return detail::without_empty(config_keys().resolved(given));  // the reader refuses "" and []
}

std::string Config::hash() const {
  json canonical = resolved();
  const std::filesystem::path folder = std::filesystem::absolute(origins.file()).parent_path();
  for_each_path_of_document(config_keys().info(), origins.root(), canonical,
                            [&](const std::string&, json& given) {
                              const auto path = std::filesystem::absolute(given.get<std::string>());
                              given = path.lexically_proximate(folder).string();
                            });
  for (const char* key : {"name", "question", "output", "protocol", "tune", "isolate"})
    canonical.erase(key);
  return sha256(to_text(canonical));
}

Config parse_config(const Document& document) {
  return document.origins.naming_overrides([&] { return Reader(document).read(); });
}

void require_sizes(const Config& config, const std::string& command) {
  if (std::ranges::none_of(config.batches, &BatchRule::largest)) return;
  throw UserError("batch_sizes",
                  fmt::format("\"max\" is found by `rtfx run`, not by `{}`", command),
                  "give a number, as --set batch_sizes=16");
}

}  // namespace rtfx
