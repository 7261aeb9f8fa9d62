#include "harness/cli/inspect.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDAFunctions.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/gpu/graph.h"
#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "harness/config/config.h"
#include "harness/machine/conditions.h"
#include "harness/machine/device_memory.h"
#include "harness/machine/sudden_end.h"
#include "harness/profile/nsight_session.h"
#include "harness/profile/roofline.h"
#include "harness/results/metrics.h"
#include "models/dtypes.h"
#include "models/load_checkpoint.h"
#include "speech/runtime/build.h"
#include "speech/runtime/device.h"

namespace rtfx {

namespace {

using nlohmann::json;

constexpr int64_t kPieces = 12;  // pieces of the vocabulary that are printed as a sample

/// Returns the name of a stored type. Files also hold integers, such as counts of batches.
std::string type_name(at::ScalarType type) {
  return at::isFloatingType(type) ? dtype_name(type) : c10::toString(type);
}

/// Returns the bytes of the weights by type, such as {"fp16": 26123456}.
json stored_bytes(const StateDict& weights) {
  std::map<std::string, int64_t> bytes;
  for (const auto& [name, tensor] : weights)
    bytes[type_name(tensor.scalar_type())] += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

json features_record(const FeatureConfig& f) {
  static constexpr const char* kNames[] = {"none", "per_feature", "all_features", "fixed"};
  return {{"sample_rate", f.sample_rate},
          {"mel_bins", f.mel_bins},
          {"n_fft", f.n_fft},
          {"window_samples", f.window},
          {"hop_samples", f.hop},
          {"window", f.window_shape},
          {"preemphasis", f.preemphasis},
          {"normalize", kNames[static_cast<size_t>(f.normalization)]}};
}

json encoder_record(const ModelConfig& config) {
  const EncoderConfig& e = config.encoder;
  static constexpr const char* kStyles[] = {"regular", "chunked_limited",
                                            "chunked_limited_with_rc"};
  static constexpr const char* kPositions[] = {"rel_pos", "rel_pos_local_attn", "abs_pos"};
  static constexpr const char* kNorms[] = {"batch_norm", "fused_batch_norm", "layer_norm",
                                           "group_norm", "instance_norm"};
  const bool stacking = e.front_end == EncoderConfig::FrontEnd::stacking;
  return {{"layers", e.layers},
          {"width", e.width},
          {"heads", e.heads},
          {"feed_forward_expansion", e.feed_forward_expansion},
          {"conv_kernel", e.conv_kernel},
          {"conv_norm", kNorms[static_cast<size_t>(e.conv_norm)]},
          {"conv_right_context",
           e.conv_right_context < 0 ? (e.conv_kernel - 1) / 2 : e.conv_right_context},
          {"use_bias", e.use_bias},
          {"xscaling", e.x_scaling},
          {"subsampling", stacking                  ? "stacking"
                          : e.depthwise_subsampling ? "dw_striding"
                                                    : "striding"},
          {"subsampling_factor", e.subsampling_factor},
          {"causal_downsampling", e.causal_downsampling},
          {"frame_seconds", config.frame_seconds()},
          {"self_attention_model", kPositions[static_cast<size_t>(e.positions)]},
          {"att_context_style", kStyles[static_cast<size_t>(e.context_style)]},
          {"att_context_size", e.context},
          {"att_context_sizes", e.contexts},
          {"global_tokens", e.global_tokens}};
}

/// Null for a model without prompts. The default is null if each utterance must state a language.
json prompts_record(const PromptConfig& prompt) {
  if (prompt.count == 0) return nullptr;
  json of_default;
  for (const auto& [language, id] : prompt.languages)
    if (id == prompt.standard && (of_default.is_null() || language == "auto"))
      of_default = language;
  return {{"count", prompt.count},
          {"width", prompt.width},
          {"default", prompt.standard < 0 ? json() : json(prompt.standard)},
          {"default_language", of_default},
          {"languages", prompt.languages}};
}

json heads_record(const ModelConfig& config) {
  json record = {{"ctc", config.has_ctc}, {"transducer", config.has_transducer}};
  if (!config.has_transducer) return record;
  const PredictionConfig& p = config.prediction;
  const bool lstm = p.kind == PredictionConfig::Kind::lstm;
  record["prediction"] = {{"kind", lstm ? "lstm" : "stateless"},
                          {"width", p.width},
                          {lstm ? "layers" : "context", lstm ? p.layers : p.context_size}};
  record["joint"] = {{"width", config.joint_width}, {"activation", config.joint_activation}};
  record["durations"] = config.durations;
  record["blank_durations"] = config.blank_durations;
  record["max_symbols"] = config.max_symbols;
  return record;
}

json decoders_for(const ModelConfig& config) {
  const std::vector<std::string> kinds = config.kinds();
  json names = json::array();
  for (const DecoderEntry* entry : decoder_entries()) {
    const std::vector<std::string> served = entry->model_kinds();
    const bool serves = std::ranges::any_of(served, [&](const std::string& kind) {
      return std::ranges::find(kinds, kind) != kinds.end();
    });
    if (serves) names.push_back(entry->name);
  }
  return names;
}

json vocabulary_record(const Tokenizer& tokenizer) {
  json pieces = json::array();
  for (int32_t id = 0; id < std::min(kPieces, tokenizer.size()); ++id)
    pieces.push_back(tokenizer.piece(id));
  return {{"kind", tokenizer.kind()}, {"tokens", tokenizer.size()}, {"first", pieces}};
}

std::string list(const json& values) {
  std::vector<std::string> texts;
  for (const json& value : values)
    texts.push_back(value.is_string() ? value.get<std::string>() : value.dump());
  return fmt::format("{}", fmt::join(texts, ", "));
}

void line(const char* name, const std::string& text) {
  constexpr size_t kIndent = 15;
  print_wrapped(fmt::format("  {:<12} {}", name, printable(text)), kIndent);
}

std::string encoder_line(const json& e) {
  return fmt::format("{} layers, width {}, {} heads, kernel {} ({}), {} {}x, {:g} ms a frame",
                     e["layers"].get<int64_t>(), e["width"].get<int64_t>(),
                     e["heads"].get<int64_t>(), e["conv_kernel"].get<int64_t>(),
                     e["conv_norm"].get<std::string>(), e["subsampling"].get<std::string>(),
                     e["subsampling_factor"].get<int64_t>(),
                     1e3 * e["frame_seconds"].get<double>());
}

std::string context_line(const json& e) {
  std::string text =
      fmt::format("{}, {} {}", e["self_attention_model"].get<std::string>(),
                  e["att_context_style"].get<std::string>(), e["att_context_size"].dump());
  if (e["att_context_sizes"].size() > 1) text += "; offered: " + list(e["att_context_sizes"]);
  if (const auto tokens = e["global_tokens"].get<int64_t>(); tokens > 0)
    text += fmt::format("; {} global tokens", tokens);
  if (e["causal_downsampling"].get<bool>()) text += "; causal down-sampling";
  return text;
}

void print_lines(const std::string& file, const json& m) {
  fmt::print("{}\n", printable(file));
  line("format", m["format"]);
  if (!m["stand_in"].is_null()) {
    line("stand-in", m["stand_in"]);
    line("made by", m["stand_in_recipe"]);
  }
  line("class", m["class"]);
  line("kind", list(m["kinds"]));
  std::string stored;
  for (const auto& [type, bytes] : m["stored_bytes"].items())
    stored +=
        fmt::format("{}{:.1f} MB {}", stored.empty() ? "" : ", ", bytes.get<double>() / 1e6, type);
  line("parameters",
       fmt::format("{:.4g} million; stored as {}", m["parameters"].get<double>() / 1e6, stored));
  const json& f = m["features"];
  line("features", fmt::format("{} mel bins, window {} and hop {} samples at {} Hz, normalize {}",
                               f["mel_bins"].get<int64_t>(), f["window_samples"].get<int64_t>(),
                               f["hop_samples"].get<int64_t>(), f["sample_rate"].get<int64_t>(),
                               f["normalize"].get<std::string>()));
  line("encoder", encoder_line(m["encoder"]));
  line("attention", context_line(m["encoder"]));
  if (const json& p = m["prompts"]; !p.is_null()) {
    std::string names;
    for (const auto& [language, id] : p["languages"].items())
      names += (names.empty() ? "" : ", ") + language;
    const json& language = p["default_language"];
    line("languages",
         fmt::format("{}; default {}", names,
                     language.is_null() ? p["default"].is_null() ? "none: give one"
                                                                 : "prompt " + p["default"].dump()
                                        : language.get<std::string>()));
  }
  const json& h = m["heads"];
  if (h["transducer"].get<bool>()) {
    const json& p = h["prediction"];
    const bool lstm = p["kind"] == "lstm";
    line("prediction",
         fmt::format("{}, width {}, {} {}", p["kind"].get<std::string>(), p["width"].get<int64_t>(),
                     p[lstm ? "layers" : "context"].get<int64_t>(), lstm ? "layers" : "labels"));
    line("joint",
         fmt::format("width {}, {}; at most {} symbols a frame", h["joint"]["width"].get<int64_t>(),
                     h["joint"]["activation"].get<std::string>(), h["max_symbols"].get<int64_t>()));
    if (!h["durations"].empty()) line("durations", list(h["durations"]));
    if (!h["blank_durations"].empty())
      line("blanks", "skip " + list(h["blank_durations"]) + " frames");
  }
  const json& v = m["vocabulary"];
  line("vocabulary", fmt::format("{} tokens, {}: {} ...", v["tokens"].get<int64_t>(),
                                 v["kind"].get<std::string>(), to_text(v["first"])));
  json names = json::array();
  const char* label = "decoders";
  for (const json& name : m["decoders"]) {
    if (list(names).size() + name.get_ref<const std::string&>().size() > 64) {
      line(label, list(names) + ",");
      label = "";
      names.clear();
    }
    names.push_back(name);
  }
  line(label, list(names));
  for (const json& notice : m["notices"]) line("notice", notice);
  if (!m["ignored"].empty()) {
    line("ignored", fmt::format("{} tensors that decoding does not need ({}, ...)",
                                m["ignored"].size(), m["ignored"][0].get<std::string>()));
  }
}

}  // namespace

json describe_model(const Checkpoint& c) {
  return {{"format", c.format},
          {"stand_in", c.stand_in.empty() ? json() : json(c.stand_in)},
          {"stand_in_recipe", c.stand_in.empty() ? json() : json(c.stand_in_recipe)},
          {"class", c.config.target},
          {"kinds", c.config.kinds()},
          {"parameters", c.parameters},
          {"stored_bytes", stored_bytes(c.weights)},
          {"features", features_record(c.config.features)},
          {"encoder", encoder_record(c.config)},
          {"prompts", prompts_record(c.config.prompt)},
          {"heads", heads_record(c.config)},
          {"vocabulary", vocabulary_record(*c.tokenizer)},
          {"decoders", decoders_for(c.config)},
          {"notices", c.notices},
          {"ignored", c.ignored}};
}

int inspect(const std::filesystem::path& model, bool as_json) {
  json record = describe_model(load_checkpoint(model));
  record["file"] = model.string();
  if (as_json) {
    fmt::print("{}\n", to_text(record, 2));
  } else {
    print_lines(model.string(), record);
  }
  return kOk;
}

namespace {

json to_json(const std::vector<OptionInfo>& options) {
  json list = json::array();
  for (const OptionInfo& o : options) {
    list.push_back(
        {{"name", o.name}, {"help", o.help}, {"allowed", o.allowed}, {"default", o.default_value}});
    if (!o.default_text.empty()) list.back()["default_text"] = o.default_text;
  }
  return list;
}

constexpr size_t kContinued = 4;  // spaces before a continued line on a narrow terminal

void print_options(const std::vector<OptionInfo>& options, const std::string& indent) {
  for (const OptionInfo& o : options) {
    print_wrapped(fmt::format("{}{:<24} {} [{}; default {}]", indent, o.name, o.help, o.allowed,
                              default_of(o)),
                  indent.size() + kContinued);
  }
}

json to_json(const DecoderEntry& entry) {
  const Description d = entry.make(nullptr, "")->describe();
  const bool exact = d.exactness == Description::Exactness::exact;
  return {{"name", entry.name},
          {"summary", entry.summary},
          {"models", entry.model_kinds()},
          {"exactness", exact ? "exact" : "approximate"},
          {"options", to_json(entry.options)}};
}

void print_decoder(const DecoderEntry& entry) {
  fmt::print("{}\n", entry.name);
  print_wrapped("    " + entry.summary, kContinued);
  print_options(entry.options, "    ");
}

void print_decoders(bool as_json) {
  json list = json::array();
  for (const DecoderEntry* entry : decoder_entries()) {
    if (as_json) {
      list.push_back(to_json(*entry));
    } else {
      print_decoder(*entry);
    }
  }
  if (as_json) fmt::print("{}\n", list.dump(2));
}

void print_keys(const std::vector<OptionInfo>& keys, bool as_json) {
  if (as_json) {
    fmt::print("{}\n", to_json(keys).dump(2));
  } else {
    print_options(keys, "");
  }
}

void print_metrics(bool as_json) {
  if (as_json) return fmt::print("{}\n", metrics_json().dump(2));
  for (const Metric& m : metrics())
    print_wrapped(
        fmt::format("{:<24} {} [{}]", m.key, m.meaning, *m.unit == '\0' ? "share" : m.unit),
        kContinued);
}

/// Returns the keys that are `name` or members of it.
std::vector<OptionInfo> keys_of(const std::string& name) {
  std::vector<OptionInfo> keys = config_keys().info();
  std::erase_if(keys, [&](const OptionInfo& key) {
    return key.name != name && !key.name.starts_with(name + ".");
  });
  return keys;
}

}  // namespace

void print_list(const std::string& what, bool as_json) {
  if (what == "decoders") return print_decoders(as_json);
  if (what == "config") return print_keys(config_keys().info(), as_json);
  if (what == "metrics") return print_metrics(as_json);
  std::vector<std::string> allowed = {"decoders", "config", "metrics"};
  for (const DecoderEntry* entry : decoder_entries()) {
    allowed.push_back(entry->name);
    if (entry->name != what) continue;
    if (as_json) {
      fmt::print("{}\n", to_json(*entry).dump(2));
    } else {
      print_decoder(*entry);
    }
    return;
  }
  const auto keys = keys_of(what);
  if (keys.empty()) throw unknown_name("list", "decoder or key", what, allowed);
  print_keys(keys, as_json);
}

namespace {

/// `problem` says why not; empty if all is well.
void report(const char* what, const std::string& problem, const std::string& good,
            const char* bad = "no") {
  constexpr size_t kIndent = 27;
  print_wrapped(fmt::format("{:<5} {:<20} {}", problem.empty() ? "ok" : bad, what,
                            problem.empty() ? good : problem),
                kIndent);
}

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

void report_cpu() {
  report("CPU", "",
         fmt::format("{}, {}, {} by default", device_name(at::kCPU),
                     counted(std::thread::hardware_concurrency(), "core"),
                     counted(at::get_num_threads(), "thread")));
  const std::string governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (!governor.empty()) {
    report("CPU governor",
           governor == "performance"
               ? ""
               : governor + ": clocks follow the load, and RTFx changes with them",
           governor, "note");
  }
  const bool waits = !first_line("/proc/self/schedstat").empty();
  report("waiting for a CPU",
         waits ? ""
               : "not measured, since the kernel has no schedstat: rtfx cannot tell that the "
                 "machine is busy",
         "measured; rounds that waited are marked suspect", "note");
  const std::string policy = wait_policy();
  report("waiting threads",
         policy == "passive"
             ? ""
             : policy + ": not passive; on a busy machine, waiting threads slow the others down",
         policy, "note");
}

void report_gpu(at::DeviceIndex index) {
  const at::Device device(at::kCUDA, index);
  const cudaDeviceProp& p = *at::cuda::getDeviceProperties(index);
  const bool built = p.major >= 8;
  report(fmt::format("GPU {}", index).c_str(),
         built
             ? ""
             : fmt::format("{}: compute capability {}.{}, 8.0 is needed", p.name, p.major, p.minor),
         fmt::format("{}, {:.0f} GiB, compute capability {}.{}", p.name,
                     static_cast<double>(p.totalGlobalMem) / (1U << 30U), p.major, p.minor));
  std::string problem;
  const auto nvml = Nvml::open(pci_bus_id(device), problem);
  if (!nvml) return report("  clocks", problem + ": rtfx gate refuses runs without clocks", "");
  const GpuState state = nvml->state();
  std::string throttle;
  for (const std::string& name : throttle_names(state.throttle_reasons)) throttle += " " + name;
  const auto shown = [](std::optional<double> figure) {
    return figure ? fmt::format("{:.0f}", *figure) : "?";
  };
  report("  clocks", throttle.empty() ? "" : "throttled:" + throttle,
         fmt::format("SM {} of {:.0f} MHz, memory {} MHz, {} °C, {} W", shown(state.sm_clock_mhz),
                     nvml->max_sm_clock_mhz(), shown(state.memory_clock_mhz),
                     shown(state.temperature_c), shown(state.power_w)),
         "note");
}

void report_gpus() {
  const int count = c10::cuda::device_count();
  report("CUDA",
         count > 0 ? "" : "no GPU, or no driver that serves this CUDA runtime: see nvidia-smi",
         fmt::format("{} GPU(s)", count));
  for (int i = 0; i < count; ++i) report_gpu(static_cast<at::DeviceIndex>(i));
  if (count > 0) report("conditional nodes", conditional_nodes_missing(), "in CUDA graphs");
  CuptiLibrary cupti;
  std::string problem;
  cupti.load(problem);
  report("CUPTI", problem, "rtfx profile shows what the GPU does: " + cupti.path);
  const std::string nsys = find_nsys().string(), ncu = find_ncu().string();
  report("Nsight Systems", nsys.empty() ? "no nsys: rtfx profile --nsys cannot record here" : "",
         "rtfx profile --nsys: " + nsys, "note");
  report("Nsight Compute",
         ncu.empty() ? "no ncu: rtfx profile --roofline computes bytes and FLOP from shapes" : "",
         "rtfx profile --roofline counts bytes and FLOP: " + ncu, "note");
}

}  // namespace

int doctor() {
  const std::string warning = build_warning();
  report("build", warning, version_text());
  report_cpu();
  report_gpus();
  return warning.empty() ? kOk : kFailed;
}

}  // namespace rtfx
