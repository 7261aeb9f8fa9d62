#include "harness/stream/stream_results.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/printable.h"
#include "base/terminal.h"

namespace rtfx {

namespace {

/// If the queue time grows by more than so many seconds in a second, there is no steady state.
constexpr double kSlopeMax = 0.01;

void add_times(record::Figures& metrics, const std::string& name, const Percentiles& seconds) {
  metrics[name] = Number(1000 * seconds.mean);
  metrics[name + ".p50"] = Number(1000 * seconds.p50);
  metrics[name + ".p95"] = Number(1000 * seconds.p95);
  metrics[name + ".p99"] = Number(1000 * seconds.p99);
  metrics[name + ".max"] = Number(1000 * seconds.max);
}

std::string cell(const record::Figures& metrics, const char* name, int digits) {
  const auto found = metrics.find(name);
  const Nullable<Number> value = found == metrics.end() ? std::nullopt : found->second;
  return value ? fmt::format("{:.{}f}", static_cast<double>(*value), digits) : "-";
}

std::vector<const record::StreamRun*> stream_runs(const record::Records& records) {
  std::vector<const record::StreamRun*> runs;
  for (const record::Any& record : records) {
    if (const auto* run = std::get_if<record::StreamRun>(&record)) runs.push_back(run);
  }
  return runs;
}

/// Names cases without their number of streams. The name is the decoder. If the records have
/// several models, datasets or dtypes, it has these too.
class StreamLabels {
 public:
  explicit StreamLabels(const record::Records& records) {
    std::set<std::array<std::string_view, 3>> beside;
    for (const record::StreamRun* run : stream_runs(records))
      beside.insert({run->model.id, run->dataset.id, run->dtype});
    has_several_ = beside.size() > 1;
  }

  std::string operator()(const record::StreamRun& run) const {
    if (!has_several_) return printable(run.decoder.id);
    const std::array<std::string_view, 4> parts = {run.model.id, run.dataset.id, run.decoder.id,
                                                   run.dtype};
    return printable(fmt::format("{}", fmt::join(parts, "/")));
  }

 private:
  bool has_several_ = false;
};

}  // namespace

/// Returns a text that says whether the rule is kept, and gives the figures that it judges.
static std::string trial_text(const record::StreamRun& run) {
  std::string text = !keeps_limit(run) ? "  BROKEN" : *run.confirms ? "  confirmed" : "  kept";
  const record::Figures& m = run.metrics;
  const auto percentile = run.stream.value().at("rule").at("of_finals").get<std::string>();
  text += fmt::format(", {:.2f} % late, final {} {} ms",
                      100 * static_cast<double>(m.at("stream.late_starts").value_or(Number(0))),
                      percentile, cell(m, ("stream.final_ms." + percentile).c_str(), 0));
  if (m.contains("stream.stopped_seconds"))
    text += fmt::format(", stopped after {} s", cell(m, "stream.stopped_seconds", 0));
  if (run.quality) {
    const record::StreamedQuality& quality = *run.quality;
    text += fmt::format(", WER {:+.2f}", 100 * quality.difference);
    if (quality.low && quality.high)
      text += fmt::format(" [{:+.2f}, {:+.2f}]", 100 * *quality.low, 100 * *quality.high);
    text += " points";
  }
  return text;
}

/// Prints a line for each rule that ended utterances.
static void print_endpoints(const record::StreamRun& run, const std::string& label) {
  if (!run.endpoints) return;
  for (const record::EndpointRun& end : *run.endpoints) {
    std::string rule = end.rule;
    if (end.seconds) rule += fmt::format(" ({:g} s)", static_cast<double>(*end.seconds));
    std::string delay = "no utterance ended";
    if (end.delay_p50_seconds) {
      delay = fmt::format("final {:.2f} s behind the last word, 95 % within {:.2f} s",
                          static_cast<double>(*end.delay_p50_seconds),
                          static_cast<double>(*end.delay_p95_seconds));
    }
    fmt::print("{}, ends by {}: {}; {} ends, {} early, {} missed\n", label, rule, delay, end.ends,
               end.early, end.missed);
  }
}

/// Prints how many words the streams lack, and whether they lack more of them at seams.
static void print_lost_words(const record::StreamRun& run, const std::string& label) {
  if (!run.quality || !run.quality->lost_words) return;
  const record::LostWords& lost = *run.quality->lost_words;
  std::string seams;
  if (lost.share_at_seams) {
    seams = fmt::format(
        ", {} of these within {:g} s of a border between two steps, as are {:.0f} % of all words",
        lost.lost_at_seams, static_cast<double>(lost.seam_seconds),
        100 * static_cast<double>(*lost.share_at_seams));
  }
  fmt::print("{}, {} streams: {} of {} words of whole utterances lost{}\n", label,
             static_cast<int64_t>(run.batch.size), lost.lost, lost.words, seams);
}

bool keeps_limit(const record::StreamRun& run) {
  const bool* kept = known(run.slo);
  return kept != nullptr && *kept;
}

bool within_limit(const StreamSettings& options, const LoadFigures& f) {
  if (!options.rule) return f.queue_slope <= kSlopeMax && 1000 * f.total.p99 <= options.slo_ms;
  const StreamRule& rule = *options.rule;
  const Percentiles& last = f.last;
  const double final_s = rule.of_finals == "p50"   ? last.p50
                         : rule.of_finals == "p95" ? last.p95
                                                   : last.p99;
  return f.requests > 0 && f.utterances > 0 && 1000 * final_s <= rule.final_ms &&
         static_cast<double>(f.late_starts) <= rule.late * static_cast<double>(f.requests);
}

bool keeps_words(const StreamRule& rule, const record::StreamedQuality& quality) {
  const double whole = quality.whole.wer.value_or(Number(0));
  return quality.difference <= rule.wer * whole;
}

void add_stream_figures(record::StreamRun& run, const StreamSettings& options,
                        const LoadFigures& f) {
  const auto where = [](bool known, double value) {
    return known ? Nullable<Number>(value) : std::nullopt;
  };
  record::Figures& metrics = run.metrics;
  add_times(metrics, "stream.compute_ms", f.compute);
  add_times(metrics, "stream.queue_ms", f.queue);
  add_times(metrics, "stream.total_ms", f.total);
  if (f.utterances > 0) add_times(metrics, "stream.final_ms", f.last);
  const auto requests = static_cast<double>(f.requests);
  metrics["stream.late"] = where(f.requests > 0, static_cast<double>(f.late) / requests);
  metrics["stream.late_starts"] =
      where(f.requests > 0, static_cast<double>(f.late_starts) / requests);
  metrics["stream.busy"] = Number(f.busy);
  metrics["stream.rtfx"] =
      where(f.served_seconds > 0, requests * options.period_ms / 1000 / f.served_seconds);
  metrics["stream.mean_batch"] = Number(f.mean_batch);
  metrics["stream.batch_rate"] = Number(f.batch_rate);
  metrics["stream.queue_slope"] = Number(f.queue_slope);
  metrics["stream.md1_load"] = Number(f.batch_rate * f.batch_seconds);
  // Steps of one size, one after the other, are no such queue: their load is always about 1.
  const auto expected =
      options.scope == "search" ? md1_total(f.batch_seconds, f.batch_rate) : std::nullopt;
  metrics["stream.md1_total_ms"] = where(expected.has_value(), 1000 * expected.value_or(0));
  run.stream = OptionTree(stream_keys().resolved(options));
  run.requests = f.requests;
  run.batches = f.batches;
  run.stable = f.queue_slope <= kSlopeMax;
  const bool limited = options.slo_ms > 0 || options.rule;
  run.slo = limited ? Nullable<bool>(within_limit(options, f)) : std::nullopt;
}

record::LostWords lost_words_field(const LostWords& counts) {
  record::LostWords field;
  field.words = counts.words;
  field.lost = counts.lost;
  field.lost_at_seams = counts.lost_at_seams;
  if (counts.words > 0) {
    field.share_at_seams =
        Number(static_cast<double>(counts.at_seams) / static_cast<double>(counts.words));
  }
  field.seam_seconds = kSeamSeconds;
  return field;
}

bool same_result(const Hypothesis& streamed, const Hypothesis& whole, bool bits) {
  if (streamed.nan || whole.nan) return streamed.nan == whole.nan;
  if (bits) return streamed == whole;
  return streamed.tokens == whole.tokens && streamed.frames == whole.frames &&
         streamed.durations == whole.durations;
}

record::Records current_records(const record::Records& records, size_t before) {
  std::map<std::string_view, const record::StreamRun*> last;
  for (const record::StreamRun* run : stream_runs(records)) last[run->case_name] = run;
  record::Records current;
  for (size_t i = 0; i < records.size(); ++i) {
    const auto* run = std::get_if<record::StreamRun>(&records[i]);
    const bool is_replaced = run != nullptr && last.at(run->case_name) != run;
    const bool is_earlier_failure =
        i < before && std::holds_alternative<record::Failure>(records[i]);
    if (!is_replaced && !is_earlier_failure) current.push_back(records[i]);
  }
  return current;
}

void print_stream_table(const record::Records& records) {
  const StreamLabels label(records);
  size_t width = 24;  // width of the labels
  bool speech = false;
  double slo = 0;
  std::map<std::string, int64_t> within, confirmed;  // indexed by label
  for (const record::StreamRun* run : stream_runs(records))
    width = std::max(width, label(*run).size());
  fmt::print("{:<{}} {:>7} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  {}\n", "decoder", width,
             "streams", "batch", "compute", "queue", "total", "p50", "p99", "M/D/1", "RTFx");
  for (const record::Any& record : records) {
    if (const auto* failure = std::get_if<record::Failure>(&record))
      fmt::print("{}: {} failed: {}\n", printable(failure->case_name), failure->stage,
                 printable(failure->message));
    const auto* run = std::get_if<record::StreamRun>(&record);
    if (run == nullptr) continue;
    const record::Figures& m = run->metrics;
    const auto streams = static_cast<int64_t>(run->batch.size);
    speech |= run->stream.value().value("scope", "") == "speech";
    if (run->confirms) {
      int64_t& most = confirmed[label(*run)];
      if (*run->confirms && keeps_limit(*run)) most = std::max(most, streams);
    } else if (const bool* is_within = known(run->slo)) {
      slo = run->stream.value().value("slo_ms", 0.0);
      int64_t& most = within[label(*run)];
      if (*is_within) most = std::max(most, streams);
    }
    const int64_t different = run->streamed.different;
    const bool silent = run->streamed.tokens == 0;  // the results are equal but empty
    fmt::print("{:<{}} {:>7} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  {}{}{}{}{}\n", label(*run),
               width, streams, cell(m, "stream.mean_batch", 1), cell(m, "stream.compute_ms", 2),
               cell(m, "stream.queue_ms", 2), cell(m, "stream.total_ms", 2),
               cell(m, "stream.total_ms.p50", 2), cell(m, "stream.total_ms.p99", 2),
               cell(m, "stream.md1_total_ms", 2), cell(m, "stream.rtfx", 1),
               run->stable ? "" : "  OVERLOADED",
               different == 0 ? "" : fmt::format("  {} DIFFERENT", different),
               silent ? "  NO TOKENS" : "", run->confirms ? trial_text(*run) : "");
  }
  fmt::print(
      "Milliseconds of {}, per request: mean, and of the total median and 99th percentile.\n",
      speech ? "all from samples to tokens" : "the search alone");
  for (const record::StreamRun* run : stream_runs(records)) print_lost_words(*run, label(*run));
  for (const record::StreamRun* run : stream_runs(records)) print_endpoints(*run, label(*run));
  for (const auto& [name, streams] : within) {
    fmt::print("{}: at most {} streams within {} ms (p99)\n", name, streams, slo);
  }
  for (const auto& [name, streams] : confirmed) {
    fmt::print("{}: {} streams keep the rule in every trial, the long one included\n", name,
               streams);
  }
}

int stream_outcome(const record::Records& records) {
  int code = kOk;
  for (const record::Any& record : records) {
    if (std::holds_alternative<record::Failure>(record) && code == kOk) code = kFailed;
  }
  for (const record::StreamRun* run : stream_runs(records)) {
    if (run->streamed.different == 0) continue;
    const Nullable<std::string>& first = run->streamed.first_difference;
    print_message("rtfx: {}: streamed utterances differ from whole ones, first {}\n",
                  printable(run->case_name), first ? nlohmann::json(*first).dump() : "null");
    code = kCorrectness;
  }
  return code;
}

}  // namespace rtfx
