#include "algorithms/shared/replay/greedy_path.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "algorithms/shared/replay/network.h"

namespace rtfx {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

Deviation label_deviation(const Place& place, const Judged& judged) {
  return {"label",           place.frame,      place.label,
          judged.label.best, judged.label.gap, judged.label.bound};
}

Deviation duration_deviation(const Place& place, const Judged::Choice& choice, int64_t value,
                             const std::vector<int64_t>& values) {
  return {"duration", place.frame, value, values[static_cast<size_t>(choice.best)],
          choice.gap, choice.bound};
}

Deviation no_path(int64_t frame) { return {"path", frame, 0, 0, kNever, 1}; }

/// The sum of scores along a path. Where labels and frames repeat, the errors of the scores are not
/// independent. The sum may then be off by twice the sum of their deviations.
struct PathScore {
  double sum = 0, magnitudes = 0, variance = 0, deviations = 0;
  void add(const Judged& judged) {
    sum += judged.score;
    magnitudes += std::abs(judged.score);
    variance += judged.variance;
    deviations += std::sqrt(judged.variance);
  }
  void give(Replayed& replayed) const {
    replayed.least_score = replayed.most_score = sum;
    replayed.score_bound =
        std::max(ReplayNetwork::kDeviations * std::sqrt(variance), 2 * deviations) +
        rounding_of_score(magnitudes);
  }
};

/// The way over blanks from segment.begin to segment.target whose worst decision is best.
class BlankChain {
 public:
  BlankChain(const Segment& segment, const std::vector<Judged>& judged,
             const std::vector<int64_t>& durations)
      : segment_(segment), judged_(judged), durations_(durations) {
    const auto size = static_cast<size_t>(segment.target - segment.begin + 1);
    worst_.assign(size, kNever);
    from_.assign(size, {});
    worst_[0] = 0;
    for (size_t at = 0; at + 1 < size; ++at) {
      if (worst_[at] == kNever) continue;
      const Judged& here = judged_[static_cast<size_t>(segment_.first) + at];
      const double label = std::max(worst_[at], here.label.ratio());
      for (size_t d = 0; d < std::max<size_t>(1, durations_.size()); ++d) {
        const int64_t by = durations_.empty() ? 1 : std::max<int64_t>(1, durations_[d]);
        size_t to = at + static_cast<size_t>(by);
        if (to >= size && segment_.has_token) continue;  // beyond the token's frame
        to = std::min(to, size - 1);
        const double ratio = durations_.empty() ? 0 : here.durations[d].ratio();
        if (const double worst = std::max(label, ratio); worst < worst_[to]) {
          worst_[to] = worst;
          from_[to] = {at, d};
        }
      }
    }
  }

  bool exists() const { return worst_.back() != kNever; }

  /// Adds the decisions of the chain in the order of time.
  void enter(Replayed& replayed, const std::vector<Place>& places) const {
    std::vector<Step> steps;
    for (size_t at = worst_.size() - 1; at > 0; at = from_[at].at) steps.push_back(from_[at]);
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
      const size_t i = static_cast<size_t>(segment_.first) + step->at;
      replayed.add(label_deviation(places[i], judged_[i]));
      if (durations_.empty()) continue;
      replayed.add(duration_deviation(places[i], judged_[i].durations[step->duration],
                                      durations_[step->duration], durations_));
    }
  }

 private:
  struct Step {
    size_t at = 0, duration = 0;
  };
  const Segment& segment_;
  const std::vector<Judged>& judged_;
  const std::vector<int64_t>& durations_;
  std::vector<double> worst_;
  std::vector<Step> from_;
};

}  // namespace

std::vector<Segment> transducer_places(const Hypothesis& hypothesis, int64_t row, int64_t length,
                                       int64_t blank, bool is_tdt, int64_t max_symbols,
                                       std::vector<Place>& places) {
  std::vector<Segment> segments;
  const size_t tokens = hypothesis.tokens.size();
  int64_t begin = 0, at_frame = 0;  // the search's frame, and its tokens there so far
  for (size_t i = 0; i <= tokens; ++i) {
    Segment segment;
    segment.first = static_cast<int64_t>(places.size());
    segment.has_token = i < tokens;
    segment.begin = begin;
    segment.target = segment.has_token ? hypothesis.frames[i] : std::max(begin, length);
    segment.broken = segment.target < begin;
    const auto prefix = static_cast<int64_t>(i);
    for (int64_t t = begin; t < std::min(segment.target, length); ++t)
      places.push_back({row, prefix, t, blank});
    if (segment.has_token) {
      places.push_back({row, prefix, hypothesis.frames[i], hypothesis.tokens[i], -1, true});
      const int64_t frame = hypothesis.frames[i];
      const int64_t duration = is_tdt ? hypothesis.durations[i] : 0;
      const bool same = i > 0 && frame == hypothesis.frames[i - 1];
      at_frame = same ? at_frame + 1 : 1;
      begin = frame + duration;
      if (duration == 0 && max_symbols > 0 && at_frame >= max_symbols) ++begin;
    }
    segment.count = static_cast<int64_t>(places.size()) - segment.first;
    segments.push_back(segment);
  }
  return segments;
}

Replayed follow_transducer(const Hypothesis& hypothesis, const std::vector<Segment>& segments,
                           const std::vector<Place>& places, const std::vector<Judged>& judged,
                           const std::vector<int64_t>& durations) {
  Replayed replayed;
  PathScore score;
  for (size_t i = 0; i < segments.size(); ++i) {
    const Segment& segment = segments[i];
    if (segment.broken) {
      replayed.add(no_path(segment.target));
    } else if (const BlankChain chain(segment, judged, durations); chain.exists()) {
      chain.enter(replayed, places);
    } else {
      replayed.add(no_path(segment.target));
    }
    if (!segment.has_token) continue;
    const auto last = static_cast<size_t>(segment.first + segment.count - 1);
    replayed.add(label_deviation(places[last], judged[last]));
    score.add(judged[last]);
    if (durations.empty()) continue;
    const int64_t value = hypothesis.durations[i];
    const auto found = std::ranges::find(durations, value);
    if (found == durations.end()) {
      replayed.add(no_path(segment.target));
      continue;
    }
    const auto index = static_cast<size_t>(found - durations.begin());
    replayed.add(duration_deviation(places[last], judged[last].durations[index], value, durations));
  }
  score.give(replayed);
  return replayed;
}

std::vector<Segment> ctc_places(const Hypothesis& hypothesis, int64_t row, int64_t length,
                                int64_t blank, std::vector<Place>& places) {
  std::vector<Segment> segments;
  const size_t tokens = hypothesis.tokens.size();
  for (size_t i = 0; i <= tokens; ++i) {
    Segment segment;
    segment.first = static_cast<int64_t>(places.size());
    segment.has_token = i > 0;  // the token at the begin of the segment
    segment.begin = i > 0 ? hypothesis.frames[i - 1] : 0;
    segment.target = i < tokens ? hypothesis.frames[i] : length;
    const auto prefix = static_cast<int64_t>(i);
    const int64_t token = i > 0 ? hypothesis.tokens[i - 1] : -1;
    // Two tokens lie at one frame, or equal ones follow each other without room for a blank.
    segment.broken = i > 0 && i < tokens &&
                     segment.target - segment.begin < (hypothesis.tokens[i] == token ? 2 : 1);
    for (int64_t t = segment.begin; t < segment.target; ++t) {
      if (i > 0 && t == segment.begin) {
        // The label before this frame is known only where the run of the previous token has ended.
        // A blank in between makes an equal token a new one.
        const int64_t before = i > 1 ? hypothesis.tokens[i - 2] : -1;
        places.push_back({row, prefix - 1, t, token, before == token ? -1 : before, true});
        continue;
      }
      if (i > 0) places.push_back({row, prefix, t, token, -1});
      places.push_back({row, prefix, t, blank, -1});
    }
    segment.count = static_cast<int64_t>(places.size()) - segment.first;
    segments.push_back(segment);
  }
  return segments;
}

Replayed follow_ctc(const std::vector<Segment>& segments, const std::vector<Place>& places,
                    const std::vector<Judged>& judged) {
  Replayed replayed;
  PathScore score;
  const auto enter = [&](size_t i) {
    replayed.add(label_deviation(places[i], judged[i]));
    score.add(judged[i]);
  };
  for (size_t s = 0; s < segments.size(); ++s) {
    const Segment& segment = segments[s];
    if (segment.broken) {
      replayed.add(no_path(segment.target));
      continue;
    }
    const auto first = static_cast<size_t>(segment.first);
    if (!segment.has_token) {
      for (int64_t i = 0; i < segment.count; ++i) enter(first + static_cast<size_t>(i));
      continue;
    }
    if (segment.count == 0) continue;
    enter(first);
    // After `run` repeats come blanks. The change is made where the worst decision is best. At
    // least one blank stands before an equal token.
    const auto frames = static_cast<size_t>((segment.count - 1) / 2);
    const auto repeat = [&](size_t t) { return first + 1 + 2 * t; };
    const bool again =
        s + 1 < segments.size() && segments[s + 1].count > 0 &&
        places[static_cast<size_t>(segments[s + 1].first)].label == places[first].label;
    std::vector<double> blanks(frames + 1, 0);  // worst decision of the blanks from t on
    for (size_t t = frames; t-- > 0;)
      blanks[t] = std::max(blanks[t + 1], judged[repeat(t) + 1].label.ratio());
    double repeats = 0, best = kNever;
    size_t run = 0;
    for (size_t t = 0; t <= frames; ++t) {
      if (t > 0) repeats = std::max(repeats, judged[repeat(t - 1)].label.ratio());
      if (again && t == frames) break;
      if (const double worst = std::max(repeats, blanks[t]); worst < best) {
        best = worst;
        run = t;
      }
    }
    for (size_t t = 0; t < frames; ++t) enter(t < run ? repeat(t) : repeat(t) + 1);
  }
  score.give(replayed);
  return replayed;
}

}  // namespace rtfx
