#include "harness/report/escape.h"

#include <map>

#include "base/printable.h"

namespace rtfx {

namespace {

using Replacements = std::map<char, std::string_view>;

std::string replaced(std::string_view text, const Replacements& replacements) {
  std::string out;
  for (const char c : printable(text)) {
    const auto found = replacements.find(c);
    if (found == replacements.end()) {
      out += c;
    } else {
      out += found->second;
    }
  }
  return out;
}

}  // namespace

std::string latex_text(std::string_view text) {
  static const Replacements replacements = {{'\\', "\\textbackslash{}"},
                                            {'{', "\\{"},
                                            {'}', "\\}"},
                                            {'$', "\\$"},
                                            {'&', "\\&"},
                                            {'#', "\\#"},
                                            {'%', "\\%"},
                                            {'_', "\\_"},
                                            {'^', "\\textasciicircum{}"},
                                            {'~', "\\textasciitilde{}"},
                                            {'<', "\\textless{}"},
                                            {'>', "\\textgreater{}"},
                                            {'|', "\\textbar{}"},
                                            {'[', "{[}"},
                                            {']', "{]}"},
                                            {'*', "{*}"}};
  std::string out = replaced(text, replacements);
  for (size_t at = 0; (at = out.find("±", at)) != std::string::npos;) out.replace(at, 2, "$\\pm$");
  return out;
}

std::string markdown_text(std::string_view text) {
  static const Replacements replacements = {
      {'\\', "\\\\"}, {'`', "\\`"},  {'*', "\\*"}, {'_', "\\_"}, {'[', "\\["},
      {']', "\\]"},   {'|', "\\|"},  {'$', "\\$"}, {'~', "\\~"}, {'!', "\\!"},
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}};
  return replaced(text, replacements);
}

std::string xml_text(std::string_view text) {
  static const Replacements replacements = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&apos;"}};
  return replaced(text, replacements);
}

std::string csv_text(std::string_view text) {
  std::string field = printable(text);
  if (!field.empty() && std::string_view("=+-@").find(field.front()) != std::string::npos)
    field.insert(0, "'");
  if (field.find_first_of(",\"") == std::string::npos) return field;
  std::string quoted = "\"";
  for (const char c : field) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

}  // namespace rtfx
