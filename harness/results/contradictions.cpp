#include "harness/results/contradictions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "harness/results/statistics.h"
#include "harness/scoring/exactness.h"

namespace rtfx {

namespace {

constexpr const char *kTokens = "tokens.per_second",
                     *kReferenceTokens = "tokens.reference_per_second";
constexpr double kMicrosecond = 1e-6;  // times of batches are rounded to this

/// Returns whether two figures are equal up to the rounding of sums. An infinite figure equals
/// none.
bool agree(double a, double b, double slack = 0) {
  return std::isfinite(a) && std::isfinite(b) &&
         std::abs(a - b) <= 1e-6 * std::max(std::abs(a), 1e-9) + slack;
}

double sum(const std::vector<Number>& values) {
  double total = 0;
  for (const Number& value : values) total += value;
  return total;
}

/// Returns the value of a metric; none if it is null or missing.
std::optional<double> metric_of(const record::Run& run, const char* key) {
  const auto found = run.metrics.find(key);
  return found == run.metrics.end() || !found->second ? std::nullopt
                                                      : std::optional<double>(*found->second);
}

/// Looks for the first contradiction in one record.
class RecordCheck {
 public:
  explicit RecordCheck(const record::Run& run) : run_(run) {}

  std::string contradiction() {
    check_speeds();
    check_words();
    check_tokens();
    check_batches();
    check_first_pass();
    check_lengths();
    check_stages();
    check_memory();
    check_energy();
    check_wall();
    check_bound();
    check_oracle();
    check_boosted();
    check_grades();
    return std::move(found_);
  }

 private:
  void expect(const std::string& name, double stated, const char* rule, double computed,
              double slack = 0) {
    if (!found_.empty() || agree(computed, stated, slack)) return;
    found_ = fmt::format("{} is {:.6g}, and {} is {:.6g}", name, stated, rule, computed);
  }

  std::optional<double> figure(const char* key) const { return metric_of(run_, key); }

  void expect_figure(const char* key, const char* rule, double computed, double slack = 0) {
    if (const auto stated = figure(key)) expect(key, *stated, rule, computed, slack);
  }

  /// Returns the seconds of a region on the host; none if the record lacks it.
  std::optional<double> region(const char* name) const {
    const auto found = run_.regions.find(name);
    return found == run_.regions.end() ? std::nullopt
                                       : std::optional<double>(found->second.host_seconds);
  }

  void check_speeds() {
    constexpr const char* kRate = "audio / seconds";
    const double audio = run_.dataset.audio_seconds, total = run_.total_seconds;
    expect_figure("rtfx.total", kRate, audio / total);
    if (run_.pipeline) {
      const auto& passes = run_.pipeline->pass_seconds;
      if (passes && !passes->empty()) {
        expect("total_seconds", total, "the mean of the passes",
               sum(*passes) / static_cast<double>(passes->size()));
      }
      return;
    }
    double regions = 0;
    for (const auto& [name, times] : run_.regions) regions += times.host_seconds;
    expect("total_seconds", total, "the sum of the regions", regions);
    const auto decode = region("decode"), encoder = region("encoder"), d2h = region("d2h");
    if (decode) expect_figure("share.decode", "decode / total time", *decode / total);
    if (run_.shards) {
      double longest = 0;
      for (const Number& seconds : run_.shards->total_seconds)
        longest = std::max<double>(longest, seconds);
      return expect("total_seconds", total, "the longest time of a shard", longest);
    }
    if (decode) expect_figure("rtfx.decode", kRate, audio / *decode);
    if (decode && encoder && d2h)
      expect_figure("rtfx.encode_decode", kRate, audio / (*encoder + *decode + *d2h));
  }

  void check_words() {
    const record::WordErrors& wer = run_.wer;
    if (wer.wer && wer.reference_words)
      expect_rate("the WER", *wer.wer, "errors / words",
                  wer.substitutions + wer.insertions + wer.deletions, *wer.reference_words);
    const Number* cer = known(wer.cer);
    if (cer != nullptr && wer.character_errors && wer.reference_characters)
      expect_rate("the CER", *cer, "errors / characters", *wer.character_errors,
                  *wer.reference_characters);
  }

  /// Empty references have no rate, however many errors there are.
  void expect_rate(const std::string& name, double stated, const char* rule, int64_t errors,
                   int64_t length) {
    if (length > 0) {
      expect(name, stated, rule, static_cast<double>(errors) / static_cast<double>(length));
    } else if (found_.empty()) {
      found_ = fmt::format("{} is {:.6g}, and the references are empty", name, stated);
    }
  }

  void check_tokens() {
    const auto stated = figure(kTokens);
    if (!stated) return;
    const double audio = run_.dataset.audio_seconds, tokens = *stated * audio;
    const double slack = 1e-6 + 1e-9 * tokens;
    if (found_.empty() && std::abs(tokens - std::round(tokens)) > slack) {
      found_ = fmt::format(
          "tokens.per_second is {:.6g}, and {:.6g} s of audio then have {:.2f} "
          "tokens, which is no whole number",
          *stated, audio, tokens);
    }
  }

  void check_batches() {
    if (!run_.batches) return;
    const record::Batches& batches = *run_.batches;
    const size_t count = batches.total_seconds.size();
    if (found_.empty() &&
        (batches.audio_seconds.size() != count || batches.decode_seconds.size() != count))
      found_ = "the columns of `batches` differ in length";
    const double slack = static_cast<double>(count) * kMicrosecond;
    expect("dataset.audio_seconds", run_.dataset.audio_seconds, "the sum of the batches",
           sum(batches.audio_seconds), slack);
    expect("total_seconds", run_.total_seconds, "the sum of the batches",
           sum(batches.total_seconds), slack);
    if (const auto decode = region("decode"))
      expect("regions.decode", *decode, "the sum of the batches", sum(batches.decode_seconds),
             slack);
    check_percentiles();
  }

  /// Returns the time of each batch until its texts. Null if a round has several overlapped passes,
  /// since `batches` then has means, and the percentiles are over all passes.
  const std::vector<Number>* latencies() const {
    if (!run_.pipeline) return &run_.batches->total_seconds;
    const auto& passes = run_.pipeline->pass_seconds;
    const bool is_one = passes && passes->size() == 1;
    return is_one && run_.batches->latency_seconds ? &*run_.batches->latency_seconds : nullptr;
  }

  void check_percentiles() {
    const std::vector<Number>* latencies = this->latencies();
    if (latencies == nullptr) return;
    const std::vector<double> seconds(latencies->begin(), latencies->end());
    for (const auto& [key, share] :
         {std::pair("batch_ms.p50", 0.5), {"batch_ms.p95", 0.95}, {"batch_ms.p99", 0.99}}) {
      if (const auto stated = figure(key)) expect_percentile(key, *stated, seconds, share);
    }
  }

  void expect_percentile(const std::string& name, double stated_ms,
                         const std::vector<double>& seconds, double share) {
    if (const auto computed = percentile(seconds, share))
      expect(name, stated_ms, "the percentile of the batches", 1e3 * *computed, 1e3 * kMicrosecond);
  }

  void check_first_pass() {
    if (!run_.first_pass) return;
    expect_figure("rtfx.first_pass", "audio / first_pass.seconds",
                  run_.dataset.audio_seconds / run_.first_pass->seconds);
    expect_figure("batch_ms.first", "first_pass.first_text_seconds, in ms,",
                  1e3 * run_.first_pass->first_text_seconds);
  }

  void check_lengths() {
    if (!run_.lengths || !run_.batches) return;
    const record::Batches& batches = *run_.batches;
    double requests = 0;
    for (const record::LengthLatency& length : *run_.lengths)
      requests += static_cast<double>(length.requests);
    size_t passes = 1;
    if (run_.pipeline && run_.pipeline->pass_seconds) passes = run_.pipeline->pass_seconds->size();
    expect("the sum of lengths.requests", requests, "the number of batches of all passes",
           static_cast<double>(passes * batches.audio_seconds.size()));
    const std::vector<Number>* latencies = this->latencies();
    if (latencies == nullptr || latencies->size() != batches.audio_seconds.size()) return;
    for (const record::LengthLatency& length : *run_.lengths)
      check_length(length, batches.audio_seconds, *latencies);
  }

  /// One batch is one request. Its length is that to which its audio was cut.
  void check_length(const record::LengthLatency& length, const std::vector<Number>& audio_seconds,
                    const std::vector<Number>& latencies) {
    std::vector<double> seconds;
    for (size_t b = 0; b < audio_seconds.size(); ++b) {
      const auto closest = std::ranges::min_element(*run_.lengths, {}, [&](const auto& other) {
        return std::abs(other.seconds - audio_seconds[b]);
      });
      if (&*closest == &length) seconds.push_back(latencies[b]);
    }
    const std::string of = fmt::format(" of {:g} s", double{length.seconds});
    if (length.p50_ms) expect_percentile("lengths.p50_ms" + of, *length.p50_ms, seconds, 0.5);
    if (length.p99_ms) expect_percentile("lengths.p99_ms" + of, *length.p99_ms, seconds, 0.99);
  }

  /// A stage has a thread and, on a GPU, a stream. The stage is as busy as the busier of the two.
  void check_stages() {
    if (!run_.pipeline || run_.shards) return;
    for (const auto& [key, regions] : std::map<const char*, std::vector<const char*>>{
             {"busy.copy", {"pad", "h2d"}},
             {"busy.encoder", {"features", "encoder"}},
             {"busy.decode", {"decode"}},
             {"busy.texts", {"d2h", "detokenize", "confidence"}}}) {
      double host = 0, device = 0;
      for (const char* name : regions) {
        const auto found = run_.regions.find(name);
        if (found == run_.regions.end()) continue;
        host += found->second.host_seconds;
        if (const Number* seconds = known(found->second.device_seconds)) device += *seconds;
      }
      expect_figure(key, "the time of its regions / total time",
                    std::max(host, device) / run_.total_seconds);
    }
  }

  void check_memory() {
    if (!run_.device_memory) return;
    constexpr double kMebibyte = 1 << 20;
    const record::DeviceMemory& memory = *run_.device_memory;
    const int64_t *kept = known(memory.kept_bytes), *decode = known(memory.decode_bytes),
                  *peak = known(memory.peak_bytes);
    if (kept != nullptr && decode != nullptr && peak != nullptr)
      expect("device_memory.peak_bytes", static_cast<double>(*peak), "kept_bytes + decode_bytes",
             static_cast<double>(*kept + *decode));
    if (kept != nullptr)
      expect_figure("memory.kept_mib", "device_memory.kept_bytes, in MiB,",
                    static_cast<double>(*kept) / kMebibyte);
    if (peak != nullptr)
      expect_figure("memory.peak_mib", "device_memory.peak_bytes, in MiB,",
                    static_cast<double>(*peak) / kMebibyte);
  }

  void check_energy() {
    const record::Energy* energy = known(run_.energy);
    if (energy == nullptr) return;
    constexpr double kSecondsPerHour = 3600;
    expect_figure("energy.joules_per_hour", "the power x seconds / hours of audio",
                  kSecondsPerHour * energy->watts * energy->seconds / energy->audio_seconds);
    expect("energy.audio_seconds", energy->audio_seconds, "the audio of its passes",
           static_cast<double>(energy->passes) * run_.dataset.audio_seconds);
  }

  void check_wall() {
    if (!run_.wall_seconds) return;
    const double wall = *run_.wall_seconds, total = run_.total_seconds;
    const double slack = 1e-6 * total;
    if (found_.empty() && wall < total - slack)
      found_ = fmt::format("wall_seconds is {:.6g}, less than total_seconds, {:.6g}", wall, total);
    if (run_.gap_seconds)
      expect("gap_seconds", *run_.gap_seconds, "wall_seconds - total_seconds", wall - total, slack);
  }

  /// The busiest stage bounds an overlapped pass.
  void check_bound() {
    if (!run_.bound_by || !found_.empty()) return;
    const std::string stage(*run_.bound_by);
    const auto its = figure(("busy." + stage).c_str());
    if (!its) return;
    for (const auto& [key, value] : run_.metrics) {
      if (!key.starts_with("busy.") || !value || *value <= *its) continue;
      found_ = fmt::format("bound_by is {}, and {} is {:.6g}, more than {:.6g}", stage, key,
                           double{*value}, *its);
      return;
    }
  }

  void check_oracle() {
    const record::OracleErrors* oracle = known(run_.oracle_wer);
    if (oracle == nullptr || !oracle->substitutions || !oracle->insertions || !oracle->deletions)
      return;
    expect_share("the oracle WER", oracle->wer, "errors / words",
                 *oracle->substitutions + *oracle->insertions + *oracle->deletions,
                 oracle->reference_words);
  }

  void check_boosted() {
    const record::Boosted* boosted = known(run_.boosted);
    if (boosted == nullptr) return;
    check_recall("boosted.", *boosted);
    if (!boosted->phrases) return;
    const record::BoostedPhrases& phrases = *boosted->phrases;
    check_recall("boosted.phrases.", phrases);
    if (phrases.occurrences && phrases.recalled && phrases.false_alarms) {
      expect_share("boosted.f_score", boosted->f_score,
                   "2 recalled / (occurrences + recalled + false_alarms)", 2 * *phrases.recalled,
                   *phrases.occurrences + *phrases.recalled + *phrases.false_alarms);
    }
  }

  /// `counts` are those of words or of phrases.
  void check_recall(const std::string& where, const auto& counts) {
    if (!counts.recalled) return;
    expect_share(where + "recall", counts.recall, "recalled / occurrences", *counts.recalled,
                 counts.occurrences);
    if (counts.false_alarms) {
      expect_share(where + "precision", counts.precision, "recalled / (recalled + false_alarms)",
                   *counts.recalled, *counts.recalled + *counts.false_alarms);
    }
  }

  /// A share that is null or missing passes, and so does one whose divisor is missing.
  void expect_share(const std::string& name, const Optional<Nullable<Number>>& share,
                    const char* rule, int64_t part, std::optional<int64_t> whole) {
    const Number* stated = known(share);
    if (stated == nullptr || !whole) return;
    if (*whole > 0) {
      expect(name, *stated, rule, static_cast<double>(part) / static_cast<double>(*whole));
    } else if (found_.empty()) {
      found_ = fmt::format("{} is {:.6g}, and {} divides by 0", name, double{*stated}, rule);
    }
  }

  void check_grades() {
    if (run_.exactness && run_.exactness->grade != "baseline")
      check_counts("exactness", run_.exactness->grade, run_.exactness->grades);
    if (run_.isolated) check_counts("isolated", run_.isolated->grade, run_.isolated->grades);
  }

  /// The grade of a set is that of its worst utterance. Where this is `different`, equal word
  /// errors give `wer`, but not against an isolated pass.
  void check_counts(const std::string& where, const std::string& grade,
                    const Named<int64_t>& grades) {
    if (!found_.empty()) return;
    int64_t utterances = 0;
    Grade worst = Grade::bitwise;
    for (const auto& [name, count] : grades) utterances += count;
    for (const std::string& name : grade_names()) {
      const auto found = grades.find(std::string_view(name));
      if (found != grades.end() && found->second > 0) worst = grade_of(name);
    }
    if (utterances != run_.dataset.utterances) {
      found_ = fmt::format("{}.grades has {} utterances, and dataset.utterances is {}", where,
                           utterances, run_.dataset.utterances);
      return;
    }
    const bool equal_errors = where == "exactness" && worst == Grade::different && grade == "wer";
    if (grade != to_string(worst) && !equal_errors) {
      found_ = fmt::format("{}.grade is {}, and the worst grade of its utterances is {}", where,
                           grade, to_string(worst));
    }
  }

  const record::Run& run_;
  std::string found_;
};

}  // namespace

std::string contradiction(const CaseResult& result) {
  std::set<std::string> hashes;
  // first round with each hash of the hypotheses
  std::map<std::string, const record::Run*> first_with;
  bool deterministic = true;
  std::optional<double> reference;
  for (const record::Round& round : result.rounds()) {
    const auto* run = std::get_if<record::Run>(&round);
    if (run == nullptr) continue;
    if (const std::string text = RecordCheck(*run).contradiction(); !text.empty())
      return fmt::format("round {}: {}", run->round, text);
    hashes.insert(run->hypotheses_sha256);
    deterministic = deterministic && run->deterministic.value_or(true);
    const record::Run& first = *first_with.try_emplace(run->hypotheses_sha256, run).first->second;
    const std::string other = first.tokens_sha256 != run->tokens_sha256 ? "tokens_sha256"
                              : metric_of(first, kTokens) != metric_of(*run, kTokens) ? kTokens
                                                                                      : "";
    if (!reference) reference = metric_of(*run, kReferenceTokens);
    if (reference != metric_of(*run, kReferenceTokens))
      return fmt::format("round {}: {} is not that of the rounds before", run->round,
                         kReferenceTokens);
    if (!other.empty()) {
      return fmt::format("round {}: it has the hypotheses_sha256 of round {}, and another {}",
                         run->round, first.round, other);
    }
  }
  return deterministic && hashes.size() > 1
             ? "`deterministic` is true, and the hashes of its rounds differ"
             : "";
}

}  // namespace rtfx
