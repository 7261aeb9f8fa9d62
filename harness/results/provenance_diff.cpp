#include "harness/results/provenance_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/printable.h"

namespace rtfx {
namespace {

using nlohmann::json;

bool always_differs(const std::string& key) {
  constexpr std::array kKeys = {"/started",  "/provenance_id",   "/name",         "/config/name",
                                "/question", "/config/question", "/config/output"};
  return std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end() ||
         key.ends_with("/load_seconds");
}

/// The load is never the same: it matters where another CPU was at work.
bool same(const std::string& key, const json& x, const json& y) {
  if (key == "/cpu/load_average" && x.is_number() && y.is_number())
    return std::abs(x.get<double>() - y.get<double>()) < 1;
  return x == y;
}

}  // namespace

std::vector<ProvenanceChange> provenance_changes(const json& from, const json& to) {
  const json a = from.flatten(), b = to.flatten();
  std::set<std::string> keys;
  for (const json* side : {&a, &b}) {
    for (const auto& item : side->items()) keys.insert(item.key());
  }
  std::vector<ProvenanceChange> changes;
  for (const std::string& key : keys) {
    json x = a.value(key, json()), y = b.value(key, json());
    if (!same(key, x, y) && !always_differs(key))
      changes.push_back({key, std::move(x), std::move(y)});
  }
  return changes;
}

void print_provenance_changes(const std::vector<ProvenanceChange>& changes) {
  if (changes.empty()) fmt::print("The provenance of both is the same.\n");
  for (const ProvenanceChange& change : changes)
    fmt::print("{}: {} -> {}\n", printable(change.key.substr(1)), printable(change.from.dump()),
               printable(change.to.dump()));
}

}  // namespace rtfx
