#include "harness/stream/stream_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/error.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "harness/config/plan.h"
#include "harness/run/isolated_run.h"
#include "harness/run/loaded_inputs.h"
#include "harness/stream/stream_load.h"
#include "harness/stream/stream_results.h"
#include "speech/runtime/stages.h"

namespace rtfx {

std::string StreamTrial::argument() const {
  const nlohmann::json value = {{"group", group},
                                {"decoder", decoder},
                                {"streams", streams},
                                {"confirms", confirms},
                                {"failure", failure}};
  return value.dump();
}

StreamTrial StreamTrial::of(const std::string& argument) {
  const nlohmann::json value = nlohmann::json::parse(argument);
  return {value.at("group"), value.at("decoder"), value.at("streams"), value.at("confirms"),
          value.at("failure")};
}

namespace {

/// Returns whether the journal's last record of the trial says that its limit is kept.
bool was_kept(const record::Records& records, const std::string& case_name) {
  bool kept = false;
  for (const record::Any& record : records) {
    if (const auto* run = std::get_if<record::StreamRun>(&record);
        run != nullptr && run->case_name == case_name) {
      const bool* its = known(run->slo);
      kept = its != nullptr && *its;
    } else if (const auto* failure = std::get_if<record::Failure>(&record);
               failure != nullptr && failure->case_name == case_name) {
      kept = false;
    }
  }
  return kept;
}

/// Words confirm a number of streams, so each dataset needs texts.
void require_texts(const LoadedInputs& inputs) {
  for (const LoadedDataset& loaded : inputs.datasets()) {
    const auto has_words = [&](const Utterance& utterance) {
      return utterance.text && !inputs.normalizer().words(*utterance.text).empty();
    };
    if (std::ranges::any_of(loaded.dataset.utterances, has_words)) continue;
    throw UserError("dataset '" + loaded.dataset.id + "'",
                    "has no texts, which `stream.rule` compares the words of streams with",
                    "give a manifest with texts, or search by `stream.slo_ms`");
  }
}

}  // namespace

std::string case_name_of_streams(const Config& config, const CaseGroup& group,
                                 const std::string& decoder, int64_t streams, bool confirms) {
  return fmt::format("{}/{}/{}/streams{}{}/{}", config.models[group.model].id,
                     config.datasets[group.dataset].id, decoder, streams,
                     confirms ? "-confirmed" : "", group.dtype);
}

int stream_by_rule(const Config& config, Journal::Mode mode) {
  const InterruptWatch watch;
  std::vector<CaseGroup> plan;
  {
    const LoadedInputs inputs(config);  // the children need its memory
    require_texts(inputs);
    plan = make_plan(config, inputs.kinds());
  }
  const Journal journal(config.output, mode);  // the lock covers the children too
  const StreamRule& rule = *config.stream->rule;
  const size_t before = read_journal(journal.path()).size();
  const auto keeps = [&](StreamTrial trial) {
    std::vector<std::string> arguments = child_arguments(config, "stream");
    print_message("rtfx: {} streams of {} for {} s{}\n", trial.streams, printable(trial.decoder),
                  trial.confirms ? rule.confirm_seconds : rule.seconds,
                  trial.confirms ? ", to confirm the number" : "");
    arguments.insert(arguments.end(), {"--child", trial.argument()});
    trial.failure = run_child(config, arguments);
    const std::string name = case_name_of_streams(config, plan[static_cast<size_t>(trial.group)],
                                                  trial.decoder, trial.streams, trial.confirms);
    if (trial.failure.empty()) return was_kept(read_journal(journal.path()), name);
    arguments.back() = trial.argument();
    if (const std::string why = run_child(config, arguments); !why.empty()) {
      throw std::runtime_error(fmt::format("{}: {}; the process that was to record this failed: {}",
                                           name, trial.failure, why));
    }
    return false;
  };
  bool whole = true;
  try {
    for (size_t i = 0; i < plan.size(); ++i) {
      if (!is_first_batch_size(plan, i)) continue;  // batches are those of the encoder
      for (const PlannedDecoder& decoder : plan[i].decoders) {
        StreamTrial trial{.group = static_cast<int64_t>(i),
                          .decoder = config.decoders[decoder.spec].id,
                          .failure = {}};
        const auto with = [&](int64_t streams, bool confirms) {
          trial.streams = streams;
          trial.confirms = confirms;
          return keeps(trial);
        };
        most_within(
            config.stream->streams.front(), rule.growth,
            [&](int64_t streams) { return with(streams, false); },
            [&](int64_t streams) { return with(streams, true); });
      }
    }
  } catch (const Interrupted&) {
    print_message("\nrtfx: interrupted; the journal is whole, --resume continues it\n");
    whole = false;
  }
  const record::Records records = current_records(read_journal(journal.path()), before);
  print_while_read([&] { print_stream_table(records); });
  return whole ? stream_outcome(records) : kInterrupted;
}

}  // namespace rtfx
