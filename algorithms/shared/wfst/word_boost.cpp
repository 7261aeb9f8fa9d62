#include "algorithms/shared/wfst/word_boost.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/text_lines.h"

namespace rtfx {

const OptionTable<BoostOptions>& boost_options() {
  static const OptionTable<BoostOptions> table{{
      option("path", &BoostOptions::path, "lines of a word and how much less it costs"),
      option("scale", &BoostOptions::scale, "factor of the file's numbers", -1e6, 1e6),
  }};
  return table;
}

WordBoosts read_word_boosts(const std::filesystem::path& path) {
  WordBoosts boosts;
  TextLines lines(path);
  std::string_view line;
  while (lines.next(line)) {
    constexpr std::string_view kSpace = " \t\r";
    const size_t word = line.find_first_not_of(kSpace);
    if (word == line.npos) continue;
    line = line.substr(word, line.find_last_not_of(kSpace) + 1 - word);
    const size_t word_end = std::min(line.find_first_of(kSpace), line.size());
    const size_t number = std::min(line.find_first_not_of(kSpace, word_end), line.size());
    float boost = 0;
    const auto [end, error] =
        std::from_chars(line.data() + number, line.data() + line.size(), boost);
    if (error != std::errc() || end != line.data() + line.size() || !std::isfinite(boost)) {
      throw UserError(fmt::format("{}:{}", path.string(), lines.number()),
                      fmt::format("'{}' is no word and a number", line),
                      "write a line such as `word 4.5` for each word");
    }
    boosts[std::string(line.substr(0, word_end))] = boost;
  }
  return boosts;
}

std::vector<float> word_costs(const WfstGraph& graph, const WordBoosts& boosts, int64_t* unknown) {
  std::vector<float> costs(static_cast<size_t>(graph.words()) + 1);
  int64_t known = 0;
  for (int32_t id = 1; id <= graph.words(); ++id) {
    const auto found = boosts.find(graph.word(id));
    if (found == boosts.end()) continue;
    costs[static_cast<size_t>(id)] = -found->second;
    ++known;
  }
  if (unknown != nullptr) *unknown = static_cast<int64_t>(boosts.size()) - known;
  return costs;
}

}  // namespace rtfx
