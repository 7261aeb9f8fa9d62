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

#include "algorithms/registry.h"
#include "base/sha256.h"
#include "harness/config/paths.h"
#include "harness/machine/wait_policy.h"
#include "speech/runtime/build.h"
#include "speech/runtime/cpu_share.h"
#include "speech/runtime/device.h"

namespace rtfx {
namespace {

using nlohmann::json;

json device_record(at::Device device) {
  if (!device.is_cuda()) return {{"type", "cpu"}, {"name", device_name(device)}};
  const cudaDeviceProp& properties = *at::cuda::getDeviceProperties(device.index());
  std::string uuid = "GPU-";
  for (const char byte : properties.uuid.bytes)
    uuid += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return {{"type", "cuda"},
          {"name", properties.name},
          {"memory_bytes", properties.totalGlobalMem},
          {"multiprocessors", properties.multiProcessorCount},
          {"capability", fmt::format("{}.{}", properties.major, properties.minor)},
          {"uuid", uuid}};
}

/// The real driver's version. LibTorch has loaded the CUDA runtime; rtfx itself does not link it.
int driver_version() {
  using Function = int (*)(int*);
  const auto function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, "cudaDriverGetVersion"));
  int version = 0;
  if (function != nullptr) function(&version);
  return version;
}

json cuda_versions(at::Device device) {
  if (!device.is_cuda()) return {{"runtime", nullptr}, {"driver", nullptr}, {"cudnn", nullptr}};
  const auto version = [](int64_t v) { return fmt::format("{}.{}", v / 1000, v % 1000 / 10); };
  return {{"runtime", version(CUDART_VERSION)},
          {"driver", version(driver_version())},
          {"cudnn", at::detail::getCUDAHooks().versionCuDNN()}};
}

/// The CPUs that this process may use, and who else wants them.
json cpu_record() {
  const std::vector<int> cpus = allowed_cpus();
  const GroupLimits limits = group_limits();
  double load = 0;
  const bool known = ::getloadavg(&load, 1) == 1;
  return {{"model", device_name(at::kCPU)},
          {"cores", std::thread::hardware_concurrency()},
          {"threads", at::get_num_threads()},
          {"wait_policy", wait_policy()},
          {"affinity", {{"cpus", cpus.size()}, {"list", ranges_text(cpus)}}},
          {"load_average", known ? json(std::round(100 * load) / 100) : json()},
          {"group_limits",
           {{"cpus", limits.cpus ? json(*limits.cpus) : json()},
            {"memory_bytes", limits.memory_bytes ? json(*limits.memory_bytes) : json()}}}};
}

json models_record(const Workspace& workspace) {
  json list = json::array();
  for (size_t i = 0; i < workspace.checkpoints().size(); ++i) {
    const Checkpoint& c = workspace.checkpoints()[i];
    const ModelSource& source = workspace.config().models[i];
    list.push_back({{"id", source.id},
                    {"path", source.path.string()},
                    {"format", c.format},
                    {"kind", c.config.kind()},
                    {"sha256", c.sha256()},
                    {"weights", c.weights_origin()},
                    {"encoder", c.stand_in ? json(c.architecture) : json()},
                    {"stand_in", c.stand_in ? json(source.fallback->decoder().string()) : json()},
                    {"parameters", c.parameters},
                    {"notices", c.notices}});
  }
  return list;
}

json datasets_record(const Workspace& workspace) {
  json list = json::array();
  for (size_t i = 0; i < workspace.datasets().size(); ++i) {
    const LoadedDataset& d = workspace.datasets()[i];
    const DatasetSource& source = workspace.config().datasets[i];
    const std::string path = !source.manifest.empty()      ? source.manifest
                             : !source.librispeech.empty() ? source.librispeech
                                                           : source.files.front();
    list.push_back({{"id", source.id},
                    {"path", path},
                    {"stand_in", d.dataset.stand_in.empty() ? json() : json(d.dataset.stand_in)},
                    {"utterances", d.dataset.utterances.size()},
                    {"audio_seconds", d.audio_seconds},
                    {"load_seconds", d.load_seconds},
                    {"sha256", d.dataset.sha256},
                    {"notices", d.notices}});
  }
  return list;
}

/// Checksums of the files that the decoder's options name.
json files_of(const Workspace& workspace, DecoderSpec spec) {
  json checksums = json::array();
  for_each_path(find_decoder(spec.name, spec.where).options, spec.where, spec.options,
                [&](const std::string&, json& file) {
                  checksums.push_back(workspace.decoder_files().at(file.get<std::string>()));
                });
  return checksums;
}

}  // namespace

std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::now()));
}

json provenance_record(const Workspace& workspace, at::Device device, const std::string& started) {
  const Config& config = workspace.config();
  const json cuda = cuda_versions(device);
  utsname host{};
  uname(&host);
  json record = {{"kind", "provenance"},
                 {"schema", 1},
                 {"started", started},
                 {"name", config.name},
                 {"question", config.question},
                 {"config", config.resolved()},
                 {"config_hash", config.hash()},
                 {"rtfx",
                  {{"version", build().version},
                   {"revision", build().revision},
                   {"dirty", build().dirty},
                   {"build_type", build().type},
                   {"compiler", build().compiler},
                   {"sanitizer", build().sanitized}}},
                 {"libtorch", build().libtorch},
                 {"cuda_runtime", cuda["runtime"]},
                 {"cuda_driver", cuda["driver"]},
                 {"cudnn", cuda["cudnn"]},
                 {"device", device_record(device)},
                 {"cpu", cpu_record()},
                 {"host_name", host.nodename},
                 {"host_os", fmt::format("{} {}", host.sysname, host.release)},
                 {"tf32", at::globalContext().allowTF32CuBLAS()},
                 {"models", models_record(workspace)},
                 {"datasets", datasets_record(workspace)},
                 {"decoder_files", workspace.decoder_files()}};
  record["provenance_id"] = sha256(record.dump()).substr(0, 16);
  return record;
}

std::string result_key(const Workspace& workspace, const CaseGroup& group,
                       const PlannedDecoder& decoder, const json& options, at::Device device) {
  const Config& config = workspace.config();
  json identity = {{"case", decoder.case_name},
                   {"decoder", config.decoders[decoder.spec].name},
                   {"options", options},
                   {"decoder_files", files_of(workspace, config.decoders[decoder.spec])},
                   {"compared_to", decoder.compared_to},
                   {"sort", config.sort},
                   {"scorer", config.scorer},
                   {"encoder", config.encoder},
                   {"encoder_graphs", config.encoder_graphs},
                   {"threads", at::get_num_threads()},
                   {"model", workspace.checkpoints()[group.model].sha256()},
                   {"att_context_size", config.models[group.model].att_context_size},
                   {"dataset", workspace.datasets()[group.dataset].dataset.sha256},
                   {"utterances", workspace.datasets()[group.dataset].dataset.utterances.size()},
                   {"revision", build().revision},
                   {"libtorch", build().libtorch},
                   {"device", device_name(device)}};
  if (config.protocol.overlapped())
    identity["throughput"] = {config.protocol.throughput.in_flight,
                              config.protocol.throughput.audio};
  if (!workspace.shard().whole()) identity["shard"] = workspace.shard().label();
  return sha256(identity.dump()).substr(0, 16);
}

}  // namespace rtfx
