#include "base/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace rtfx {

namespace {

std::string compose(std::string_view where, std::string_view problem, std::string_view remedy) {
  std::string text = where.empty() ? std::string(problem) : fmt::format("{}: {}", where, problem);
  if (!remedy.empty()) text += fmt::format("; {}", remedy);
  return text;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

UserError::UserError(std::string_view where, std::string_view problem, std::string_view remedy)
    : std::runtime_error(compose(where, problem, remedy)), where_(where) {}

std::string nearest(std::string_view name, std::span<const std::string> allowed) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, name.size() / 3) + 1;
  for (const auto& candidate : allowed) {
    const size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

UserError unknown_name(std::string_view where, std::string_view kind, std::string_view name,
                       std::span<const std::string> allowed) {
  const std::string guess = nearest(name, allowed);
  std::string remedy = guess.empty() ? "" : fmt::format("did you mean '{}'? ", guess);
  remedy += fmt::format("allowed: {}", fmt::join(allowed, ", "));
  return {where, fmt::format("unknown {} '{}'", kind, name), remedy};
}

void check_failed(const char* condition, const char* file, int line, const std::string& message) {
  throw std::logic_error(fmt::format("{}:{}: {} ({})", file, line, message, condition));
}

namespace {

std::string lines_of(const std::vector<UserError>& errors) {
  std::string text;
  for (const UserError& e : errors) text += (text.empty() ? "" : "\n") + std::string(e.what());
  return text;
}

}  // namespace

UserErrors::UserErrors(std::vector<UserError> all)
    : UserError("", lines_of(all)), all_(std::move(all)) {}

void ErrorList::add(const UserError& error) {
  if (const auto* several = dynamic_cast<const UserErrors*>(&error)) {
    errors_.insert(errors_.end(), several->all().begin(), several->all().end());
  } else {
    errors_.push_back(error);
  }
}

void ErrorList::throw_any() const {
  if (errors_.size() == 1) throw errors_.front();
  if (!errors_.empty()) throw UserErrors(errors_);
}

}  // namespace rtfx
