#include "models/checkpoint/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace rtfx {

namespace {

using Context = std::vector<int64_t>;
using Style = EncoderConfig::ContextStyle;

constexpr int64_t kMost = 1'000'000;  // frames; more frames cover any utterance
/// The number that NeMo uses for an unlimited left context of chunks.
constexpr int64_t kAllChunks = 10'000;

[[noreturn]] void refuse(const Context& context, const std::string& where, const char* form) {
  throw UserError(where, fmt::format("no such attention context: [{}]", fmt::join(context, ", ")),
                  form);
}

void check(const EncoderConfig& e, const Context& c, const std::string& where) {
  const size_t numbers = e.context_style == Style::chunked_with_right ? 3 : 2;
  const char* const form = numbers == 3 ? "give [left, chunk, right] in frames, or [-1, -1, -1]"
                                        : "give [left, right] in frames; -1 is all of them";
  const bool in_range = std::all_of(c.begin(), c.end(),
                                    [](int64_t frames) { return frames >= -1 && frames <= kMost; });
  if (c.size() != numbers || !in_range) refuse(c, where, form);
  if (numbers == 3 && c != Context{-1, -1, -1} && (c[0] < 0 || c[1] < 1 || c[2] < 0))
    refuse(c, where, "left and right are 0 at least, a chunk 1 frame; [-1, -1, -1] is all of them");
  if (e.positions == EncoderConfig::Positions::local && (c[0] < 0 || c[1] < 0 || c[0] + c[1] == 0))
    refuse(c, where, "local attention needs [left, right] of 0 frames or more, not both 0");
}

std::vector<std::string> names_of(const std::map<std::string, int64_t>& languages) {
  std::vector<std::string> names;
  for (const auto& [name, prompt] : languages) names.push_back(name);
  return names;
}

}  // namespace

int64_t PromptConfig::of(const std::string& language, const std::string& where) const {
  if (count == 0)
    throw UserError(where, fmt::format("the model takes no language, here '{}'", language),
                    "leave it out, or choose a prompt-conditioned model");
  const auto found = languages.find(language);
  if (found == languages.end())
    throw unknown_name(where, "language", language, names_of(languages));
  return found->second;
}

int64_t PromptConfig::or_standard(std::optional<int64_t> stated, const std::string& where) const {
  if (stated) return *stated;
  if (standard < 0) {
    throw UserError(where, "the model needs a language for each utterance",
                    fmt::format("state one (--language, or \"lang\" in a manifest): {}",
                                fmt::join(names_of(languages), ", ")));
  }
  return standard;
}

void select_language(ModelConfig& config, const std::string& language, const std::string& where) {
  config.prompt.standard = config.prompt.of(language, where);
}

void select_context(ModelConfig& config, const Context& context, const std::string& where) {
  EncoderConfig& e = config.encoder;
  check(e, context, where);
  e.context = context;
  e.left_context = context[0];
  e.chunk = 1;
  e.right_context = context.back();
  const bool local = e.positions == EncoderConfig::Positions::local;
  if (e.context_style == Style::chunked && !local && context[1] >= 0) {
    e.chunk = context[1] + 1;
    e.right_context = 0;
    e.left_context = (context[0] < 0 ? kAllChunks : context[0] / e.chunk) * e.chunk;
  } else if (e.context_style == Style::chunked_with_right && !local && context[1] > 0) {
    e.chunk = context[1];
  }
}

}  // namespace rtfx
