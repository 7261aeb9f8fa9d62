#include "harness/cli/print_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "algorithms/registry.h"
#include "base/error.h"
#include "base/printable.h"
#include "harness/run/estimate.h"
#include "models/dtypes.h"

namespace rtfx {
namespace {

using nlohmann::json;

json plan_json(const Config& config, const std::vector<CaseGroup>& plan, const Estimate& time) {
  json cases = json::array();
  for (const CaseGroup& group : plan) {
    for (const PlannedDecoder& decoder : group.decoders) {
      const std::string& against = decoder.compared_to;
      cases.push_back(
          {{"case", decoder.case_name}, {"against", against.empty() ? json() : json(against)}});
    }
  }
  return {{"config", config.resolved()},
          {"cases", cases},
          {"estimate",
           {{"audio_seconds", time.audio_seconds},
            {"passes", time.passes},
            {"low_seconds", time.low},
            {"high_seconds", time.high},
            {"basis", time.basis}}}};
}

/// Prints the checkpoint that was found, or its stand-in.
void print_model(const ModelSource& source, const Checkpoint& checkpoint) {
  fmt::print("model    {}: {}, {:.4g} million parameters, {}\n", printable(source.id),
             fmt::join(checkpoint.config.kinds(), " + "),
             static_cast<double>(checkpoint.parameters) / 1e6, printable(source.path.string()));
  for (const std::string& notice : checkpoint.notices)
    fmt::print("         {}\n", printable(notice));
}

void print_dataset(const DatasetSource& source, const Dataset& dataset) {
  double seconds = 0;
  for (const Utterance& utterance : dataset.utterances) seconds += utterance.seconds;
  const std::string where = !source.manifest.empty()      ? source.manifest
                            : !source.librispeech.empty() ? source.librispeech
                                                          : source.files.front();
  fmt::print("data     {}: {} utterances, {} of audio, {}\n", printable(dataset.id),
             dataset.utterances.size(), duration_text(seconds), printable(where));
  if (!dataset.fallback.empty()) {
    fmt::print("         no such file; {} instead\n", printable(dataset.stand_in));
  } else if (!dataset.stand_in.empty()) {
    fmt::print("         stand-in data: {}\n", printable(dataset.stand_in));
  }
}

std::string time_text(const Estimate& time) {
  const std::string low = duration_text(time.low), high = duration_text(time.high);
  return low == high ? "about " + low : fmt::format("between {} and {}", low, high);
}

/// Throws UserError for the dtypes, the encoder and the decoders that need a GPU, if the
/// configuration is for a CPU. A run measures the other cases, and records a failure of these.
void require_gpu_where_needed(const Config& config) {
  if (config.device != "cpu") return;
  ErrorList errors;
  const auto refuse = [&](const std::string& where, const std::string& what) {
    errors.add({where, fmt::format("'{}' needs a GPU, and the device is cpu", what),
                "leave it out, or give --device cuda"});
  };
  const std::string root = config.origins.root();
  for (size_t i = 0; i < config.dtypes.size(); ++i) {
    if (parse_dtypes(config.dtypes[i], "dtypes").encoder == at::kFloat8_e4m3fn)
      refuse(fmt::format("{}/dtypes/{}", root, i), config.dtypes[i]);
  }
  if (config.encoder == "fused") refuse(root + "/encoder", config.encoder);
  for (const DecoderSpec& spec : config.decoders) {
    if (find_decoder(spec.name, spec.where).needs_gpu) refuse(spec.where, spec.id);
  }
  config.origins.naming_overrides([&] { errors.throw_any(); });
}

}  // namespace

void print_plan(const Config& config, bool as_json) {
  require_gpu_where_needed(config);
  const Workspace workspace(config);
  const auto plan = make_plan(config, workspace.kinds());
  const Estimate time = estimate(workspace, plan);
  if (as_json) {
    fmt::print("{}\n",
               plan_json(config, plan, time).dump(2, ' ', false, json::error_handler_t::replace));
    return;
  }
  for (size_t i = 0; i < config.models.size(); ++i)
    print_model(config.models[i], workspace.checkpoints()[i]);
  for (size_t i = 0; i < config.datasets.size(); ++i)
    print_dataset(config.datasets[i], workspace.datasets()[i].dataset);
  size_t cases = 0;
  for (const CaseGroup& group : plan) {
    for (const PlannedDecoder& decoder : group.decoders) {
      const std::string& id = config.decoders[decoder.spec].id;
      const std::string against = decoder.compared_to.empty() ? ""
                                  : decoder.compared_to == id ? "  the baseline"
                                                              : "  against " + decoder.compared_to;
      fmt::print("{}  {}{}\n", ++cases == 1 ? "cases  " : "       ", printable(decoder.case_name),
                 printable(against));
    }
  }
  fmt::print("rounds   {} cases in {} groups, {} + {} rounds each: {} of a dataset, {} of audio\n",
             cases, plan.size(), config.protocol.warmup_rounds, config.protocol.measured_rounds,
             time.passes == 1 ? "1 pass" : fmt::format("{} passes", time.passes),
             duration_text(time.audio_seconds));
  fmt::print("time     {}: {}\n", time_text(time), printable(time.basis));
  fmt::print("output   {}; configuration {}\n", printable(config.output.string()),
             config.hash().substr(0, 12));
}

}  // namespace rtfx
