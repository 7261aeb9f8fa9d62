// Checks of numbers on the command line. Their messages say what is allowed: those of CLI11 print
// the largest double with all of its digits.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace rtfx {

/// Allows the numbers that `allows` tests. `rule` says it in words, and `name` stands in `--help`.
template <class Allows>
CLI::Validator number_check(const std::string& rule, const Allows& allows,
                            const std::string& name) {
  const auto check = [rule, allows](const std::string& text) {
    double value = 0;
    if (CLI::detail::lexical_cast(text, value) && allows(value)) return std::string();
    return fmt::format("must be {}, not '{}'", rule, text);
  };
  return CLI::Validator(check, name);
}

/// Allows whole numbers and fractions of at least `low`, which is 0 or 1.
inline CLI::Validator at_least(int low) {
  return number_check(
      fmt::format("{} or more", low), [low](double value) { return value >= low; },
      low == 0 ? "NONNEGATIVE" : "POSITIVE");
}

/// Allows numbers above 0.
inline CLI::Validator above_zero() {
  return number_check(
      "above 0", [](double value) { return value > 0; }, "POSITIVE");
}

/// Allows numbers from `low` to `high`, both included.
inline CLI::Validator between(double low, double high) {
  return number_check(
      fmt::format("from {} to {}", low, high),
      [low, high](double value) { return value >= low && value <= high; },
      fmt::format("{}..{}", low, high));
}

}  // namespace rtfx
