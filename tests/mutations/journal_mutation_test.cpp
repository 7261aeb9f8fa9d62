// Tests of damaged journals and configurations. They damage bytes, and values of well-formed JSON.
// Each journal that can still be read goes through all functions that show it.
#include <fcntl.h>

#include "base/json.h"
#include "harness/config/config.h"
#include "harness/report/export.h"
#include "harness/report/gate_report.h"
#include "harness/report/history.h"
#include "harness/report/summary_writer.h"
#include "harness/results/compare.h"
#include "harness/results/gate.h"
#include "harness/results/journal.h"
#include "harness/results/summaries.h"
#include "harness/results/table.h"
#include "tests/mutations/mutate.h"

namespace rtfx {
namespace {

using nlohmann::json;

/// Replaces or erases one random value of a document.
class ValueMutator {
 public:
  json operator()(json document) {
    json* value = &document;
    while (value->is_structured() && !value->empty() && below(6) != 0) {
      auto member = value->begin();
      std::advance(member, static_cast<std::ptrdiff_t>(below(value->size())));
      if (below(12) == 0) {
        value->erase(member);
        return document;
      }
      value = &*member;
    }
    static const json kOthers = {
        nullptr, true, -1,  0,   1,   7.5,           1e308,          18446744073709551615U,
        "",      "x",  "~", "/", "*", json::array(), json::object(), {{"a", 1}},
        {1, 2}};
    *value = kOthers[below(kOthers.size())];
    return document;
  }

 private:
  size_t below(size_t limit) { return random_() % limit; }

  std::mt19937_64 random_{1};
};

/// Sends standard output to /dev/null while it lives.
class Silence {
 public:
  Silence() : kept_(::dup(STDOUT_FILENO)) {
    std::fflush(stdout);
    const int nowhere = ::open("/dev/null", O_WRONLY);
    ::dup2(nowhere, STDOUT_FILENO);
    ::close(nowhere);
  }
  ~Silence() {
    std::fflush(stdout);
    ::dup2(kept_, STDOUT_FILENO);
    ::close(kept_);
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

 private:
  int kept_;
};

json case_record(const std::string& kind, const std::string& decoder) {
  return {{"kind", kind},
          {"schema", 1},
          {"provenance_id", "p"},
          {"case", "m/d/" + decoder + "/b1/fp32"},
          {"result_key", decoder},
          {"model", {{"id", "m"}, {"kind", "rnnt"}}},
          {"dataset", {{"id", "d"}, {"utterances", 2}, {"audio_seconds", 3.5}}},
          {"decoder",
           {{"id", decoder},
            {"name", "frame_looping"},
            {"options", {{"lm", {{"path", "a.arpa"}}}}},
            {"head", "transducer"},
            {"exactness", "exact"}}},
          {"batch", {{"by", "count"}, {"size", 1}}},
          {"dtype", "fp32"},
          {"device", "cpu"}};
}

json run_record(const std::string& decoder, int round) {
  json record = case_record("run", decoder);
  if (decoder == "frame.aa") record["decoder"]["control_of"] = "frame";
  const json first = {{"utterance", "u"},
                      {"frame", 3},
                      {"seconds", 0.24},
                      {"baseline_words", "a b"},
                      {"words", "a c"}};
  const json exactness = {{"baseline", "frame"},
                          {"grade", "rounding"},
                          {"grades", {{"bitwise", 1}, {"rounding", 1}}},
                          {"first_difference", first},
                          {"replay",
                           {{"decisions", 7},
                            {"beyond", 1},
                            {"worst_gap_over_bound", 2.5},
                            {"first",
                             {{"utterance", "u"},
                              {"kind", "label"},
                              {"frame", 3},
                              {"seconds", 0.24},
                              {"chosen", 1},
                              {"best", 2},
                              {"gap", 0.5},
                              {"bound", 0.2}}}}}};
  const json wer = {{"normalizer", "none"}, {"version", 1},   {"wer", 0.1},
                    {"substitutions", 1},   {"deletions", 0}, {"insertions", 0}};
  record.update({{"started", "2026-01-02T03:04:05Z"},
                 {"round", round},
                 {"regions", {{"decode", {{"host_seconds", 0.25}}}}},
                 {"total_seconds", 0.5},
                 {"metrics",
                  {{"rtfx.total", 7 + round},
                   {"rtfx.encode_decode", nullptr},
                   {"rtfx.decode", 14.5},
                   {"share.decode", 0.5}}},
                 {"wer", wer},
                 {"oracle_wer", wer},
                 {"boosted", {{"recall", 0.5}, {"precision", nullptr}}},
                 {"exactness", exactness},
                 {"deterministic", true},
                 {"hypotheses_sha256", "h" + std::to_string(round)},
                 {"tokens_sha256", "t"},
                 {"batches",
                  {{"audio_seconds", {1.5, 2.0}},
                   {"total_seconds", {0.2, 0.3}},
                   {"decode_seconds", {0.1, 0.15}}}},
                 {"conditions", {{"cpu_wait_seconds", 0.01}}},
                 {"suspect", json::array()}});
  return record;
}

json journal() {
  json records = {{{"kind", "provenance"},
                   {"schema", 1},
                   {"provenance_id", "p"},
                   {"started", "2026-01-02T03:04:05Z"},
                   {"config",
                    {{"protocol", {{"cv_max", 0.05}, {"measured_rounds", 2}}},
                     {"verify", {{"required", {{"fp32", "exact"}}}}}}},
                   {"config_hash", "c"},
                   {"rtfx",
                    {{"version", "1"},
                     {"revision", "r"},
                     {"dirty", false},
                     {"build_type", "Release"},
                     {"sanitizer", false}}},
                   {"cpu", {{"cores", 2}, {"threads", 2}}},
                   {"device", {{"type", "cpu"}, {"name", "Some CPU"}}},
                   {"models", {{{"id", "m"}, {"sha256", "s"}}}},
                   {"datasets", {{{"id", "d"}, {"sha256", "s"}}}},
                   {"decoder_files", {{"a.arpa", "s"}}}}};
  for (const char* decoder : {"frame", "frame.aa", "label"})
    for (const int round : {0, 1}) records.push_back(run_record(decoder, round));
  records.push_back(case_record("failure", "third"));
  records.back().update({{"stage", "decode"}, {"message", "oops"}});
  records.push_back(case_record("stream", "fourth"));
  records.back().update({{"stable", true},
                         {"stream", {{"scope", "search"}, {"slo_ms", 0.0}}},
                         {"streamed", {{"different", 0}, {"first_difference", nullptr}}},
                         {"metrics", {{"stream.rtfx", 5.5}}}});
  return records;
}

std::string lines_of(const json& records) {
  std::string text;
  for (const json& record : records) text += to_line(record);
  return text;
}

void show(const ResultSet& whole, const std::string& bytes) {
  const MemoryFile file(bytes);
  const Silence silence;
  const ResultSet damaged = read_results(file.path());
  write_summary(damaged, [](std::string_view) {});
  print_table(all_of(summarize_cases(read_journal(file.path()))));
  damaged.require_cases();
  for (const char* format : {"csv", "markdown", "latex", "gbench", "bmf", "github-action"})
    export_results(damaged, format, {});
  print_speed_ups(damaged);
  print_gate(gate({&whole, 1}, damaged, {}));
  print_gate(gate({&damaged, 1}, whole, {}));
  differences(damaged, 3);
  changes_since(whole, damaged);
  changes_since(damaged, whole);
  history(whole, {damaged});
  print_comparison(whole, damaged);
}

TEST(JournalMutation, IsReadOrRefused) {
  const std::string text = lines_of(journal());
  const MemoryFile file(text);
  const ResultSet whole = read_results(file.path());
  const auto use = [&](const std::string& bytes) { show(whole, bytes); };
  use(text);
  EXPECT_GT(mutate(text, {}, 1'000, use).refused, scaled(300));
  ValueMutator mutator;
  const Counts counts = mutate(text, {}, 3'000, use,
                               [&](std::string& bytes) { bytes = lines_of(mutator(journal())); });
  EXPECT_GT(counts.read, scaled(500));
  EXPECT_GT(counts.refused, scaled(500));
}

/// Returns a configuration with every group of keys.
json config_document() {
  const std::string root = std::filesystem::current_path();
  const std::string model = root + "/models/quickstart/quickstart-rnnt.nemo";
  return {{"question", "?"},
          {"name", "n"},
          {"models", {model, {{"id", "m"}, {"path", model}, {"att_context_size", {70, 13}}}}},
          {"datasets",
           {{{"id", "d"}, {"manifest", "m.jsonl"}, {"limit", 3}},
            {{"id", "e"}, {"librispeech", "folder"}},
            {{"id", "f"}, {"files", {"a.wav"}}}}},
          {"decoders",
           {"frame_looping",
            {{"id", "w"}, {"name", "label_looping"}, {"options", {{"window", {2, 8}}}}},
            {{"name", "ctc_greedy"}, {"models", {"ctc"}}}}},
          {"baseline", "frame_looping"},
          {"batch_sizes", {1, 8}},
          {"batch_seconds", {120.5}},
          {"dtypes", {"fp32", "bf16"}},
          {"sort", "duration_desc"},
          {"device", "cpu"},
          {"threads", 2},
          {"protocol",
           {{"warmup_rounds", 1}, {"measured_rounds", 3}, {"cv_max", 0.05}, {"aa_control", true}}},
          {"verify", {{"required", {{"fp32", "exact"}}}}},
          {"scorer", "none"},
          {"stream", {{"streams", {2, 4}}, {"period_ms", 400}, {"seconds", 5}}},
          {"isolate", false},
          {"output", "runs/n"}};
}

TEST(ConfigMutation, IsReadOrRefused) {
  const json document = config_document();
  const auto use = [](const std::string& bytes) {
    const MemoryFile file(bytes);
    const Config config = parse_config(read_document(file.path(), {}));
    config.resolved();
    config.hash();
  };
  use(document.dump());
  mutate(document.dump(1), {}, 2'000, use);
  ValueMutator mutator;
  const Counts counts = mutate(document.dump(), {}, 6'000, use,
                               [&](std::string& bytes) { bytes = mutator(document).dump(); });
  EXPECT_GT(counts.read, scaled(500));
  EXPECT_GT(counts.refused, scaled(500));
}

TEST(OverrideMutation, IsReadOrRefused) {
  mutate("protocol.measured_rounds=5", {}, 3'000, [](const std::string& text) {
    parse_config(read_document("configs/quickstart.json", {text}));
  });
}

}  // namespace
}  // namespace rtfx
