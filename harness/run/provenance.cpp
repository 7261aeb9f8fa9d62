#include "harness/run/provenance.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/utsname.h>

#include <cmath>
#include <thread>

#include "algorithms/decoder.h"
#include "base/json.h"
#include "base/sha256.h"
#include "harness/config/document.h"
#include "harness/machine/cpu.h"
#include "harness/machine/sudden_end.h"
#include "speech/runtime/build.h"
#include "speech/runtime/device.h"

namespace rtfx {
namespace {

using nlohmann::json;

record::Device device_field(at::Device device) {
  record::Device field;
  field.type = device.is_cuda() ? "cuda" : "cpu";
  field.name = device_name(device);
  if (!device.is_cuda()) return field;
  const cudaDeviceProp& properties = *at::cuda::getDeviceProperties(device.index());
  std::string uuid = "GPU-";
  for (const char byte : properties.uuid.bytes)
    uuid += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  field.name = properties.name;
  field.memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  field.multiprocessors = properties.multiProcessorCount;
  field.capability = fmt::format("{}.{}", properties.major, properties.minor);
  field.uuid = uuid;
  return field;
}

/// Returns the version of the installed driver. LibTorch has loaded the CUDA runtime; rtfx itself
/// does not link it.
int driver_version() {
  using Function = int (*)(int*);
  const auto function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, "cudaDriverGetVersion"));
  int version = 0;
  if (function != nullptr) function(&version);
  return version;
}

/// Adds the versions of CUDA's libraries; null on a CPU.
void add_cuda_versions(record::Provenance& provenance, at::Device device) {
  using Version = Nullable<std::string>;
  const bool gpu = device.is_cuda();
  const auto version = [&](int64_t v) {
    return gpu ? Version(fmt::format("{}.{}", v / 1000, v % 1000 / 10)) : Version();
  };
  provenance.cuda_runtime = version(CUDART_VERSION);
  provenance.cuda_driver = version(gpu ? driver_version() : 0);
  provenance.cudnn =
      gpu ? Nullable<int64_t>(at::detail::getCUDAHooks().versionCuDNN()) : std::nullopt;
}

/// Returns the CPUs that this process may use, and the load of others.
record::Cpu cpu_field() {
  const std::vector<int> cpus = allowed_cpus();
  const CgroupLimits limits = group_limits();
  double load = 0;
  const bool known = ::getloadavg(&load, 1) == 1;
  record::Cpu field;
  field.model = device_name(at::kCPU);
  const CpuIdentity cpu = cpu_identity();
  if (cpu.family) field.family = *cpu.family;
  if (cpu.model_number) field.model_number = *cpu.model_number;
  if (cpu.stepping) field.stepping = *cpu.stepping;
  if (cpu.cache_kib) field.cache_kib = *cpu.cache_kib;
  if (cpu.clock_mhz) field.clock_mhz = Number(*cpu.clock_mhz);
  field.hypervisor = Nullable<std::string>(cpu.hypervisor);
  field.calibration_ms = Number(calibration_ms());
  field.cores = std::thread::hardware_concurrency();
  field.threads = at::get_num_threads();
  field.wait_policy = wait_policy();
  field.affinity.emplace();
  field.affinity->cpus = static_cast<int64_t>(cpus.size());
  field.affinity->list = ranges_text(cpus);
  field.load_average = known ? Nullable<Number>(std::round(100 * load) / 100) : std::nullopt;
  field.group_limits.emplace();
  if (limits.cpus) field.group_limits->cpus = Number(*limits.cpus);
  field.group_limits->memory_bytes = limits.memory_bytes;
  return field;
}

std::vector<record::ModelFile> model_fields(const LoadedInputs& inputs) {
  std::vector<record::ModelFile> list;
  for (size_t i = 0; i < inputs.checkpoints().size(); ++i) {
    const Checkpoint& c = inputs.checkpoints()[i];
    const ModelSource& source = inputs.config().models[i];
    using Text = Nullable<std::string>;
    record::ModelFile& field = list.emplace_back();
    field.id = source.id;
    field.path = source.path.string();
    field.format = c.format;
    field.kind = c.config.kind();
    field.sha256 = c.sha256();
    field.stand_in =
        c.stand_in.empty() ? Text() : Text(fmt::format("{} ({})", c.stand_in, c.stand_in_recipe));
    field.parameters = c.parameters;
    field.notices = c.notices;
  }
  return list;
}

std::vector<record::DatasetFile> dataset_fields(const LoadedInputs& inputs) {
  std::vector<record::DatasetFile> list;
  for (size_t i = 0; i < inputs.datasets().size(); ++i) {
    const LoadedDataset& d = inputs.datasets()[i];
    const DatasetSource& source = inputs.config().datasets[i];
    const std::string path = !source.manifest.empty()      ? source.manifest
                             : !source.librispeech.empty() ? source.librispeech
                                                           : source.files.front();
    using Text = Nullable<std::string>;
    record::DatasetFile& field = list.emplace_back();
    field.id = source.id;
    field.path = path;
    field.stand_in = d.dataset.stand_in.empty() ? Text() : Text(d.dataset.stand_in);
    field.utterances = static_cast<int64_t>(d.dataset.utterances.size());
    field.audio_seconds = Number(d.audio_seconds);
    field.load_seconds = Number(d.load_seconds);
    field.sha256 = d.dataset.sha256;
    field.notices = d.notices;
  }
  return list;
}

record::Build build_field() {
  record::Build field;
  field.version = build().version;
  field.revision = build().revision;
  field.dirty = build().dirty;
  field.build_type = build().type;
  field.compiler = build().compiler;
  field.sanitizer = build().sanitized;
  return field;
}

/// Returns the checksums of the files that the decoder's options name.
json files_of(const LoadedInputs& inputs, DecoderSpec spec) {
  json checksums = json::array();
  for_each_path(find_decoder(spec.name, spec.where).options, spec.where, spec.options,
                [&](const std::string&, json& file) {
                  checksums.push_back(inputs.decoder_files().at(file.get<std::string>()));
                });
  return checksums;
}

}  // namespace

std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::now()));
}

record::Provenance provenance_record(const LoadedInputs& inputs, at::Device device,
                                     const std::string& started) {
  const Config& config = inputs.config();
  utsname host{};
  uname(&host);
  record::Provenance record;
  record.kind = "provenance";
  record.schema = 1;
  record.started = started;
  record.name = config.name;
  record.question = config.question;
  record.config = OptionTree{config.resolved()};
  record.config_hash = config.hash();
  record.rtfx = build_field();
  record.libtorch = build().libtorch;
  add_cuda_versions(record, device);
  record.device = device_field(device);
  record.cpu = cpu_field();
  record.host_name = host.nodename;
  record.host_os = fmt::format("{} {}", host.sysname, host.release);
  record.tf32 = at::globalContext().allowTF32CuBLAS();
  record.models = model_fields(inputs);
  record.datasets = dataset_fields(inputs);
  record.decoder_files.emplace(inputs.decoder_files().begin(), inputs.decoder_files().end());
  record.provenance_id = sha256(to_text(record::write(record))).substr(0, 16);
  return record;
}

// A setting that changes results also belongs into the two lists of
// harness/results/comparability.cpp, by which journals are compared.
std::string result_key(const LoadedInputs& inputs, const CaseGroup& group,
                       const PlannedDecoder& decoder, const json& options, at::Device device) {
  const Config& config = inputs.config();
  json identity = {{"case", decoder.case_name},
                   {"decoder", config.decoders[decoder.spec].name},
                   {"options", options},
                   {"decoder_files", files_of(inputs, config.decoders[decoder.spec])},
                   {"compared_to", decoder.compared_to},
                   {"sort", config.sort},
                   {"scorer", config.scorer},
                   {"encoder", config.encoder},
                   {"encoder_graphs", config.encoder_graphs},
                   {"threads", at::get_num_threads()},
                   {"model", inputs.checkpoints()[group.model].sha256()},
                   {"att_context_size", config.models[group.model].att_context_size},
                   {"language", config.models[group.model].language},
                   {"dataset", inputs.datasets()[group.dataset].dataset.sha256},
                   {"utterances", inputs.datasets()[group.dataset].dataset.utterances.size()},
                   // The dataset's checksum is that of its manifest, which only names the files.
                   {"audio", inputs.audio_sha256(group.dataset)},
                   {"revision", build().revision},
                   {"libtorch", build().libtorch},
                   {"device", device_name(device)}};
  if (config.protocol.overlapped())
    identity["throughput"] = {config.protocol.throughput.in_flight,
                              config.protocol.throughput.audio, config.protocol.steady_seconds};
  // Results that were not checked must be measured again if the check is wanted.
  if (!config.replay) identity["replay"] = false;
  if (config.protocol.overlapped() && !config.isolated) identity["isolated"] = false;
  if (!inputs.shard().whole()) identity["shard"] = inputs.shard().label();
  if (config.confidence) identity["confidence"] = confidence_options().resolved(*config.confidence);
  if (config.sort == "shuffle") identity["seed"] = config.protocol.seed;
  if (config.sync_debug) identity["sync_debug"] = true;
  for (const std::string& plugin : config.plugins) {
    // The loader looks for a name without a folder in its own folders.
    identity["plugins"].push_back(std::filesystem::exists(plugin) ? sha256_file(plugin) : plugin);
  }
  // A build that is not for measuring must not add rounds to those of one that is.
  if (build().type != "Release") identity["build_type"] = build().type;
  if (build().sanitized) identity["sanitizer"] = true;
  if (build().dirty) identity["changes"] = build().changes;
  return sha256(to_text(identity)).substr(0, 16);
}

}  // namespace rtfx
