#include "harness/results/tuned.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace rtfx {

namespace {

using nlohmann::json;

// The configuration in somebody else's journal may hold anything.

/// Returns a member of an object; null if there is none.
json member(const json& object, const std::string& key) {
  return object.is_object() ? object.value(key, json()) : json();
}

std::string text_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::vector<std::string> texts_of(const json& list) {
  std::vector<std::string> texts;
  if (!list.is_array()) return texts;
  for (const json& value : list) texts.push_back(text_of(value));
  return texts;
}

/// Returns the option with a dotted name, such as lm.alpha; null if it is missing.
json option_at(json options, std::string_view name) {
  for (;;) {
    const size_t dot = name.find('.');
    options = member(options, std::string(name.substr(0, dot)));
    if (dot == std::string_view::npos) return options;
    name.remove_prefix(dot + 1);
  }
}

/// Returns the options of the decoder with this id; null if the configuration has no such decoder.
json options_of(const json& config, const std::string& id) {
  for (const json& decoder : member(config, "decoders")) {
    if (member(decoder, "id") == id)
      return decoder.contains("options") ? decoder.at("options") : json::object();
  }
  return nullptr;
}

/// Returns whether the decoder has all values that `rtfx tune` has found.
bool has_chosen(const json& chosen, const json& options) {
  const json values = member(chosen, "options");
  if (!values.is_object() || values.empty()) return false;
  for (const auto& [name, value] : values.items())
    if (option_at(options, name) != value) return false;
  return true;
}

std::string sentence_of(const json& spec, const TunedSearch& search, const json& options) {
  std::vector<std::string> values;
  const json ranges = member(spec, "options");
  for (const auto& [name, range] : ranges.items()) {
    const json value = option_at(options, name);
    values.push_back(fmt::format("{} {}", name, value.is_null() ? "–" : text_of(value)));
  }
  const size_t count = search.decoders.size();
  const std::string forms =
      count == 1 ? search.decoders.front()
                 : fmt::format("{} and {} more of its forms", search.decoders.front(), count - 1);
  if (!search.chosen) return fmt::format("{} had the weights {}.", forms, fmt::join(values, ", "));
  const json dataset = member(spec, "dataset");
  const json utterances = member(member(spec, "chosen"), "utterances");
  return fmt::format(
      "rtfx tune chose the weights of {} on {}{}: {}.", forms,
      text_of(dataset.is_object() ? member(dataset, "id") : dataset),
      utterances.is_number() ? fmt::format(" ({} utterances)", utterances.dump()) : "",
      fmt::join(values, ", "));
}

void add_searches(const json& config, const ResultSet& results, std::vector<TunedSearch>& found) {
  json specs = member(config, "tune");
  if (specs.is_object()) specs = json::array({specs});
  if (!specs.is_array()) return;
  for (const json& spec : specs) {
    TunedSearch search;
    search.decoders = texts_of(member(spec, "shared_with"));
    search.decoders.insert(search.decoders.begin(), text_of(member(spec, "decoder")));
    search.models = texts_of(member(spec, "models"));
    const json options = options_of(config, search.decoders.front());
    const auto is_measured = [&](const CaseResult* c) { return search.is_for(*c); };
    if (options.is_null() || std::ranges::none_of(results.all(), is_measured)) continue;
    search.chosen = has_chosen(member(spec, "chosen"), options);
    search.sentence = sentence_of(spec, search, options);
    if (std::ranges::find(found, search.sentence, &TunedSearch::sentence) == found.end())
      found.push_back(std::move(search));
  }
}

}  // namespace

bool TunedSearch::is_for(const CaseResult& result) const {
  const auto has = [](const std::vector<std::string>& ids, std::string_view id) {
    return std::ranges::find(ids, id) != ids.end();
  };
  return has(decoders, result.decoder()) &&
         (models.empty() || has(models, result.about().model.id));
}

std::vector<TunedSearch> tuned_searches(const ResultSet& results) {
  std::set<std::string> used;  // ids of the provenances whose rounds count
  for (const CaseResult* c : results.all()) {
    used.insert(record::common_fields(c->summary.last).provenance_id.value_or(""));
    for (const record::Round& round : c->rounds())
      used.insert(record::common_fields(round).provenance_id.value_or(""));
  }
  std::vector<TunedSearch> found;
  for (const record::Provenance& provenance : results.provenances) {
    if (provenance.config && used.contains(provenance.provenance_id.value_or("")))
      add_searches(provenance.config->value(), results, found);
  }
  return found;
}

std::vector<std::string> tuned_sentences(const ResultSet& results) {
  std::vector<std::string> sentences;
  for (const TunedSearch& search : tuned_searches(results)) sentences.push_back(search.sentence);
  return sentences;
}

}  // namespace rtfx
