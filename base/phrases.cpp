#include "base/phrases.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/files.h"
#include "base/numbers.h"
#include "base/text.h"
#include "base/utf8.h"

namespace rtfx {
namespace {

constexpr double kMostWeight = 1000;

Phrase checked(std::string_view text, double weight, std::string where) {
  require_utf8(text, where);
  Phrase phrase{single_spaced(text), weight, std::move(where)};
  if (phrase.text.empty())
    throw UserError(phrase.where, "the phrase is empty", "give each phrase a word or more");
  return phrase;
}

[[noreturn]] void refuse_weight(const std::string& where, std::string_view phrase,
                                std::string_view weight) {
  throw UserError(where, fmt::format("the weight of '{}' is {}", phrase, weight),
                  fmt::format("it must be a number above 0 and up to {}", kMostWeight));
}

bool is_weight(double weight) { return weight > 0 && weight <= kMostWeight; }

Phrase parse_phrase(const JsonView& value) {
  if (!value.value().is_object()) {
    if (!value.value().is_string()) value.fail("a phrase, or {\"phrase\": ..., \"weight\": ...}");
    return checked(value.value().get<std::string>(), 0, value.where());
  }
  value.check_keys({"phrase", "weight"});
  const JsonView text = value.at("phrase");
  if (!text.value().is_string()) text.fail("text");
  Phrase phrase = checked(text.value().get<std::string>(), 0, value.where());
  if (const auto weight = value.find("weight")) {
    const nlohmann::json& number = weight->value();
    if (!number.is_number() || !is_weight(number.get<double>()))
      refuse_weight(weight->where(), phrase.text, number.dump());
    phrase.weight = number;
  }
  return phrase;
}

}  // namespace

std::vector<Phrase> parse_phrases(const JsonView& value) {
  std::vector<Phrase> phrases;
  if (value.value().is_array() && value.value().empty()) return phrases;
  ErrorList errors;
  for (const JsonView& one : value.elements())
    errors.run([&] { phrases.push_back(parse_phrase(one)); });
  errors.throw_any();
  return phrases;
}

std::vector<Phrase> read_phrases(const std::filesystem::path& path) {
  std::vector<Phrase> phrases;
  TextLines lines(path);
  std::string_view line;
  while (lines.next(line)) {
    if (single_spaced(line).empty()) continue;
    const std::string where = fmt::format("{}:{}", path.string(), lines.number());
    const size_t tab = std::min(line.find('\t'), line.size());
    Phrase phrase = checked(line.substr(0, tab), 0, where);
    if (tab < line.size()) {
      const std::string number = single_spaced(line.substr(tab + 1));
      const auto weight = parse_number<double>(number);
      if (!weight || !is_weight(*weight)) refuse_weight(where, phrase.text, "'" + number + "'");
      phrase.weight = *weight;
    }
    phrases.push_back(std::move(phrase));
  }
  return phrases;
}

nlohmann::json to_json(const std::vector<Phrase>& phrases) {
  nlohmann::json list = nlohmann::json::array();
  for (const Phrase& phrase : phrases) {
    if (phrase.weight == 0) {
      list.push_back(phrase.text);
    } else {
      list.push_back({{"phrase", phrase.text}, {"weight", phrase.weight}});
    }
  }
  return list;
}

}  // namespace rtfx
