#include "harness/config/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "algorithms/decoder.h"
#include "base/error.h"
#include "models/dtypes.h"

namespace rtfx {

namespace {

/// The shuffle of Fisher and Yates. std::shuffle differs between standard libraries.
void shuffle(std::vector<size_t>& order, int64_t seed) {
  std::mt19937_64 random(static_cast<uint64_t>(seed));
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
}

std::vector<size_t> iota(size_t count) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  return order;
}

}  // namespace

std::vector<std::vector<size_t>> make_batches(const std::vector<double>& seconds,
                                              const std::string& sort, const BatchRule& rule,
                                              int64_t seed) {
  std::vector<size_t> order = iota(seconds.size());
  if (sort == "shuffle") shuffle(order, seed);
  if (sort == "duration_desc" || sort == "duration_asc") {
    const bool descending = sort == "duration_desc";
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return descending ? seconds[a] > seconds[b] : seconds[a] < seconds[b];
    });
  }
  std::vector<std::vector<size_t>> batches;
  double longest = 0;
  for (const size_t index : order) {
    const double widest = std::max(longest, seconds[index]);
    const double count = batches.empty() ? 0 : static_cast<double>(batches.back().size());
    const bool full = rule.by_seconds ? (count + 1) * widest > rule.size : count >= rule.size;
    if (batches.empty() || full) {
      batches.emplace_back();
      longest = 0;
    }
    batches.back().push_back(index);
    longest = std::max(longest, seconds[index]);
  }
  return batches;
}

std::vector<std::vector<size_t>> shifted_batches(const std::vector<std::vector<size_t>>& batches) {
  std::vector<size_t> order;
  for (const auto& batch : batches) order.insert(order.end(), batch.begin(), batch.end());
  std::vector<std::vector<size_t>> shifted;
  size_t next = 0;
  const auto add = [&](size_t count) {
    const size_t end = std::min(order.size(), next + count);
    if (next == end) return;
    const auto at = [&](size_t i) { return order.begin() + static_cast<std::ptrdiff_t>(i); };
    shifted.emplace_back(at(next), at(end));
    next = end;
  };
  if (!batches.empty()) add(batches.front().size() / 2);
  for (const auto& batch : batches) add(batch.size());
  return shifted;
}

std::vector<size_t> round_order(size_t count, int64_t round, int64_t seed) {
  std::vector<size_t> names = iota(count);
  shuffle(names, seed);
  // The first row of the design is 0, n - 1, 1, n - 2, ..., and another row adds a number to each.
  // If n is even, the reverse of a row is the row that adds n / 2.
  const auto row = static_cast<size_t>(round / 2) % count;
  std::vector<size_t> order;
  for (size_t place = 0; place < count; ++place) {
    const size_t first = place % 2 == 0 ? place / 2 : count - 1 - place / 2;
    order.push_back(names[(first + row) % count]);
  }
  if (round % 2 == 1) std::reverse(order.begin(), order.end());
  return order;
}

namespace {

bool contains(const std::vector<std::string>& list, const std::string& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

bool serves(const Description& description, const ModelKinds& kinds) {
  return description.model_kinds.empty() ||
         std::any_of(kinds.begin(), kinds.end(),
                     [&](const auto& kind) { return contains(description.model_kinds, kind); });
}

void check_restriction(const DecoderSpec& spec, const Config& config) {
  std::vector<std::string> allowed = {"ctc", "rnnt", "multiblank", "tdt"};
  for (const ModelSource& model : config.models) allowed.push_back(model.id);
  for (const std::string& name : spec.models) {
    if (!contains(allowed, name))
      throw unknown_name(spec.where + "/models", "model id or kind", name, allowed);
  }
}

void check_datasets(const DecoderSpec& spec, const Config& config) {
  std::vector<std::string> allowed;
  for (const DatasetSource& dataset : config.datasets) allowed.push_back(dataset.id);
  for (const std::string& name : spec.datasets) {
    if (!contains(allowed, name))
      throw unknown_name(spec.where + "/datasets", "dataset id", name, allowed);
  }
}

/// Returns whether the dataset is for batches of this rule.
bool is_for(const DatasetSource& dataset, const BatchRule& batch) {
  const auto& sizes = dataset.batch_sizes;
  return sizes.empty() ||
         (!batch.by_seconds && std::ranges::find(sizes, batch.size) != sizes.end());
}

/// Returns the decoders of a model, in the order of the configuration.
std::vector<PlannedDecoder> decoders_for(const Config& config, size_t model,
                                         const ModelKinds& kinds) {
  std::vector<PlannedDecoder> list;
  ErrorList errors;
  for (size_t i = 0; i < config.decoders.size(); ++i) {
    const DecoderSpec& spec = config.decoders[i];
    if (!is_wanted(spec, config.models[model], kinds)) continue;
    if (!serves(spec.description, kinds)) {
      errors.add({spec.where,
                  fmt::format("decoder '{}' cannot decode model '{}' of kind {}", spec.id,
                              config.models[model].id, fmt::join(kinds, " + ")),
                  fmt::format("restrict it with \"models\": [\"{}\"]",
                              fmt::join(spec.description.model_kinds, "\", \""))});
      continue;
    }
    list.push_back({i, "", ""});
  }
  errors.throw_any();
  return list;
}

/// Returns the decoders that are for a dataset.
std::vector<PlannedDecoder> those_for(const std::string& dataset, const Config& config,
                                      std::vector<PlannedDecoder> decoders) {
  std::erase_if(decoders, [&](const PlannedDecoder& decoder) {
    const std::vector<std::string>& only = config.decoders[decoder.spec].datasets;
    return !only.empty() && !contains(only, dataset);
  });
  return decoders;
}

/// Returns the error of a decoder whose own baseline does not run with it. `alike` are the decoders
/// that it may be compared with, and itself.
UserError wrong_baseline(const Config& config, const DecoderSpec& spec, size_t model,
                         size_t dataset, std::vector<std::string> alike) {
  const std::string& id = config.datasets[dataset].id;
  const bool is_for_others = std::ranges::any_of(config.decoders, [&](const DecoderSpec& other) {
    return other.id == spec.baseline && other.description.head == spec.description.head &&
           !other.datasets.empty() && !contains(other.datasets, id);
  });
  std::erase(alike, spec.id);
  return {spec.where + "/baseline",
          is_for_others ? fmt::format("'{}' does not run on dataset '{}'", spec.baseline, id)
                        : fmt::format("'{}' is no decoder of the same kind for model '{}'",
                                      spec.baseline, config.models[model].id),
          alike.empty() ? R"(leave out "baseline")"
                        : fmt::format("name one of: {}", fmt::join(alike, ", "))};
}

/// Sets the decoder that each decoder of a group is compared to.
void set_baselines(const Config& config, size_t model, size_t dataset,
                   std::vector<PlannedDecoder>& list) {
  ErrorList errors;
  std::string ctc_baseline, transducer_baseline;
  for (const PlannedDecoder& decoder : list) {
    const DecoderSpec& spec = config.decoders[decoder.spec];
    const auto take = [&](std::string& baseline) {
      if (baseline.empty() || spec.id == config.baseline) baseline = spec.id;
    };
    if (spec.description.head == Head::ctc) take(ctc_baseline);
    if (spec.description.head == Head::transducer) take(transducer_baseline);
  }
  for (PlannedDecoder& decoder : list) {
    const Head head = config.decoders[decoder.spec].description.head;
    decoder.compared_to = head == Head::ctc          ? ctc_baseline
                          : head == Head::transducer ? transducer_baseline
                                                     : "";
    const DecoderSpec& spec = config.decoders[decoder.spec];
    if (spec.baseline.empty()) continue;
    std::vector<std::string> alike;
    for (const PlannedDecoder& other : list)
      if (config.decoders[other.spec].description.head == head)
        alike.push_back(config.decoders[other.spec].id);
    if (!contains(alike, spec.baseline))
      errors.add(wrong_baseline(config, spec, model, dataset, alike));
    decoder.compared_to = spec.baseline;
  }
  errors.throw_any();
}

std::vector<CaseGroup> make_groups(const Config& config, const std::vector<ModelKinds>& kinds) {
  ErrorList errors;
  for (const DecoderSpec& spec : config.decoders)
    for (const auto check : {check_restriction, check_datasets})
      errors.run([&] { check(spec, config); });
  std::vector<CaseGroup> plan;
  for (size_t m = 0; m < config.models.size(); ++m) {
    std::vector<PlannedDecoder> decoders;
    errors.run([&] {
      decoders = decoders_for(config, m, kinds[m]);
      if (decoders.empty()) {
        throw UserError("decoders", fmt::format("none is for model '{}'", config.models[m].id),
                        "check their \"models\"");
      }
    });
    for (size_t d = 0; d < config.datasets.size(); ++d) {
      const std::string& dataset = config.datasets[d].id;
      std::vector<PlannedDecoder> of_dataset = those_for(dataset, config, decoders);
      errors.run([&] {
        set_baselines(config, m, d, of_dataset);
        if (of_dataset.empty() && !decoders.empty()) {
          throw UserError(
              "decoders",
              fmt::format("none is for model '{}' on dataset '{}'", config.models[m].id, dataset),
              "check their \"datasets\"");
        }
      });
      for (const std::string& dtype : config.dtypes) {
        for (size_t b = 0; b < config.batches.size(); ++b) {
          CaseGroup group{m, d, b, config.batches[b], dtype, of_dataset};
          for (PlannedDecoder& decoder : group.decoders) {
            decoder.case_name =
                fmt::format("{}/{}/{}/{}/{}", config.models[m].id, config.datasets[d].id,
                            config.decoders[decoder.spec].id, config.batches[b].label(), dtype);
          }
          if (is_for(config.datasets[d], config.batches[b])) plan.push_back(std::move(group));
        }
      }
    }
  }
  errors.throw_any();
  if (plan.empty()) {
    throw UserError("datasets", "none is for these batches", "check their \"batch_sizes\"");
  }
  for (size_t d = 0; d < config.datasets.size(); ++d) {
    if (std::ranges::count(plan, d, &CaseGroup::dataset) > 0) continue;
    errors.add({fmt::format("{}/datasets/{}/batch_sizes", config.origins.root(), d),
                fmt::format("'{}' would not be measured, since the run has none of these sizes",
                            config.datasets[d].id),
                "add one to batch_sizes, or leave the dataset out"});
  }
  errors.throw_any();
  return plan;
}

/// Returns whether a decoder that needs no GPU runs this form of its loop on a CPU. Other forms are
/// CUDA graphs.
bool runs_on_cpu(const std::string& decoder, const std::string& loop) {
  return loop == "host" || decoder == "step_replay" ||
         (decoder == "label_looping" && loop == "script");
}

}  // namespace

bool is_wanted(const DecoderSpec& decoder, const ModelSource& model, const ModelKinds& kinds) {
  const auto is_named = [&](const std::string& name) { return contains(decoder.models, name); };
  return decoder.models.empty() || is_named(model.id) || std::ranges::any_of(kinds, is_named);
}

std::vector<CaseGroup> make_plan(const Config& config, const std::vector<ModelKinds>& kinds) {
  return config.origins.naming_overrides([&] { return make_groups(config, kinds); });
}

bool is_first_batch_size(const std::vector<CaseGroup>& plan, size_t i) {
  if (i == 0) return true;
  const CaseGroup &before = plan[i - 1], &group = plan[i];
  return before.model != group.model || before.dataset != group.dataset ||
         before.dtype != group.dtype;
}

void require_fitting_device(const Config& config) {
  const std::string root = config.origins.root();
  ErrorList errors;
  if (config.device.starts_with("cuda")) {
    for (size_t i = 0; i < config.dtypes.size(); ++i) {
      const Dtypes dtypes = parse_dtypes(config.dtypes[i], "dtypes");
      if (dtypes.encoder != at::kDouble && dtypes.decoder != at::kDouble) continue;
      errors.add({fmt::format("{}/dtypes/{}", root, i),
                  fmt::format("'{}' is for CPUs only, and the device is {}", config.dtypes[i],
                              config.device),
                  "leave it out, or give --device cpu"});
    }
    config.origins.naming_overrides([&] { errors.throw_any(); });
  }
  if (config.device != "cpu") return;
  const auto refuse = [&](const std::string& where, const std::string& what) {
    errors.add({where, fmt::format("'{}' needs a GPU, and the device is cpu", what),
                "leave it out, or give --device cuda"});
  };
  for (size_t i = 0; i < config.dtypes.size(); ++i) {
    if (parse_dtypes(config.dtypes[i], "dtypes").encoder == at::kFloat8_e4m3fn)
      refuse(fmt::format("{}/dtypes/{}", root, i), config.dtypes[i]);
  }
  if (config.encoder == "fused") refuse(root + "/encoder", config.encoder);
  for (const DecoderSpec& spec : config.decoders) {
    if (find_decoder(spec.name, spec.where).needs_gpu) {
      refuse(spec.where, spec.id);
    } else if (const auto loop = spec.options.find("loop");
               loop != spec.options.end() && loop->is_string() && !runs_on_cpu(spec.name, *loop)) {
      refuse(spec.where + "/options/loop", loop->get<std::string>());
    }
  }
  config.origins.naming_overrides([&] { errors.throw_any(); });
}

}  // namespace rtfx
