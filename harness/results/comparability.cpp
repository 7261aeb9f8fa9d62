#include "harness/results/comparability.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "algorithms/decoder.h"

namespace rtfx {

namespace {

using nlohmann::json;

/// Returns a member as the journal has it; null if the record lacks it.
template <class T>
json shown(const Optional<T>& member) {
  return to_json(member);
}

/// Returns the entry of a list with this id.
template <class Entry>
const Entry* entry(const Optional<std::vector<Entry>>& list, const std::string& id) {
  if (!list) return nullptr;
  const auto found = std::ranges::find(*list, id, &Entry::id);
  return found == list->end() ? nullptr : &*found;
}

/// The parts of a provenance that are compared. A part that a record lacks is an empty object.
struct Machine {
  explicit Machine(const record::Provenance& provenance) {
    if (provenance.device) device = *provenance.device;
    if (provenance.cpu) cpu = *provenance.cpu;
    if (provenance.shards) shards = *provenance.shards;
  }
  json affinity_cpus() const { return cpu.affinity ? json(cpu.affinity->cpus) : json(); }
  json limit_of_cpus() const {
    return cpu.group_limits && cpu.group_limits->cpus ? cpu.group_limits->cpus->to_json() : json();
  }

  record::Device device;
  record::Cpu cpu;
  record::ShardDevices shards;
};

/// Returns whether the time of the first round contains the padding of batches.
bool counts_padding(const CaseResult& result) {
  if (result.rounds().empty()) return false;
  const auto* run = std::get_if<record::Run>(&result.rounds().front());
  return run != nullptr && run->regions.contains("pad");
}

/// Collects the differences between two results. A setting that is compared here also belongs into
/// conditions_of() and into result_key() of harness/run/provenance.cpp.
class ConditionComparison {
 public:
  ConditionComparison(const CaseResult& a, const record::Provenance& p, const CaseResult& b,
                      const record::Provenance& q)
      : a_(a), b_(b), p_(p), q_(q) {}

  std::vector<ConditionDifference> differences() {
    compare_machines();
    compare_checksums();
    const record::Dataset<record::Always>&x = a_.about().dataset, &y = b_.about().dataset;
    compare("", "dataset id", x.id, y.id);
    compare("", "dataset utterances", x.utterances, y.utterances);
    compare("", "dataset audio_seconds", x.audio_seconds.to_json(), y.audio_seconds.to_json());
    compare_modes();
    compare("", "batch", record::write(a_.about().batch), record::write(b_.about().batch));
    compare_order();
    compare_decoders();
    compare_where_said("encoder", "encoder", config_value(p_, "/encoder"),
                       config_value(q_, "/encoder"));
    compare_where_said("encoder", "encoder_graphs", config_value(p_, "/encoder_graphs"),
                       config_value(q_, "/encoder_graphs"));
    compare_where_said("libtorch", "libtorch", shown(p_.libtorch), shown(q_.libtorch));
    compare_where_said("libtorch", "cuda_runtime", shown(p_.cuda_runtime), shown(q_.cuda_runtime));
    compare_where_said("libtorch", "cudnn", shown(p_.cudnn), shown(q_.cudnn));
    compare_where_said("driver", "cuda_driver", shown(p_.cuda_driver), shown(q_.cuda_driver));
    compare("scorer", "scorer", scorer_of(a_), scorer_of(b_));
    compare_clocks();
    return std::move(found_);
  }

 private:
  void add(const char* kind, std::string text) { found_.push_back({kind, std::move(text)}); }

  void compare(const char* kind, const std::string& name, const json& x, const json& y) {
    if (x != y) add(kind, fmt::format("other {}: {}, now {}", name, x.dump(), y.dump()));
  }

  void compare_where_said(const char* kind, const std::string& name, const json& x, const json& y) {
    if (!x.is_null() && !y.is_null()) compare(kind, name, x, y);
  }

  void compare_machines() {
    const Machine x(p_), y(q_);
    compare(kOtherMachine, "device/type", shown(x.device.type), shown(y.device.type));
    compare(kOtherMachine, "device/name", shown(x.device.name), shown(y.device.name));
    compare(kOtherMachine, "cpu/threads", shown(x.cpu.threads), shown(y.cpu.threads));
    compare(kOtherMachine, "tf32", shown(p_.tf32), shown(q_.tf32));
    compare(kOtherMachine, "shards/count", shown(x.shards.count), shown(y.shards.count));
    // Journals of earlier releases do not say how the CPUs were shared.
    if (!x.cpu.wait_policy || !y.cpu.wait_policy) return;
    compare(kOtherMachine, "cpu/wait_policy", shown(x.cpu.wait_policy), shown(y.cpu.wait_policy));
    compare(kOtherMachine, "cpu/affinity/cpus", x.affinity_cpus(), y.affinity_cpus());
    compare(kOtherMachine, "cpu/group_limits/cpus", x.limit_of_cpus(), y.limit_of_cpus());
  }

  /// A different `steady_seconds` means a different kind of pass. With 0, the only pass is the
  /// first one.
  void compare_modes() {
    const json x = mode_of(a_), y = mode_of(b_);
    compare("", "protocol.mode", x, y);
    if (!x.is_object() || !y.is_object()) return;
    compare_where_said("", "protocol.steady_seconds", config_value(p_, "/protocol/steady_seconds"),
                       config_value(q_, "/protocol/steady_seconds"));
  }

  template <class Entry>
  void compare_checksum(const char* kind, const Entry* x, const Entry* y) {
    if (x != nullptr && y != nullptr && x->sha256 != y->sha256)
      add("", fmt::format("other {}: its checksum differs", kind));
  }

  void compare_checksums() {
    compare_checksum("model", entry(p_.models, a_.about().model.id),
                     entry(q_.models, b_.about().model.id));
    compare_checksum("dataset", entry(p_.datasets, a_.about().dataset.id),
                     entry(q_.datasets, b_.about().dataset.id));
    if (!p_.config || !q_.config) return;
    for (const char* key : {"att_context_size", "language"})
      compare("", key, model_setting(a_, key), model_setting(b_, key));
    compare("", "confidence", config_value(p_, "/confidence"), config_value(q_, "/confidence"));
  }

  void compare_order() {
    compare_where_said("", "sort", config_value(p_, "/sort"), config_value(q_, "/sort"));
    if (config_value(p_, "/sort") == "shuffle")
      compare_where_said("", "protocol.seed", config_value(p_, "/protocol/seed"),
                         config_value(q_, "/protocol/seed"));
  }

  void compare_decoders() {
    const record::Decoder<record::Always>&x = a_.about().decoder, &y = b_.about().decoder;
    compare("", "decoder", x.name, y.name);
    compare_options("option ", x.options ? x.options->value() : json::object(),
                    y.options ? y.options->value() : json::object());
  }

  /// Journals hold every option with its value. A missing option belongs to another release.
  void compare_options(const std::string& name, const json& x, const json& y) {
    if (!x.is_object() || !y.is_object()) return compare_values(name, x, y);
    const bool inner = name != "option ";
    for (const auto& [key, value] : x.items()) {
      if (y.contains(key)) compare_options(name + (inner ? "." : "") + key, value, y.at(key));
    }
  }

  /// Files are compared by their contents where both journals have the checksum, since they may lie
  /// elsewhere or change in place.
  void compare_values(const std::string& name, const json& x, const json& y) {
    const std::string *p = checksum(p_, x), *q = checksum(q_, y);
    const bool are_files = p != nullptr && q != nullptr;
    if (are_files ? *p == *q : x == y) return;
    const bool in_python =
        a_.about().decoder.name == "python" && b_.about().decoder.name == "python";
    add(are_files && in_python && name == "option file" ? kOtherSource : "",
        x == y ? fmt::format("other {}: the checksum of {} differs", name, x.dump())
               : fmt::format("other {}: {}, now {}", name, x.dump(), y.dump()));
  }

  /// Returns the checksum of the file that an option names; null for other values.
  static const std::string* checksum(const record::Provenance& provenance, const json& value) {
    if (!value.is_string() || !provenance.decoder_files) return nullptr;
    const auto found = provenance.decoder_files->find(value.get<std::string>());
    return found == provenance.decoder_files->end() ? nullptr : &found->second;
  }

  /// In journals of earlier releases, the clock started after the padding.
  void compare_clocks() {
    if (counts_padding(a_) != counts_padding(b_))
      add("", "only one of both counts padding as time: measure the baseline again");
  }

  const CaseResult &a_, &b_;
  const record::Provenance &p_, &q_;
  std::vector<ConditionDifference> found_;
};

}  // namespace

const std::vector<std::string>& allowable_differences() {
  static const std::vector<std::string> kinds = {"libtorch", "driver", "encoder", "scorer",
                                                 kOtherSource};
  return kinds;
}

json config_value(const record::Provenance& provenance, const char* pointer) {
  const json::json_pointer where(pointer);
  return provenance.config && provenance.config->value().contains(where)
             ? provenance.config->value().at(where)
             : json();
}

json model_setting(const CaseResult& result, const char* key) {
  for (const json& model : config_value(result.provenance(), "/models")) {
    if (model.is_object() && model.value("id", json()) == result.about().model.id)
      return model.value(key, json()) == json("") ? json() : model.value(key, json());
  }
  return nullptr;
}

json mode_of(const CaseResult& result) {
  const record::Run* run = result.summary.last_run();
  if (run == nullptr || !run->pipeline) return "isolated";
  return {{"in_flight", run->pipeline->in_flight}, {"audio", run->pipeline->audio}};
}

namespace {

/// Adds what is not there yet.
template <class Found>
void add_new(std::vector<Found>& list, std::vector<Found> more) {
  for (Found& one : more) {
    if (std::ranges::find(list, one) == list.end()) list.push_back(std::move(one));
  }
}

}  // namespace

std::vector<ConditionDifference> condition_differences(const CaseResult& a, const CaseResult& b) {
  std::vector<ConditionDifference> found;
  for (const record::Provenance* p : a.provenances()) {
    for (const record::Provenance* q : b.provenances())
      add_new(found, ConditionComparison(a, *p, b, *q).differences());
  }
  return found;
}

namespace {

/// Returns the SHA-256 of a model or dataset; null if the provenance does not have it.
template <class Entry>
json checksum(const Entry* file) {
  return file == nullptr ? json() : to_json(file->sha256);
}

/// Returns the checksums of the files among the decoder's options, at any depth.
json option_files(const Optional<Named<std::string>>& files, const OptionTree& options) {
  json found = json::object();
  if (!files) return found;
  const json flat = options.value().flatten();
  for (const auto& [key, value] : flat.items()) {
    if (!value.is_string()) continue;
    const auto file = files->find(value.get<std::string>());
    if (file != files->end()) found[key] = file->second;
  }
  return found;
}

/// Returns the decoder's options. An option that the journal lacks has its default here: the
/// release that added it decodes as before unless it is set.
json options_with_defaults(const record::Decoder<record::Always>& decoder) {
  json options = to_json(decoder.options);
  if (!options.is_object()) return options;
  for (const DecoderEntry* entry : decoder_entries()) {
    if (entry->name != std::string_view(decoder.name)) continue;
    for (const OptionInfo& option : entry->options) {
      std::string path = "/" + option.name;
      std::ranges::replace(path, '.', '/');
      const json::json_pointer place(path), object = place.parent_pointer();
      if (options.contains(object) && options[object].is_object() && !options.contains(place))
        options[place] = option.default_value;
    }
  }
  return options;
}

}  // namespace

// The names of the conditions are also those that the dashboard shows (plots/dashboard.py).
json conditions_of(const CaseResult& result) {
  const record::Case& of = result.about();
  const record::Provenance& about = result.provenance();
  const OptionTree options = of.decoder.options.value_or(OptionTree());
  const json config = about.config ? about.config->value() : json::object();
  const json sort = config_value(about, "/sort");
  const json mode = mode_of(result);
  const json steady_seconds = config_value(about, "/protocol/steady_seconds");
  const record::Exactness* exactness = result.summary.last_exactness();
  const Optional<std::string> device = about.device ? about.device->name : Optional<std::string>();
  const Optional<int64_t> threads = about.cpu ? about.cpu->threads : Optional<int64_t>();
  return {
      {"case", result.name()},
      {"decoder", of.decoder.name},
      {"options", options_with_defaults(of.decoder)},
      {"decoder_files", option_files(about.decoder_files, options)},
      {"compared_to", exactness == nullptr ? json() : json(exactness->baseline)},
      {"sort", sort},
      {"seed", sort == "shuffle" ? config_value(about, "/protocol/seed") : json()},
      {"scorer", scorer_of(result)},
      {"encoder", config.value("encoder", json("reference"))},
      {"encoder_graphs", config.value("encoder_graphs", json(false))},
      {"confidence", config_value(about, "/confidence")},
      {"threads", to_json(threads)},
      {"model", checksum(entry(about.models, of.model.id))},
      {"att_context_size", model_setting(result, "att_context_size")},
      {"language", model_setting(result, "language")},
      {"dataset", checksum(entry(about.datasets, of.dataset.id))},
      {"mode", mode},
      {"steady_seconds", mode.is_object() ? steady_seconds : json()},
      {"padding", counts_padding(result)},
      {"utterances", of.dataset.utterances},
      {"libtorch", to_json(about.libtorch)},
      {"device", to_json(device)},
      {"shards", about.shards && about.shards->count ? *about.shards->count : 1},
  };
}

namespace {

constexpr double kLeastLoad = 0.5;  // load of others may differ by this many CPUs
constexpr double kLoadShare = 0.1;  // or by this share of all CPUs, if that is more

bool apart(double a, double b, double share) {
  return std::abs(a - b) > share * std::max(std::abs(a), std::abs(b));
}

}  // namespace

bool clocks_differ(double a, double b) { return apart(a, b, 0.05); }

bool calibrations_differ(double a, double b) { return apart(a, b, 0.10); }

bool load_averages_differ(double a, double b, double cpus) {
  constexpr double kLeast = 1;
  return std::abs(a - b) > std::max(kLeast, kLoadShare * cpus);
}

namespace {

/// Returns the mean of a figure of the conditions over the rounds that count; none if a round lacks
/// it.
template <class Figure>
std::optional<double> mean_condition(const CaseResult& c, const Figure& figure) {
  const CountedRounds counted = c.summary.counted_rounds();
  double sum = 0;
  for (const record::Round* round : counted.rounds) {
    const auto* run = std::get_if<record::Run>(round);
    const std::optional<double> value =
        run == nullptr || !run->conditions ? std::nullopt : figure(*run->conditions);
    if (!value) return std::nullopt;
    sum += *value;
  }
  if (counted.rounds.empty()) return std::nullopt;
  return sum / static_cast<double>(counted.rounds.size());
}

std::optional<double> other_cpus(const CaseResult& c) {
  return mean_condition(c, [](const record::MachineConditions& conditions) {
    const Number* cpus = known(conditions.other_cpus);
    return cpus == nullptr ? std::nullopt : std::optional<double>(*cpus);
  });
}

std::optional<double> gpu_clock(const CaseResult& c) {
  return mean_condition(c, [](const record::MachineConditions& conditions) {
    return conditions.sm_clock_mhz ? std::optional<double>(conditions.sm_clock_mhz->mean)
                                   : std::nullopt;
  });
}

/// Collects reasons to doubt the times.
class Doubts {
 public:
  Doubts(const CaseResult& a, const record::Provenance& p, const CaseResult& b,
         const record::Provenance& q)
      : a_(a), b_(b), x_(Machine(p).cpu), y_(Machine(q).cpu) {}

  std::vector<std::string> all() {
    same("CPU family", x_.family, y_.family);
    same("CPU model number", x_.model_number, y_.model_number);
    same("CPU stepping", x_.stepping, y_.stepping);
    same("CPU cache, KiB", x_.cache_kib, y_.cache_kib);
    same("hypervisor", x_.hypervisor, y_.hypervisor);
    compare("CPU clock, MHz", number(x_.clock_mhz), number(y_.clock_mhz), clocks_differ);
    compare("calibration of the CPU, ms", number(x_.calibration_ms), number(y_.calibration_ms),
            calibrations_differ);
    compare("clock of the GPU, MHz", gpu_clock(a_), gpu_clock(b_), clocks_differ);
    compare_loads();
    return std::move(found_);
  }

 private:
  template <class T>
  void same(const char* name, const Optional<T>& x, const Optional<T>& y) {
    if (x && y && shown(x) != shown(y))
      found_.push_back(fmt::format("{} {}, now {}", name, shown(x).dump(), shown(y).dump()));
  }

  static std::optional<double> number(const Optional<Number>& value) {
    return value ? std::optional<double>(*value) : std::nullopt;
  }

  void compare(const char* name, std::optional<double> x, std::optional<double> y,
               bool (*differ)(double, double)) {
    if (x && y && differ(*x, *y))
      found_.push_back(fmt::format("{} {:.4g}, now {:.4g}", name, *x, *y));
  }

  /// The load average also counts the run before this one. So it is only used for journals that
  /// lack the CPUs of other programs.
  void compare_loads() {
    const auto x = other_cpus(a_), y = other_cpus(b_);
    const double cpus = static_cast<double>(y_.cores.value_or(0));
    if (x && y) {
      if (std::abs(*x - *y) > std::max(kLeastLoad, kLoadShare * cpus))
        found_.push_back(fmt::format("CPUs that other programs used {:.2f}, now {:.2f}", *x, *y));
      return;
    }
    const Number *before = rtfx::known(x_.load_average), *now = rtfx::known(y_.load_average);
    if (before == nullptr || now == nullptr) return;
    if (load_averages_differ(*before, *now, cpus))
      found_.push_back(fmt::format("load average {:.2f}, now {:.2f}", static_cast<double>(*before),
                                   static_cast<double>(*now)));
  }

  const CaseResult &a_, &b_;
  const record::Cpu x_, y_;
  std::vector<std::string> found_;
};

}  // namespace

std::vector<std::string> condition_doubts(const CaseResult& a, const CaseResult& b) {
  std::vector<std::string> found;
  for (const record::Provenance* p : a.provenances()) {
    for (const record::Provenance* q : b.provenances()) add_new(found, Doubts(a, *p, b, *q).all());
  }
  return found;
}

std::string unfit(const CaseResult& c) {
  if (c.summary.failure) return "failed: " + *c.summary.failure;
  if (!c.has_provenance()) return "no provenance record";
  for (const record::Provenance* provenance : c.provenances()) {
    const record::Build build = provenance->rtfx.value_or(record::Build());
    if (build.build_type != "Release")
      return fmt::format("a build of type {}", shown(build.build_type).dump());
    if (build.sanitizer == true) return "a build with sanitizers";
  }
  const json wanted = config_value(c.provenance(), "/protocol/measured_rounds");
  if (wanted.is_number() && c.rounds().size() < wanted.get<size_t>())
    return fmt::format("{} of {} rounds", c.rounds().size(), wanted.get<size_t>());
  const bool on_gpu = c.provenance().device && c.provenance().device->type == "cuda";
  for (const record::Round& round : c.rounds()) {
    const auto* run = std::get_if<record::Run>(&round);
    if (on_gpu && (run == nullptr || !run->conditions || !run->conditions->sm_clock_mhz))
      return "no GPU clocks in its records";
  }
  return "";
}

Grade required_grade(const CaseResult& a, const CaseResult& b) {
  return std::min(a.summary.required, b.summary.required);
}

}  // namespace rtfx
