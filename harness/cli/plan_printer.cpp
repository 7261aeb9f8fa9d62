#include "harness/cli/plan_printer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "harness/config/plan.h"
#include "harness/run/estimate.h"
#include "harness/run/loaded_inputs.h"

namespace rtfx {

namespace {

using nlohmann::json;

json plan_json(const Config& config, const std::vector<CaseGroup>& plan, const Estimate& time) {
  json whole = config.resolved();
  whole.update(config.foreign);
  json cases = json::array();
  for (const CaseGroup& group : plan) {
    for (const PlannedDecoder& decoder : group.decoders) {
      const std::string& against = decoder.compared_to;
      cases.push_back(
          {{"case", decoder.case_name}, {"against", against.empty() ? json() : json(against)}});
    }
  }
  return {{"config", whole},
          {"cases", cases},
          {"estimate",
           {{"audio_seconds", time.audio_seconds},
            {"passes", time.passes},
            {"low_seconds", time.low},
            {"high_seconds", time.high},
            {"basis", time.basis}}}};
}

/// Prints a fact of the plan with its name in front. The name is empty if the fact continues.
void print_fact(const char* name, const std::string& fact) {
  constexpr size_t kIndent = 9;
  print_wrapped(fmt::format("{:<{}}{}", name, kIndent, printable(fact)), kIndent);
}

void print_model(const ModelSource& source, const Checkpoint& checkpoint) {
  print_fact("model",
             fmt::format("{}: {}, {:.4g} million parameters, {}", source.id,
                         fmt::join(checkpoint.config.kinds(), " + "),
                         static_cast<double>(checkpoint.parameters) / 1e6, source.path.string()));
  if (!checkpoint.stand_in.empty()) print_fact("", "stand-in model: " + checkpoint.stand_in);
  for (const std::string& notice : checkpoint.notices) print_fact("", notice);
}

void print_dataset(const DatasetSource& source, const Dataset& dataset) {
  double seconds = 0;
  for (const Utterance& utterance : dataset.utterances) seconds += utterance.seconds;
  const std::string where = !source.manifest.empty()      ? source.manifest
                            : !source.librispeech.empty() ? source.librispeech
                                                          : source.files.front();
  const auto count = static_cast<int64_t>(dataset.utterances.size());
  print_fact("data", fmt::format("{}: {}, {} of audio, {}", dataset.id, counted(count, "utterance"),
                                 duration_text(seconds), where));
  if (!dataset.stand_in.empty()) print_fact("", "stand-in data: " + dataset.stand_in);
}

}  // namespace

void print_plan(const Config& config, bool as_json) {
  require_fitting_device(config);
  const LoadedInputs inputs(config);
  const auto plan = make_plan(config, inputs.kinds());
  const Estimate time = estimate(inputs, plan);
  for (const LoadedDataset& loaded : inputs.datasets())
    for (const std::string& notice : loaded.dataset.notices)
      print_message("rtfx: notice: {}\n", printable(notice));
  if (as_json) {
    fmt::print("{}\n", to_text(plan_json(config, plan, time), 2));
    return;
  }
  for (size_t i = 0; i < config.models.size(); ++i)
    print_model(config.models[i], inputs.checkpoints()[i]);
  for (size_t i = 0; i < config.datasets.size(); ++i)
    print_dataset(config.datasets[i], inputs.datasets()[i].dataset);
  int64_t cases = 0;
  for (const CaseGroup& group : plan) {
    for (const PlannedDecoder& decoder : group.decoders) {
      const std::string& id = config.decoders[decoder.spec].id;
      const std::string against = decoder.compared_to.empty() ? ""
                                  : decoder.compared_to == id ? "  the baseline"
                                                              : "  against " + decoder.compared_to;
      print_fact(++cases == 1 ? "cases" : "", decoder.case_name + against);
    }
  }
  for (const CaseGroup& group : plan) {
    if (const std::string notice = batch_notice(inputs, group); !notice.empty())
      print_fact("notice", notice);
  }
  print_fact(
      "rounds",
      fmt::format("{} in {}, {} + {} rounds each: {} of a dataset, {} of audio",
                  counted(cases, "case"), counted(static_cast<int64_t>(plan.size()), "group"),
                  config.protocol.warmup_rounds, config.protocol.measured_rounds,
                  time.passes == 1 ? "1 pass" : fmt::format("{} passes", time.passes),
                  duration_text(time.audio_seconds)));
  print_fact("time", fmt::format("{}: {}", time_text(time), time.basis));
  print_fact("output", fmt::format("{}; configuration {}", config.output.string(),
                                   config.hash().substr(0, 12)));
}

}  // namespace rtfx
