#include "harness/run/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "harness/config/decoder_options.h"
#include "harness/config/plan.h"
#include "harness/results/results.h"
#include "harness/results/statistics.h"
#include "harness/run/loaded_inputs.h"
#include "harness/run/run.h"
#include "harness/run/weight_search.h"
#include "harness/scoring/normalize.h"

namespace rtfx {

namespace {

using nlohmann::json;

/// Ends the search after an interrupt has ended a measurement.
struct TuningInterrupted {};

/// Returns the weight as JSON: 0.25, 4, "late".
json weight_value(double weight, const TuneRange& range) {
  if (!range.choices.empty()) return range.choices.at(static_cast<size_t>(weight));
  return range.is_integer ? json(static_cast<int64_t>(weight)) : json(weight);
}

/// Returns a choice as a table shows it: "late", "true".
std::string text_of(const json& choice) {
  return choice.is_string() ? choice.get<std::string>() : choice.dump();
}

/// Measures one decoder with many weights.
class Tuner {
 public:
  Tuner(const Config& config, const TuneSpec& spec, Journal::Mode mode)
      : spec_(spec), normalizer_(find_normalizer(config.scorer, "scorer")) {
    for (const auto& [name, range] : spec.options) {
      names_.push_back(name);
      ranges_.push_back(range);
    }
    decoder_ = *std::ranges::find(config.decoders, spec.decoder, &DecoderSpec::id);
    config_ = of_one_round(config);
    keep_models();  // what is missing is an error before an earlier journal is set aside
    journal_.emplace(config_.output, mode);
  }

  std::vector<WeighedErrors> search() {
    return search_weights(ranges_, spec_.grid, spec_.tolerance,
                          [&](const std::vector<Weights>& points) { return count(points); });
  }

  /// Sets the weights in `options`.
  void set(json& options, const Weights& weights) const {
    for (size_t i = 0; i < names_.size(); ++i)
      set_option(options, names_[i], weight_value(weights[i], ranges_[i]));
  }

  Interval wer(const Weights& weights) const {
    const std::vector<EditCounts>& edits = edits_.at(weights);
    std::vector<EditCounts> perfect(edits.size());
    for (size_t i = 0; i < edits.size(); ++i) perfect[i].reference_words = edits[i].reference_words;
    return bootstrap_wer_difference(perfect, edits, /*seed=*/1);
  }

  /// Prints the table of all points that were tried, and marks the best point of each combination
  /// of choices.
  void print(const std::vector<WeighedErrors>& tried) const {
    const std::vector<EditCounts>& edits = edits_.at(tried.front().weights);
    int64_t words = 0;
    for (const EditCounts& one : edits) words += one.reference_words;
    fmt::print("{} on {}: {} utterances, {} words, scorer {}\n", printable(spec_.decoder),
               printable(spec_.dataset.id), edits.size(), words, normalizer_.name);
    std::vector<WeighedErrors> curve = tried;
    std::ranges::sort(curve, {}, &WeighedErrors::weights);
    std::vector<size_t> widths;
    for (size_t i = 0; i < names_.size(); ++i) {
      widths.push_back(std::max<size_t>(12, names_[i].size()));
      for (const json& choice : ranges_[i].choices)
        widths[i] = std::max(widths[i], text_of(choice).size());
      fmt::print("  {:>{}}", names_[i], widths[i]);
    }
    fmt::print("  {:>7}  {:>15}  errors\n", "WER %", "95 % interval");
    std::set<Weights> best;
    std::set<Weights> combinations;
    for (const WeighedErrors& point : tried)
      if (combinations.insert(choices_of(point.weights, ranges_)).second)
        best.insert(point.weights);
    for (const WeighedErrors& point : curve) {
      for (size_t i = 0; i < names_.size(); ++i)
        fmt::print("  {:>{}}", value_text(point.weights, i), widths[i]);
      const Interval rate = wer(point.weights);
      const std::string interval =
          std::isfinite(rate.high)
              ? fmt::format("{:>6.2f} - {:>6.2f}", 100 * rate.low, 100 * rate.high)
              : "none";  // a single utterance
      fmt::print("  {:>7.2f}  {:>15}  {:>6}{}\n", 100 * rate.estimate, interval, point.errors,
                 point.weights == tried.front().weights ? "  <- chosen"
                 : best.contains(point.weights)         ? "  <- best of its choices"
                                                        : "");
    }
  }

  /// Returns the chosen weights and their measurement, for the configuration.
  json chosen(const Weights& weights) const {
    json options = json::object();
    for (size_t i = 0; i < names_.size(); ++i)
      options[names_[i]] = weight_value(weights[i], ranges_[i]);
    const Interval rate = wer(weights);
    const json interval =
        std::isfinite(rate.high) ? json{rate.low, rate.high} : json();  // null for one utterance
    return {{"options", options},
            {"wer", rate.estimate},
            {"interval", interval},
            {"utterances", edits_.at(weights).size()},
            {"scorer", normalizer_.name}};
  }

 private:
  /// Word errors repeat, so one round, one batch size and one dtype suffice.
  Config of_one_round(Config config) const {
    config.output = config.output / "tune" / spec_.decoder;
    config.datasets = {spec_.dataset};
    config.datasets.front().batch_sizes.clear();
    config.decoders = {decoder_};
    config.batches.resize(1);
    config.batch_sizes.resize(std::min<size_t>(1, config.batch_sizes.size()));
    config.batch_seconds.resize(config.batch_sizes.empty() ? 1 : 0);
    config.dtypes.resize(1);
    config.baseline.clear();
    config.tune.clear();
    config.stream.reset();
    config.isolate = false;
    config.replay = config.isolated = false;  // only word errors are needed
    config.confidence.reset();
    config.protocol.steady_seconds = config.protocol.energy_seconds = 0;
    config.protocol.warmup_rounds = 0;
    config.protocol.measured_rounds = 1;
    config.protocol.aa_control = false;
    config.protocol.precision = 0;
    return config;
  }

  /// Keeps only the models for which the options are chosen.
  void keep_models() {
    std::vector<ModelSource>& models = config_.models;
    if (!spec_.models.empty()) {
      std::erase_if(models, [&](const ModelSource& model) {
        return std::ranges::count(spec_.models, model.id) == 0;
      });
    }
    // the decoder may name kinds of models
    const std::vector<ModelKinds> kinds = LoadedInputs(config_).kinds();
    std::vector<ModelSource> wanted;
    for (size_t i = 0; i < models.size(); ++i) {
      if (!spec_.models.empty() || is_wanted(decoder_, models[i], kinds[i]))
        wanted.push_back(models[i]);
    }
    if (wanted.empty()) {
      throw UserError(spec_.where + "/decoder",
                      fmt::format("'{}' is for none of the models", spec_.decoder),
                      "check its \"models\"");
    }
    models = std::move(wanted);
  }

  /// Returns, for example, "0.25" or "late". Numbers have all digits, since they name cases.
  std::string value_text(const Weights& weights, size_t i) const {
    const TuneRange& range = ranges_[i];
    return range.choices.empty() ? fmt::format("{}", weights[i])
                                 : text_of(weight_value(weights[i], range));
  }

  std::string id_of(const Weights& weights) const {
    std::string id = spec_.decoder;
    for (size_t i = 0; i < names_.size(); ++i)
      id += fmt::format("[{}={}]", names_[i], value_text(weights, i));
    return id;
  }

  std::vector<int64_t> count(const std::vector<Weights>& points) {
    config_.decoders.clear();
    for (const Weights& weights : points) {
      DecoderSpec& one = config_.decoders.emplace_back(decoder_);
      one.id = id_of(weights);
      one.models.clear();
      one.datasets.clear();
      one.baseline.clear();
      set(one.options, weights);
      one.describe();
    }
    // Later steps of the search would repeat the notices of the first one.
    if (!measure(config_, /*with_notices=*/edits_.empty())) throw TuningInterrupted();
    const ResultSet results = read_results(config_.output);
    std::vector<int64_t> errors;
    for (const Weights& weights : points) errors.push_back(count(results, weights));
    return errors;
  }

  /// Returns whether the case is of this search. A resumed journal may have others.
  bool is_planned(const CaseResult& result) const {
    const record::Case& about = result.about();
    const auto is_its = [&](const ModelSource& model) { return model.id == about.model.id; };
    const BatchRule& rule = config_.batches.front();
    const bool is_its_size = rule.largest ? about.batch.largest.value_or(false)
                                          : (about.batch.by == "seconds") == rule.by_seconds &&
                                                about.batch.size == rule.size;
    return about.dataset.id == spec_.dataset.id && about.dtype == config_.dtypes.front() &&
           is_its_size && std::ranges::any_of(config_.models, is_its);
  }

  /// Counts errors over all models.
  int64_t count(const ResultSet& results, const Weights& weights) {
    const std::string id = id_of(weights);
    std::vector<EditCounts>& edits = edits_[weights];
    for (const CaseResult& c : results.cases) {
      if (c.decoder() != id || !is_planned(c)) continue;
      if (c.summary.failure) throw UserError(c.name(), *c.summary.failure, "see its journal");
      const auto texts = read_hypotheses(results, c);
      if (!texts) {
        const std::string& key = c.about().result_key;
        throw UserError((config_.output / "hypotheses" / (key + ".jsonl")).string(),
                        "no such file, though the journal has its case",
                        "--force measures all points again");
      }
      size_t utterance = 0;
      for (const UtteranceText& text : *texts) {
        if (!text.reference) continue;
        // An utterance counts once, with the words of all models.
        if (utterance == edits.size()) edits.emplace_back();
        edits[utterance++] +=
            count_edits(normalizer_.words(*text.reference), normalizer_.words(text.text));
      }
    }
    EditCounts total;
    for (const EditCounts& one : edits) total += one;
    return total.errors();
  }

  const TuneSpec& spec_;
  const Normalizer& normalizer_;
  std::vector<std::string> names_;  // names of the options, in the order of the weights
  std::vector<TuneRange> ranges_;
  DecoderSpec decoder_;
  Config config_;
  std::optional<Journal> journal_;                    // locked for the whole search
  std::map<Weights, std::vector<EditCounts>> edits_;  // edits of each utterance
};

/// Returns the entry of `decoders` in the document for the id, as an object with options.
json& decoder_entry(json& document, const std::string& id) {
  json& list = document.at("decoders");
  if (!list.is_array()) list = json::array({list});
  for (json& entry : list) {
    if (entry == id) entry = {{"name", id}};
    const std::string own = text_in(entry, "id");
    if ((own.empty() ? text_in(entry, "name") : own) != id) continue;
    json& options = entry["options"];
    if (options.is_null()) options = json::object();
    return entry;
  }
  throw UserError("decoders", fmt::format("'{}' stands for several decoders", id),
                  "give the one that is tuned an entry of its own");
}

/// Returns the ids of the decoders that get the chosen values.
std::vector<std::string> ids_of(const TuneSpec& spec) {
  std::vector<std::string> ids = spec.shared_with;
  ids.insert(ids.begin(), spec.decoder);
  return ids;
}

void require_named(const Config& config, const TuneSpec& spec) {
  std::vector<std::string> decoders, datasets;
  for (const DecoderSpec& decoder : config.decoders) decoders.push_back(decoder.id);
  for (const DatasetSource& dataset : config.datasets) datasets.push_back(dataset.id);
  if (std::ranges::find(decoders, spec.decoder) == decoders.end())
    throw unknown_name(spec.where + "/decoder", "decoder id", spec.decoder, decoders);
  for (const std::string& id : spec.shared_with)
    if (std::ranges::find(decoders, id) == decoders.end())
      throw unknown_name(spec.where + "/shared_with", "decoder id", id, decoders);
  std::vector<std::string> models;
  for (const ModelSource& model : config.models) models.push_back(model.id);
  for (const std::string& id : spec.models)
    if (std::ranges::find(models, id) == models.end())
      throw unknown_name(spec.where + "/models", "model id", id, models);
  const DatasetSource& dev = spec.dataset;
  if (dev.manifest.empty() && dev.librispeech.empty() && dev.files.empty())
    throw unknown_name(spec.where + "/dataset", "dataset id", dev.id, datasets);
}

/// An option has one value in a decoder's entry, so only one search may choose it.
void require_chosen_once(const Config& config) {
  std::map<std::string, std::string> chosen_at;
  for (const TuneSpec& spec : config.tune) {
    for (const std::string& id : ids_of(spec)) {
      const auto [other, is_first] = chosen_at.emplace(id, spec.where);
      if (is_first) continue;
      throw UserError(spec.where,
                      fmt::format("decoder '{}' gets values from {} too", id, other->second),
                      "give each model or set a decoder of its own (\"models\", \"datasets\")");
    }
  }
}

/// Returns the development sets. Throws UserError for one that is missing or has no words to count
/// errors against.
std::vector<Dataset> development_sets(const Config& config) {
  const Normalizer& normalizer = find_normalizer(config.scorer, "scorer");
  const auto has_words = [&](const Utterance& utterance) {
    return utterance.text && !normalizer.words(*utterance.text).empty();
  };
  std::vector<Dataset> sets;
  for (const TuneSpec& spec : config.tune) {
    const Dataset& dataset = sets.emplace_back(load_dataset(spec.dataset));
    if (std::ranges::any_of(dataset.utterances, has_words)) continue;
    throw UserError("dataset '" + spec.dataset.id + "'", "has no texts to count errors against",
                    "give a development set with transcripts");
  }
  return sets;
}

void require_same_folder(const std::filesystem::path& target, const std::filesystem::path& file) {
  namespace fs = std::filesystem;
  if (fs::weakly_canonical(fs::absolute(target)).parent_path() ==
      fs::weakly_canonical(fs::absolute(file)).parent_path())
    return;
  throw UserError(target.string(), "is in another folder than the configuration",
                  "paths in both are relative to it: write it there");
}

/// The recordings of a set, and where in them its utterances begin.
using Recordings = std::set<std::pair<std::filesystem::path, double>>;

Recordings recordings(const Dataset& dataset) {
  Recordings found;
  for (const Utterance& utterance : dataset.utterances)
    found.emplace(std::filesystem::weakly_canonical(utterance.audio), utterance.segment.offset);
  return found;
}

/// Returns the set, without utterances if it is missing.
Dataset dataset_if_there(const DatasetSource& source) {
  try {
    return load_dataset(source);
  } catch (const UserError&) {
    return {.id = source.id, .utterances = {}, .sha256 = {}, .stand_in = {}};
  }
}

/// Says where development sets share utterances with the sets that the configuration measures. A
/// missing set is no error here.
void note_common_utterances(const Config& config, const std::vector<Dataset>& development) {
  std::map<std::string, Recordings> measured;
  for (const DatasetSource& source : config.datasets)
    measured[source.id] = recordings(dataset_if_there(source));
  std::set<std::string> seen;
  for (const Dataset& dataset : development) {
    if (!seen.insert(dataset.id).second) continue;
    const Recordings dev = recordings(dataset);
    for (const auto& [id, test] : measured) {
      std::vector<Recordings::value_type> common;
      std::ranges::set_intersection(dev, test, std::back_inserter(common));
      if (common.empty()) continue;
      print_message(
          "rtfx: notice: {} of the {} utterances of the development set {} are in the set "
          "{} too, whose word error rate will be too good\n",
          common.size(), dev.size(), printable(dataset.id), printable(id));
    }
  }
}

}  // namespace

void note_tuned_on_test_sets(const Config& config) {
  std::vector<Dataset> sets;
  std::set<std::string> seen;  // many searches share a set, and reading it takes time
  for (const TuneSpec& spec : config.tune)
    if (!spec.chosen.is_null() && seen.insert(spec.dataset.id).second)
      sets.push_back(dataset_if_there(spec.dataset));
  if (!sets.empty()) note_common_utterances(config, sets);
}

int tune(const Config& config, json document, const std::filesystem::path& target,
         Journal::Mode mode) {
  if (config.tune.empty()) {
    throw UserError(
        config.origins.file().string(), "has no key \"tune\"",
        R"(add "tune": {"decoder": ID, "dataset": ID, "options": {"lm.alpha": [0, 1]}})");
  }
  require_same_folder(target, config.origins.file());
  require_regular_or_new(target);
  config.origins.naming_overrides([&] {
    for (const TuneSpec& spec : config.tune) require_named(config, spec);
    require_chosen_once(config);
  });
  if (!document["tune"].is_array()) document["tune"] = json::array({document["tune"]});
  // Missing entries and sets are found before anything is measured.
  for (const TuneSpec& spec : config.tune)
    for (const std::string& id : ids_of(spec)) decoder_entry(document, id);
  note_common_utterances(config, development_sets(config));
  try {
    for (size_t i = 0; i < config.tune.size(); ++i) {
      Tuner tuner(config, config.tune[i], mode);
      const std::vector<WeighedErrors> tried = tuner.search();
      tuner.print(tried);
      for (const std::string& id : ids_of(config.tune[i]))
        tuner.set(decoder_entry(document, id)["options"], tried.front().weights);
      document["tune"][i]["chosen"] = tuner.chosen(tried.front().weights);
    }
  } catch (const TuningInterrupted&) {
    return kInterrupted;
  }
  write_file(target, to_text(document, 2) + "\n");
  fmt::print("\nnext: rtfx run {}\n", for_shell(target.string()));
  return kOk;
}

}  // namespace rtfx
