// Random table models and the greedy decoders that must agree on them.
#pragma once

#include <random>
#include <string>

#include "algorithms/decoder.h"
#include "tests/support/table_model.h"

namespace rtfx::test {

struct Case {
  TableModel model;
  std::vector<Table> rows;
};

inline Table random_table(std::mt19937& random, int64_t rows, int64_t columns) {
  std::uniform_int_distribution<int> value(-3, 3);
  Table table(static_cast<size_t>(rows), std::vector<double>(static_cast<size_t>(columns)));
  for (auto& row : table) {
    for (double& x : row) x = value(random);
  }
  return table;
}

enum class TransducerKind { rnnt, tdt, multiblank };
inline constexpr TransducerKind kTransducerKinds[] = {TransducerKind::rnnt, TransducerKind::tdt,
                                                      TransducerKind::multiblank};

inline Case random_case(std::mt19937& random, TransducerKind kind, bool two_labels) {
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  Case c;
  c.model.vocabulary = pick(1, 4);
  const auto one_of = [&](std::vector<int64_t> a, std::vector<int64_t> b) {
    return pick(0, 1) == 0 ? std::move(a) : std::move(b);
  };
  if (kind == TransducerKind::tdt) c.model.durations = one_of({0, 1, 2, 3}, {1, 0, 4});
  if (kind == TransducerKind::multiblank) c.model.blanks = one_of({8, 4, 2, 1}, {3, 1});
  const int64_t columns = c.model.columns();
  c.model.newest = random_table(random, c.model.vocabulary + 1, columns);
  if (two_labels) c.model.older = random_table(random, c.model.vocabulary + 1, columns);
  const int64_t batch = pick(1, 5);
  for (int64_t b = 0; b < batch; ++b) c.rows.push_back(random_table(random, pick(0, 12), columns));
  return c;
}

inline Case random_case(std::mt19937& random, bool tdt, bool two_labels) {
  return random_case(random, tdt ? TransducerKind::tdt : TransducerKind::rnnt, two_labels);
}

/// Returns tables whose vocabulary may span several tiles of a kernel's outputs. A bonus of 4 makes
/// blank the best label in about half of the frames.
inline Case wide_case(std::mt19937& random, TransducerKind kind, bool two_labels,
                      int64_t vocabulary, int64_t rows) {
  Case c;
  c.model.vocabulary = vocabulary;
  if (kind == TransducerKind::tdt) c.model.durations = {0, 1, 2, 3};
  if (kind == TransducerKind::multiblank) c.model.blanks = {8, 4, 2, 1};
  const int64_t columns = c.model.columns();
  c.model.newest = random_table(random, vocabulary + 1, columns);
  if (two_labels) c.model.older = random_table(random, vocabulary + 1, columns);
  for (int64_t b = 0; b < rows; ++b) {
    c.rows.push_back(random_table(random, static_cast<int64_t>(random() % 20), columns));
    for (auto& frame : c.rows.back()) frame[static_cast<size_t>(vocabulary)] += 4;
  }
  return c;
}

inline std::vector<Hypothesis> run(const std::string& name, const nlohmann::json& options,
                                   const Case& c, at::Device device = at::kCPU,
                                   at::ScalarType dtype = at::kFloat) {
  const auto decoder = make_decoder(name, options, "");
  decoder->prepare(build(c.model, device, dtype), {});
  return decoder->decode(batch_of(c.rows, c.model.columns(), device, dtype)).to_host();
}

struct Arm {
  std::string name;
  nlohmann::json options;
};

inline std::vector<Arm> exact_arms() {
  std::vector<Arm> arms = {
      {"frame_looping", {}},
      {"frame_looping", {{"batched", false}}},
      {"frame_looping", {{"cache_predictor", true}}},
      {"frame_looping", {{"host_reads", "rows"}}},
      {"frame_looping",
       {{"project_encoder_once", true},
        {"project_prediction_once", true},
        {"cache_predictor", true}}},
      {"label_looping", {}},
      {"label_looping", {{"project_encoder_once", false}, {"project_prediction_once", false}}}};
  for (const int window : {2, 4, 8}) arms.push_back({"label_looping", {{"window", window}}});
  for (const char* form : {"host", "replay", "coalesced"})
    arms.push_back({"step_replay", {{"loop", form}}});
  return arms;
}

}  // namespace rtfx::test
