#include "harness/run/weight_search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/error.h"

namespace rtfx {

namespace {

bool is_smaller(const Weights& a, const Weights& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::abs(a[i]) != std::abs(b[i])) return std::abs(a[i]) < std::abs(b[i]);
  }
  return a < b;
}

bool is_better(const WeighedErrors& a, const WeighedErrors& b) {
  return a.errors != b.errors ? a.errors < b.errors : is_smaller(a.weights, b.weights);
}

class WeightSearch {
 public:
  WeightSearch(const std::vector<TuneRange>& ranges, const CountErrors& count)
      : ranges_(ranges), count_(count) {}

  std::vector<WeighedErrors> run(int64_t grid, double tolerance) {
    try_points(grid_points(grid));
    double spacing = 1.0 / static_cast<double>(grid - 1);
    while (spacing > tolerance) {
      spacing /= 2;
      for (Best from; !is_same(from, best_);) {
        from = best_;
        std::vector<Weights> points;
        for (const auto& [choices, best] : from) add_neighbours(best.weights, spacing, points);
        try_points(points);
      }
    }
    std::vector<WeighedErrors> all;
    for (const auto& [weights, errors] : known_) all.push_back({weights, errors});
    std::sort(all.begin(), all.end(), is_better);
    return all;
  }

 private:
  using Best = std::map<Weights, WeighedErrors>;

  /// Returns the value at a share of the range, 0..1.
  double value(size_t range, double share) const {
    const TuneRange& r = ranges_[range];
    const double value = r.low + std::clamp(share, 0.0, 1.0) * (r.high - r.low);
    return r.is_integer ? std::round(value) : std::round(value * 1e6) / 1e6;
  }

  /// Returns all choices of the range, or `grid` values of it.
  Weights values(size_t range, int64_t grid) const {
    const auto choices = static_cast<int64_t>(ranges_[range].choices.size());
    Weights values;
    for (int64_t i = 0; i < choices; ++i) values.push_back(static_cast<double>(i));
    for (int64_t i = 0; choices == 0 && i < grid; ++i)
      values.push_back(value(range, static_cast<double>(i) / static_cast<double>(grid - 1)));
    return values;
  }

  std::vector<Weights> grid_points(int64_t grid) const {
    std::vector<Weights> points = {{}};
    for (size_t r = 0; r < ranges_.size(); ++r) {
      std::vector<Weights> longer;
      for (const Weights& point : points) {
        for (const double value : values(r, grid)) {
          longer.push_back(point);
          longer.back().push_back(value);
        }
      }
      points = std::move(longer);
    }
    return points;
  }

  void add_neighbours(const Weights& from, double spacing, std::vector<Weights>& points) const {
    for (size_t r = 0; r < ranges_.size(); ++r) {
      if (!ranges_[r].choices.empty()) continue;
      const double share = (from[r] - ranges_[r].low) / (ranges_[r].high - ranges_[r].low);
      for (const double step : {-spacing, spacing}) {
        points.push_back(from);
        points.back()[r] = value(r, share + step);
      }
    }
  }

  void try_points(const std::vector<Weights>& points) {
    std::vector<Weights> fresh;
    for (const Weights& point : points) {
      if (!known_.contains(point) && std::ranges::find(fresh, point) == fresh.end())
        fresh.push_back(point);
    }
    if (fresh.empty()) return;
    const std::vector<int64_t> errors = count_(fresh);
    RTFX_CHECK(errors.size() == fresh.size(), "");
    for (size_t i = 0; i < fresh.size(); ++i) {
      known_[fresh[i]] = errors[i];
      const WeighedErrors found{fresh[i], errors[i]};
      WeighedErrors& best = best_[choices_of(fresh[i], ranges_)];
      if (best.weights.empty() || is_better(found, best)) best = found;
    }
  }

  static bool is_same(const Best& a, const Best& b) {
    return std::ranges::equal(
        a, b, {}, [](const auto& one) { return one.second.weights; },
        [](const auto& one) { return one.second.weights; });
  }

  const std::vector<TuneRange>& ranges_;
  const CountErrors& count_;
  std::map<Weights, int64_t> known_;
  Best best_;  // best point for each combination of choices
};

}  // namespace

Weights choices_of(const Weights& point, const std::vector<TuneRange>& ranges) {
  Weights choices;
  for (size_t i = 0; i < ranges.size(); ++i)
    if (!ranges[i].choices.empty()) choices.push_back(point[i]);
  return choices;
}

std::vector<WeighedErrors> search_weights(const std::vector<TuneRange>& ranges, int64_t grid,
                                          double tolerance, const CountErrors& count) {
  return WeightSearch(ranges, count).run(grid, tolerance);
}

}  // namespace rtfx
