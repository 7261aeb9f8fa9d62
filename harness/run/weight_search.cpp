#include "harness/run/weight_search.h"

#include <algorithm>
#include <cmath>
#include <map>

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
      for (Weights from; from != best();) {
        from = best();
        try_points(neighbours(from, spacing));
      }
    }
    std::vector<WeighedErrors> all;
    for (const auto& [weights, errors] : known_) all.push_back({weights, errors});
    std::sort(all.begin(), all.end(), is_better);
    return all;
  }

 private:
  /// The value at a share of the range, 0..1.
  double value(size_t range, double share) const {
    const TuneRange& r = ranges_[range];
    const double value = r.low + std::clamp(share, 0.0, 1.0) * (r.high - r.low);
    return r.is_integer ? std::round(value) : std::round(value * 1e6) / 1e6;
  }

  std::vector<Weights> grid_points(int64_t grid) const {
    std::vector<Weights> points = {{}};
    for (size_t r = 0; r < ranges_.size(); ++r) {
      std::vector<Weights> longer;
      for (const Weights& point : points) {
        for (int64_t i = 0; i < grid; ++i) {
          longer.push_back(point);
          longer.back().push_back(value(r, static_cast<double>(i) / static_cast<double>(grid - 1)));
        }
      }
      points = std::move(longer);
    }
    return points;
  }

  std::vector<Weights> neighbours(const Weights& from, double spacing) const {
    std::vector<Weights> points;
    for (size_t r = 0; r < ranges_.size(); ++r) {
      const double share = (from[r] - ranges_[r].low) / (ranges_[r].high - ranges_[r].low);
      for (const double step : {-spacing, spacing}) {
        points.push_back(from);
        points.back()[r] = value(r, share + step);
      }
    }
    return points;
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
      if (best_.weights.empty() || is_better(found, best_)) best_ = found;
    }
  }

  const Weights& best() const { return best_.weights; }

  const std::vector<TuneRange>& ranges_;
  const CountErrors& count_;
  std::map<Weights, int64_t> known_;
  WeighedErrors best_;
};

}  // namespace

std::vector<WeighedErrors> search_weights(const std::vector<TuneRange>& ranges, int64_t grid,
                                          double tolerance, const CountErrors& count) {
  return WeightSearch(ranges, count).run(grid, tolerance);
}

}  // namespace rtfx
