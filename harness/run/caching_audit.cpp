#include "harness/run/caching_audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>
#include <span>

#include "base/files.h"
#include "base/json.h"
#include "harness/config/plan.h"
#include "harness/run/case_group.h"
#include "harness/run/isolated_run.h"
#include "harness/run/loaded_inputs.h"
#include "speech/runtime/device.h"
#include "speech/runtime/stages.h"

namespace rtfx {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CachingAudit, unseen, again, seen, more_steps, words, failure)

namespace {

constexpr size_t kContents = 4;  // largest number of batches that are drawn
constexpr size_t kTriples = 10;

using Batch = std::vector<size_t>;  // indices of utterances

enum class Form : uint8_t { reversed, as_it_is, turned, again };

/// One batch of the audit: the index of a drawn batch, and its form.
struct Part {
  size_t content;
  Form form;
};

std::vector<Part> sequence(size_t contents) {
  std::vector<Part> parts;
  for (const Form form : {Form::reversed, Form::as_it_is})
    for (size_t i = 0; i < contents; ++i) parts.push_back({i, form});
  for (size_t triple = 0; triple < kTriples; ++triple) {
    const size_t content = triple % contents;
    // Every second triple of a batch begins with its original form.
    const bool begins = (triple + triple / contents) % 2 == 1;
    if (begins) parts.push_back({content, Form::as_it_is});
    parts.push_back({content, Form::turned});
    parts.push_back({content, Form::again});
    if (!begins) parts.push_back({content, Form::as_it_is});
  }
  return parts;
}

/// Draws batches at random. They have the most frequent size.
std::vector<Batch> draw(std::vector<Batch> batches, std::mt19937_64& random) {
  std::map<size_t, size_t> count;
  for (const Batch& batch : batches) ++count[batch.size()];
  const size_t size =
      std::ranges::max_element(count, {}, [](const auto& entry) { return entry.second; })->first;
  std::erase_if(batches, [&](const Batch& batch) { return batch.size() != size; });
  for (size_t i = batches.size(); i > 1; --i) std::swap(batches[i - 1], batches[random() % i]);
  batches.resize(std::min(batches.size(), kContents));
  return batches;
}

std::vector<float> in_form(std::vector<float> samples, Form form, size_t encoder_frame,
                           std::mt19937_64& random) {
  if (form == Form::reversed) std::ranges::reverse(samples);
  if (form == Form::turned) {
    const size_t turn = encoder_frame / 8 + random() % (encoder_frame * 3 / 4);
    std::ranges::rotate(samples,
                        samples.begin() + static_cast<std::ptrdiff_t>(turn % samples.size()));
  }
  return samples;
}

/// Returns how many times as many steps `batch` may need as `other`, by their numbers of tokens. A
/// search may take a step for each token. A batched search may take a step for each token of the
/// longest row.
double more_steps(std::span<const Hypothesis> batch, std::span<const Hypothesis> other) {
  const auto steps = [](std::span<const Hypothesis> rows) {
    double all = 1, longest = 1;
    for (const Hypothesis& row : rows) {
      const auto count = static_cast<double>(row.tokens.size());
      all += count;
      longest = std::max(longest, 1 + count);
    }
    return std::pair(all, longest);
  };
  const auto [all, longest] = steps(batch);
  const auto [all_of_other, longest_of_other] = steps(other);
  return std::max({1.0, all / all_of_other, longest / longest_of_other});
}

/// Returns the configuration of the audit, in which a batch is consecutive utterances.
Config for_audit(Config config) {
  config.sort = "none";
  config.protocol.mode = "isolated";
  config.replay = false;  // the rerun proves results
  config.confidence.reset();
  return config;
}

}  // namespace

CachingAudit audit_caching(const Config& config, int64_t seed) {
  const InterruptWatch watch;
  const DeviceScope scope(config.threads, config.device, "device");
  CachingAudit audit;
  std::mt19937_64 random(static_cast<uint64_t>(seed));

  LoadedInputs inputs(for_audit(config));
  inputs.read_audio_files();
  const LoadedDataset& dataset = inputs.datasets().front();
  if (dataset.failure) {
    audit.failure = "load: " + *dataset.failure;
    return audit;
  }
  const std::vector<Batch> contents =
      draw(make_batches(dataset.seconds, config.sort, config.batches.front(), config.protocol.seed),
           random);
  const size_t size = contents.front().size();
  const std::vector<Part> parts = sequence(contents.size());
  const ModelConfig& model = inputs.checkpoints().front().config;
  const auto encoder_frame = static_cast<size_t>(model.features.hop * model.encoder.factor());
  std::vector<Utterance> utterances;
  std::vector<std::vector<float>> audio;
  for (const Part& part : parts) {
    for (const size_t i : contents[part.content]) {
      utterances.push_back(dataset.dataset.utterances[i]);
      audio.push_back(part.form == Form::again
                          ? audio[audio.size() - size]  // the batch before is the turned one
                          : in_form(dataset.audio[i], part.form, encoder_frame, random));
    }
  }
  inputs.replace(0, std::move(utterances), std::move(audio));

  CaseGroup group = make_plan(inputs.config(), inputs.kinds()).front();
  group.rule = {.by_seconds = false, .size = static_cast<double>(size)};
  const auto on_failure = [&](const Arm&, const std::string& stage, const FailureText& failure) {
    audit.failure = fmt::format("{}: {}", stage, failure.text);
  };
  CaseGroupRunner runner(inputs, group, scope.device(), on_failure, [] {});
  runner.prepare();
  if (!audit.failure.empty()) return audit;
  const RoundResult result = std::move(runner.round(0).front());
  if (!audit.failure.empty()) return audit;

  for (size_t b = 0; b < parts.size(); ++b) {
    if (parts[b].form == Form::as_it_is) {
      for (size_t row = 0; row < size; ++row)
        audit.words.emplace_back(dataset.dataset.utterances[b * size + row].id,
                                 result.words[b * size + row]);
    }
  }
  const auto rows_of = [&](size_t b) {
    return std::span(result.hypotheses).subspan(b * size, size);
  };
  for (size_t b = 2 * contents.size(); b < parts.size(); b += 3) {
    const bool begins = parts[b].form == Form::as_it_is;
    const size_t turned = begins ? b + 1 : b, as_it_is = begins ? b : b + 2;
    audit.unseen.push_back(result.batches[turned].decode_seconds);
    audit.again.push_back(result.batches[turned + 1].decode_seconds);
    audit.seen.push_back(result.batches[as_it_is].decode_seconds);
    audit.more_steps.push_back(more_steps(rows_of(turned), rows_of(as_it_is)));
  }
  return audit;
}

CachingAudit audit_in_child(const Config& config, int64_t seed) {
  std::filesystem::path file = config.origins.file();
  file.replace_extension(".audit.json");
  CachingAudit audit;
  audit.failure = run_child(config, {"rtfx", "verify", config.origins.file().string(), "--seed",
                                     std::to_string(seed), "--child", file.string()});
  return audit.failure.empty() ? read_json_file(file).get<CachingAudit>() : audit;
}

void write_audit(const Config& config, int64_t seed, const std::filesystem::path& file) {
  write_file(file, to_line(nlohmann::json(audit_caching(config, seed))));
}

}  // namespace rtfx
