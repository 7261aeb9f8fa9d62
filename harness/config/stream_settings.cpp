#include "harness/config/stream_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"

namespace rtfx {

const OptionTable<StreamRule>& StreamRule::table() {
  constexpr double kLongest = 1e6;
  static const OptionTable<StreamRule> keys{
      {option("late", &StreamRule::late,
              "Largest share of requests whose work may begin more than one period after they "
              "arrived.",
              0, 1),
       option("final_ms", &StreamRule::final_ms,
              "Longest time in milliseconds from the arrival of an utterance's last audio to its "
              "final text.",
              0, kLongest),
       option("of_finals", &StreamRule::of_finals,
              "Percentile of these times to which `final_ms` applies.", {"p50", "p95", "p99"}),
       option("seconds", &StreamRule::seconds, "Length of a trial in seconds.", 0.1, kLongest),
       option("confirm_seconds", &StreamRule::confirm_seconds,
              "Length in seconds of the trial that confirms a number of streams.", 0.1, kLongest),
       option("growth", &StreamRule::growth,
              "Factor by which the number of streams grows after a trial that kept the rule.", 1.01,
              100),
       option("wer", &StreamRule::wer,
              "Largest relative increase of the streams' word error rate over that of whole "
              "utterances. 0.02 is 2 %.",
              0, 100)},
      "key"};
  return keys;
}

const OptionTable<EndpointSettings>& EndpointSettings::table() {
  static auto vad =
      text_option("vad", &EndpointSettings::vad,
                  "`vad`: file of the voice activity detector, such as silero_vad.jit.", "a path");
  vad.is_file = true;
  static const OptionTable<EndpointSettings> keys{
      {option("rule", &EndpointSettings::rule,
              "Event that ends an utterance. `pause`: no word for a while. `token`: a special "
              "token. `vad`: no speech, as a voice activity detector says.",
              {"pause", "token", "vad"})
           .required(),
       option("seconds", &EndpointSettings::seconds,
              "`pause`: seconds without a word that end an utterance. `vad`: seconds without "
              "speech that do.",
              0.1, 3600)
           .by_default("1, and 0.5 for `vad`"),
       list_option("tokens", &EndpointSettings::tokens, "`token`: pieces that end an utterance.",
                   "text", [](const JsonView& v) { return v.text(); })
           .by_default("`<EOU>` and `<EOB>`"),
       vad},
      "key"};
  return keys;
}

namespace {

/// Fills in what a rule leaves out.
void complete_endpoint(EndpointSettings& endpoint, const std::string& where) {
  endpoint.where = where;
  if (endpoint.seconds == 0) endpoint.seconds = endpoint.rule == "vad" ? 0.5 : 1;
  if (endpoint.rule == "vad" && endpoint.vad.empty()) {
    throw UserError(where, "names no detector",
                    "add \"vad\": \"silero_vad.jit\", a file of the Python package silero-vad");
  }
}

}  // namespace

const OptionTable<StreamSettings>& stream_keys() {
  constexpr int64_t kMost = 1 << 20;
  constexpr double kLongest = 1e6;
  static auto rule = option(
      "rule", &StreamSettings::rule,
      "Search for the largest number of streams that keeps this rule, beginning with the first of "
      "`streams`. Each trial is a process of its own. \"c120\" stands for this rule with all its "
      "defaults. With a rule, `arrivals` is `staggered`, `start` is `random` and `discard` is 0 by "
      "default. The datasets need texts, and `slo_ms` must be 0.",
      StreamRule::table());
  rule.allowed = "null | \"c120\" | an object";
  rule.set = [](StreamSettings& s, const JsonView& v) {
    if (v.value().is_string()) {
      v.choice({"c120"});
      s.rule.emplace();
    } else {
      s.rule = StreamRule::table().fill(v);
    }
  };
  static auto endpoints =
      list_option("endpoints", &StreamSettings::endpoints,
                  "Rules that end an utterance before its stream ends. They need the `scope` "
                  "`speech`, and `quality` or `stream.rule`. The journal then has the delay of "
                  "each rule. A name is short for {\"rule\": ...}.",
                  EndpointSettings::table(), [](const JsonView& v) {
                    EndpointSettings endpoint;
                    endpoint.rule = v.choice({"pause", "token", "vad"});
                    return endpoint;
                  });
  static const OptionTable<StreamSettings> keys{
      {list_option("streams", &StreamSettings::streams,
                   "Numbers of simultaneous streams. Each number makes a case.",
                   JsonView::range_text(int64_t{1}, kMost),
                   [](const JsonView& v) { return v.integer(1, kMost); }),
       option("period_ms", &StreamSettings::period_ms,
              "Time between two requests of a stream in milliseconds. Each request brings this "
              "much new audio.",
              1, kLongest),
       option("chunk_ms", &StreamSettings::chunk_ms,
              "`search`: length of a request's audio in milliseconds, at least `period_ms`. The "
              "part beyond the period is right context of the encoder.",
              1, kLongest)
           .by_default("the period"),
       option("arrivals", &StreamSettings::arrivals,
              "Arrival of requests. `constant`: each stream begins at a random time within the "
              "first period. `staggered`: within stagger_seconds. `lockstep`: all streams at the "
              "same times. `poisson`: at random, on average once per period.",
              {"constant", "staggered", "lockstep", "poisson"}),
       option("stagger_seconds", &StreamSettings::stagger_seconds,
              "Time in seconds within which `staggered` streams begin.", 0, kLongest),
       option("start", &StreamSettings::start,
              "Point at which each stream starts in its first utterance.", {"beginning", "random"}),
       option("max_batch", &StreamSettings::max_batch,
              "Largest number of streams in a batch. A batch starts as soon as this many streams "
              "have a request waiting.",
              1, kMost),
       option("max_wait_ms", &StreamSettings::max_wait_ms,
              "A batch also starts when its oldest request has waited this many milliseconds.", 0,
              kLongest),
       option("seconds", &StreamSettings::seconds,
              "Time in seconds during which requests arrive. A rule has its own `seconds`.", 0.1,
              kLongest),
       option("discard", &StreamSettings::discard,
              "Share of these seconds, from the start, that is not measured.", 0, 0.9),
       option("partial", &StreamSettings::partial, "Return the text so far after every request."),
       option("quality", &StreamSettings::quality,
              "Also stream the whole dataset, and compare its word errors with those of whole "
              "utterances."),
       endpoints,
       option("silence", &StreamSettings::silence,
              "Silence in seconds that follows each recording, for `endpoints`.", 0, 3600),
       option("scope", &StreamSettings::scope,
              "Work that a request causes. `search`: the search over frames that exist already. "
              "`speech`: everything from samples to text.",
              {"search", "speech"}),
       list_option("buffer", &StreamSettings::buffer,
                   "`speech`, for encoders without caches: seconds of a chunk, of its left context "
                   "and of its right context.",
                   "a number 0..3600", [](const JsonView& v) { return v.number(0, 3600); }),
       list_option(
           "fewer_rows", &StreamSettings::fewer_rows,
           "`speech`: batch sizes of the encoder below max_batch. A step takes the smallest size "
           "that holds its requests. So few streams cost less, and frames differ by rounding.",
           JsonView::range_text(int64_t{1}, kMost),
           [](const JsonView& v) { return v.integer(1, kMost); }),
       option("slo_ms", &StreamSettings::slo_ms,
              "If not 0: search for the largest number of streams whose 99th percentile of latency "
              "is at most this many milliseconds, beginning with the first of `streams`.",
              0, kLongest),
       rule},
      "key"};
  return keys;
}

StreamSettings read_stream_settings(const JsonView& view) {
  StreamSettings o = stream_keys().fill(view);
  if (o.rule) {
    if (o.slo_ms > 0) {
      throw UserError(view.where() + "/rule", "stands beside slo_ms",
                      "give one limit: the rule, or slo_ms");
    }
    // A rule also has defaults for its trials. The file may set other values.
    if (!view.find("arrivals")) o.arrivals = "staggered";
    if (!view.find("start")) o.start = "random";
    if (!view.find("discard")) o.discard = 0;
    // In journals, equal values may stand in both places.
    if (view.find("seconds") && o.seconds != o.rule->seconds) {
      throw UserError(view.where() + "/seconds", "stands beside a rule, which has its own",
                      "give stream.rule.seconds");
    }
    o.seconds = o.rule->seconds;
  }
  std::set<int64_t> seen;
  for (const int64_t count : o.streams) {
    if (!seen.insert(count).second) {
      throw UserError(view.where() + "/streams", fmt::format("{} is there twice", count),
                      "give each number of streams once");
    }
  }
  if (!o.endpoints.empty() && (o.scope != "speech" || !(o.quality || o.rule))) {
    throw UserError(view.where() + "/endpoints", "are measured on streams from samples on",
                    "add \"scope\": \"speech\" and \"quality\": true");
  }
  for (size_t i = 0; i < o.endpoints.size(); ++i)
    complete_endpoint(o.endpoints[i], fmt::format("{}/endpoints/{}", view.where(), i));
  if (o.buffer.size() != 3) {
    throw UserError(view.where() + "/buffer", fmt::format("has {} numbers", o.buffer.size()),
                    "give three: seconds of a chunk, before it and behind it");
  }
  if (!o.fewer_rows.empty() && o.scope != "speech") {
    throw UserError(view.where() + "/fewer_rows", "is for the scope speech",
                    "leave it out, or set scope to speech");
  }
  for (const int64_t rows : o.fewer_rows) {
    if (rows >= o.max_batch) {
      throw UserError(view.where() + "/fewer_rows",
                      fmt::format("{} is not below max_batch, {}", rows, o.max_batch),
                      "give smaller numbers of rows");
    }
  }
  if (const auto chunk = view.find("chunk_ms")) {
    chunk->number(o.period_ms, 1e6);
  } else {
    o.chunk_ms = o.period_ms;
  }
  if (o.seconds * (1 - o.discard) < 2 * o.period_ms / 1000) {
    throw UserError(view.where() + "/seconds",
                    fmt::format("{} s leave less than two periods to measure", o.seconds),
                    "give more seconds, or discard less");
  }
  // Streams without a request would count as served.
  const double shortest = o.rule ? std::min(o.seconds, o.rule->confirm_seconds) : o.seconds;
  if (o.arrivals == "staggered" && o.stagger_seconds + o.period_ms / 1000 > shortest) {
    throw UserError(
        view.where() + "/stagger_seconds",
        fmt::format("some of the streams that begin within {:g} s have no whole period in the {:g} "
                    "s of requests",
                    o.stagger_seconds, shortest),
        o.rule ? "lower it, or raise stream.rule.seconds and stream.rule.confirm_seconds"
               : "lower it, or raise stream.seconds");
  }
  return o;
}

}  // namespace rtfx
