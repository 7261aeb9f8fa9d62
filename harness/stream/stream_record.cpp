#include "harness/stream/stream_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/printable.h"
#include "harness/stream/queueing.h"

namespace rtfx {
namespace {

using nlohmann::json;

/// A queue that grows by so many seconds in a second has no steady state.
constexpr double kSlopeMax = 0.01;

void add_times(record::Figures& metrics, const std::string& name, const Percentiles& seconds) {
  metrics[name] = Number(1000 * seconds.mean);
  metrics[name + ".p50"] = Number(1000 * seconds.p50);
  metrics[name + ".p95"] = Number(1000 * seconds.p95);
  metrics[name + ".p99"] = Number(1000 * seconds.p99);
  metrics[name + ".max"] = Number(1000 * seconds.max);
}

std::string cell(const json& metrics, const char* name, int digits) {
  const json& value = metrics.at(name);
  return value.is_null() ? "-" : fmt::format("{:.{}f}", value.get<double>(), digits);
}

}  // namespace

bool within_slo(const StreamSettings& options, const LoadFigures& f) {
  return f.queue_slope <= kSlopeMax && 1000 * f.total.p99 <= options.slo_ms;
}

void add_stream_figures(record::StreamRun& run, const StreamSettings& options,
                        const LoadFigures& f) {
  const auto where = [](bool known, double value) {
    return known ? Nullable<Number>(value) : std::nullopt;
  };
  record::Figures metrics;
  add_times(metrics, "stream.compute_ms", f.compute);
  add_times(metrics, "stream.queue_ms", f.queue);
  add_times(metrics, "stream.total_ms", f.total);
  if (f.utterances > 0) add_times(metrics, "stream.final_ms", f.last);
  const auto requests = static_cast<double>(f.requests);
  metrics["stream.late"] = where(f.requests > 0, static_cast<double>(f.late) / requests);
  metrics["stream.busy"] = Number(f.busy);
  metrics["stream.rtfx"] =
      where(f.served_seconds > 0, requests * options.period_ms / 1000 / f.served_seconds);
  metrics["stream.mean_batch"] = Number(f.mean_batch);
  metrics["stream.batch_rate"] = Number(f.batch_rate);
  metrics["stream.queue_slope"] = Number(f.queue_slope);
  metrics["stream.md1_load"] = Number(f.batch_rate * f.batch_seconds);
  // Steps of one size, one after the other, are no such queue: its load is always about 1.
  const auto expected =
      options.scope == "search" ? md1_total(f.batch_seconds, f.batch_rate) : std::nullopt;
  metrics["stream.md1_total_ms"] = where(expected.has_value(), 1000 * expected.value_or(0));
  run.stream.value = stream_keys().resolved(options);
  run.requests = f.requests;
  run.batches = f.batches;
  run.stable = f.queue_slope <= kSlopeMax;
  run.slo = options.slo_ms > 0 ? Nullable<bool>(within_slo(options, f)) : std::nullopt;
  run.metrics = std::move(metrics);
}

bool same_result(const Hypothesis& streamed, const Hypothesis& whole, bool bits) {
  if (streamed.nan || whole.nan) return streamed.nan == whole.nan;
  if (bits) return streamed == whole;
  return streamed.tokens == whole.tokens && streamed.frames == whole.frames &&
         streamed.durations == whole.durations;
}

void print_stream_table(const std::vector<json>& records) {
  size_t width = 24;  // of the decoders' ids
  bool speech = false;
  double slo = 0;
  std::map<std::string, int64_t> within;
  for (const json& record : records) {
    if (record.value("kind", "") == "stream")
      width = std::max(width, printable(record["decoder"]["id"].get<std::string>()).size());
  }
  fmt::print("{:<{}} {:>7} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  {}\n", "decoder", width,
             "streams", "batch", "compute", "queue", "total", "p50", "p99", "M/D/1", "RTFx");
  for (const json& record : records) {
    const std::string kind = record.value("kind", "");
    if (kind == "failure")
      fmt::print("{}: {} failed: {}\n", printable(record["case"].get<std::string>()),
                 record["stage"].get<std::string>(),
                 printable(record["message"].get<std::string>()));
    if (kind != "stream") continue;
    const json& m = record["metrics"];
    speech |= record["stream"].value("scope", "") == "speech";
    if (record.contains("slo") && record["slo"].is_boolean()) {
      slo = record["stream"].value("slo_ms", 0.0);
      int64_t& most = within[record["decoder"]["id"]];
      if (record["slo"]) most = std::max(most, record["batch"]["size"].get<int64_t>());
    }
    const auto different = record["streamed"]["different"].get<int64_t>();
    const bool silent = record["streamed"].value("tokens", -1) == 0;  // equal, but of nothing
    fmt::print("{:<{}} {:>7} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  {}{}{}{}\n",
               printable(record["decoder"]["id"].get<std::string>()), width,
               record["batch"]["size"].get<int64_t>(), cell(m, "stream.mean_batch", 1),
               cell(m, "stream.compute_ms", 2), cell(m, "stream.queue_ms", 2),
               cell(m, "stream.total_ms", 2), cell(m, "stream.total_ms.p50", 2),
               cell(m, "stream.total_ms.p99", 2), cell(m, "stream.md1_total_ms", 2),
               cell(m, "stream.rtfx", 1), record["stable"].get<bool>() ? "" : "  OVERLOADED",
               different == 0 ? "" : fmt::format("  {} DIFFERENT", different),
               silent ? "  NO TOKENS" : "");
  }
  fmt::print(
      "Milliseconds of {}, per request: mean, and of the total median and 99th percentile.\n",
      speech ? "all from samples to tokens" : "the search alone");
  for (const auto& [decoder, streams] : within) {
    fmt::print("{}: at most {} streams within {} ms (p99)\n", printable(decoder), streams, slo);
  }
}

int stream_outcome(const std::vector<json>& records) {
  int code = kOk;
  for (const json& record : records) {
    const std::string kind = record.value("kind", "");
    if (kind == "failure" && code == kOk) code = kFailed;
    if (kind == "stream" && record["streamed"]["different"].get<int64_t>() > 0) {
      fmt::print(stderr, "rtfx: {}: streamed utterances differ from whole ones, first {}\n",
                 printable(record["case"].get<std::string>()),
                 record["streamed"]["first_difference"].dump());
      code = kCorrectness;
    }
  }
  return code;
}

}  // namespace rtfx
