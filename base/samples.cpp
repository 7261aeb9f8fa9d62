#include "base/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace rtfx {
namespace {

/// Samples of recordings lie in [-1, 1], or within the range of their integers if nobody scaled
/// them. Far larger samples are damaged, and the squares of the largest overflow in the features.
constexpr float kLargestSample = 1e12F;

bool is_bad(float value) { return !(std::abs(value) <= kLargestSample); }

}  // namespace

bool are_valid_samples(std::span<const float> samples) {
  // The loop looks at all samples without a branch, since there is hardly ever a bad one.
  int bad = 0;
  for (const float value : samples) bad |= static_cast<int>(is_bad(value));
  return bad == 0;
}

void require_valid_samples(std::span<const float> samples, std::string_view where,
                           std::string_view remedy, size_t first) {
  if (are_valid_samples(samples)) return;
  const auto bad = std::ranges::find_if(samples, is_bad);
  throw UserError(where,
                  fmt::format("sample {} is {}", first + static_cast<size_t>(bad - samples.begin()),
                              std::isnan(*bad)   ? "NaN"
                              : std::isinf(*bad) ? "infinite"
                                                 : fmt::format("{:g}", *bad)),
                  remedy);
}

}  // namespace rtfx
