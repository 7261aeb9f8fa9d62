#include "harness/config/batches.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace rtfx {
namespace {

/// Fisher-Yates; std::shuffle differs between standard libraries.
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

std::vector<size_t> round_order(size_t count, int64_t round, int64_t seed) {
  std::vector<size_t> order = iota(count);
  shuffle(order, seed);
  if (round % 2 == 1) std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace rtfx
