#include "harness/scoring/exactness.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "base/sha256.h"
#include "harness/scoring/wer.h"

namespace rtfx {
namespace {

size_t first_difference(const Hypothesis& a, const Hypothesis& b) {
  const size_t shared = std::min(a.tokens.size(), b.tokens.size());
  for (size_t i = 0; i < shared; ++i) {
    if (a.tokens[i] != b.tokens[i] || a.frames[i] != b.frames[i]) return i;
    // A wrong duration shows in the decisions of the token that predicted it.
    if (!a.durations.empty() && !b.durations.empty() && a.durations[i] != b.durations[i]) return i;
  }
  return shared;
}

bool scores_close(double a, double b, double tolerance) {
  return std::abs(a - b) <= tolerance * std::max({1.0, std::abs(a), std::abs(b)});
}

void append(std::string& bytes, const std::vector<int32_t>& values) {
  const auto size = static_cast<uint32_t>(values.size());
  bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int32_t));
}

void append(std::string& bytes, const Hypothesis& hypothesis, bool scores) {
  append(bytes, hypothesis.tokens);
  append(bytes, hypothesis.frames);
  append(bytes, hypothesis.durations);
  if (!scores) return;
  const auto score = std::bit_cast<uint32_t>(hypothesis.score);
  bytes.append(reinterpret_cast<const char*>(&score), sizeof score);
  if (hypothesis.words)
    for (const FoundWord& word : *hypothesis.words) bytes += word.text + '\n';
  for (const Hypothesis& entry : hypothesis.nbest) append(bytes, entry, scores);
}

}  // namespace

const std::vector<std::string>& grade_names() {
  static const std::vector<std::string> names = {"bitwise", "exact", "rounding",
                                                 "text",    "wer",   "different"};
  return names;
}

std::string to_string(Grade grade) { return grade_names()[static_cast<size_t>(grade)]; }

Grade grade_of(const std::string& name) {
  const auto found = std::find(grade_names().begin(), grade_names().end(), name);
  RTFX_CHECK(found != grade_names().end(), "no grade " + name);
  return static_cast<Grade>(found - grade_names().begin());
}

double score_tolerance(at::ScalarType dtype) {
  if (dtype == at::kBFloat16) return 0x1p-6;
  if (dtype == at::kHalf) return 0x1p-9;
  RTFX_CHECK(dtype == at::kFloat || dtype == at::kDouble, "no tolerance for this number type");
  return 1e-4;
}

Comparison compare(const Hypothesis& baseline, const Hypothesis& other, bool texts_equal,
                   Proof proof, at::ScalarType dtype, bool same_score_kind) {
  // Homographs have equal tokens and different texts.
  const bool same = baseline.tokens == other.tokens && baseline.frames == other.frames &&
                    baseline.durations == other.durations &&
                    (baseline.words == other.words || texts_equal);
  if (proof == Proof::failed) return {Grade::different, first_difference(baseline, other)};
  if (same && !same_score_kind) return {Grade::exact, 0};
  if (same && std::bit_cast<uint32_t>(baseline.score) == std::bit_cast<uint32_t>(other.score))
    return {};
  if (same && scores_close(baseline.score, other.score, score_tolerance(dtype)))
    return {Grade::exact, 0};
  Comparison result{Grade::different, first_difference(baseline, other)};
  if (proof == Proof::within) {
    result.grade = Grade::rounding;
  } else if (texts_equal) {
    result.grade = Grade::text;
  }
  return result;
}

void GradeCounts::add(const Comparison& comparison,
                      const std::function<FirstDifference()>& describe) {
  ++counts[static_cast<size_t>(comparison.grade)];
  if (comparison.grade > worst) {
    worst = comparison.grade;
    first.reset();
  }
  if (comparison.grade == worst && worst > Grade::exact && !first) first = describe();
}

void ReplayTotals::add(const std::string& id, const Replayed& replayed) {
  decisions += replayed.decisions;
  beyond += replayed.beyond;
  worst = std::max(worst, replayed.worst);
  if (first || !replayed.first) return;
  utterance = id;
  first = replayed.first;
}

std::pair<std::string, std::string> differing_words(const std::vector<std::string>& baseline,
                                                    const std::vector<std::string>& other) {
  const auto pairs = align_words(baseline, other);
  size_t at = 0;
  while (at < pairs.size() && pairs[at].reference == pairs[at].hypothesis) ++at;
  constexpr size_t kContext = 2;
  std::vector<std::string> left, right;
  for (size_t i = at < kContext ? 0 : at - kContext; i < std::min(pairs.size(), at + kContext + 1);
       ++i) {
    if (pairs[i].reference) left.push_back(*pairs[i].reference);
    if (pairs[i].hypothesis) right.push_back(*pairs[i].hypothesis);
  }
  return {fmt::format("{}", fmt::join(left, " ")), fmt::format("{}", fmt::join(right, " "))};
}

std::string hash_hypotheses(const std::vector<std::string>& ids,
                            const std::vector<Hypothesis>& hypotheses, bool scores) {
  std::string bytes;
  for (size_t i = 0; i < ids.size(); ++i) {
    bytes += ids[i] + '\n';
    append(bytes, hypotheses[i], scores);
  }
  return sha256(bytes);
}

}  // namespace rtfx
