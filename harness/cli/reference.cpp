#include "harness/cli/reference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "algorithms/registry.h"
#include "base/error.h"
#include "harness/cli/journal_reference.h"
#include "harness/config/config.h"
#include "harness/results/metrics.h"

namespace rtfx {
namespace {

constexpr const char* kGenerated = "<!-- `scripts/reference.sh` makes this page. -->\n";

std::string code(const std::string& text) { return text.empty() ? "" : "`" + text + "`"; }

/// Text of a cell: a bar would end it, and `<` would begin HTML.
std::string cell(const std::string& text) {
  std::string escaped;
  for (const char c : text) escaped += c == '|' ? "\\|" : c == '<' ? "&lt;" : std::string(1, c);
  return escaped;
}

std::string option_table(const std::vector<OptionInfo>& options, const char* head) {
  std::string table =
      fmt::format("| {} | default | allowed | meaning |\n|---|---|---|---|\n", head);
  for (const OptionInfo& o : options) {
    const bool is_value = o.default_text.empty() && default_of(o) != "none";
    table += fmt::format("| {} | {} | {} | {} |\n", code(o.name),
                         cell(is_value ? code(default_of(o)) : default_of(o)), cell(o.allowed),
                         cell(o.help));
  }
  return table;
}

std::string configuration_page(const CommandHelp&) {
  return R"(# Configuration keys

A configuration is plain JSON. Its lists are multiplied: every model, dataset, dtype, batch size and decoder
that fit together make a case. An option of a decoder may be a list of values too, which makes a decoder of
each. An unknown key is an error that names the nearest known one. `null` has the effect of leaving a key out.

A key with a dot stands in an object: `protocol.seed` is `{"protocol": {"seed": 1}}`. `models.path` is the path
of each model. One value may stand for a list of one. Paths in the file are relative to its folder. `--set
a.b.0.c=value` overrides any value, and its paths are relative to the working folder.

)" + option_table(config_keys().info(), "key");
}

std::string decoders_page(const CommandHelp&) {
  std::string page = R"(# Decoders and their options

`rtfx list` prints all of this page, and `rtfx list NAME` one decoder. *Exact* decoders return the tokens and
frames of the baseline, with scores that agree up to rounding. *Approximate* decoders prune, or add something to
the model's scores. An option such as `lm` makes an exact decoder approximate. An option with a dot is a member
of an object: `lm.alpha` is `{"lm": {"alpha": 0.3}}`.
)";
  for (const DecoderEntry* entry : decoder_entries()) {
    const Description d = entry->make(nullptr, "")->describe();
    const bool exact = d.exactness == Description::Exactness::exact;
    page += fmt::format(
        "\n## {}\n\nSearch: {}. Models: {}. Result: {}.\n", entry->name, entry->summary,
        d.model_kinds.empty() ? "all" : fmt::format("{}", fmt::join(d.model_kinds, ", ")),
        exact ? "exact" : "approximate");
    if (!entry->options.empty()) page += "\n" + option_table(entry->options, "option");
  }
  return page;
}

std::string metrics_page(const CommandHelp&) {
  std::string page = R"(# Metrics

Journals, tables, pages, exports and the gate use these names. *Better* says whether more or less is better.
`rtfx gate` judges the metrics that have a tolerance, unless `--tolerance` says otherwise.

| metric | unit | better | the gate's tolerance | meaning |
|---|---|---|---|---|
)";
  for (const Metric& m : metrics()) {
    const bool share = *m.unit == '\0';
    const std::string tolerance =
        m.tolerance ? fmt::format("{:g} {}", 100 * *m.tolerance, share ? "points" : "%") : "";
    page += fmt::format("| {} | {} | {} | {} | {} |\n", code(m.key), m.unit,
                        m.direction > 0   ? "more"
                        : m.direction < 0 ? "less"
                                          : "",
                        tolerance, cell(m.meaning));
  }
  return page;
}

void add_command(const CommandHelp& command, const std::string& path, std::string& page) {
  const size_t line = command.help.find('\n');
  std::string usage = path;
  for (const OptionHelp& o : command.options) {
    if (o.positional)
      usage += o.required ? " " + o.names.front() : fmt::format(" [{}]", o.names.front());
  }
  page += fmt::format("\n## {}\n\n`{} [OPTION ...]`: {}.\n", path, usage,
                      cell(command.help.substr(0, line)));
  if (line != std::string::npos) page += fmt::format("\n    {}\n", command.help.substr(line + 1));
  std::string rows;
  for (const OptionHelp& o : command.options) {
    std::string names = fmt::format("{}", fmt::join(o.names, ", "));
    if (names == "-h, --help") continue;
    if (!o.positional && !o.value.empty()) names += " " + o.value;
    const std::string value = o.required ? "required" : code(o.default_value);
    rows += fmt::format("| {} | {} | {} |\n", cell(code(names)), cell(value), cell(o.help));
  }
  if (!rows.empty()) page += "\n| argument | default | meaning |\n|---|---|---|\n" + rows;
  for (const CommandHelp& one : command.commands) add_command(one, path + " " + one.name, page);
}

std::string command_line_page(const CommandHelp& program) {
  std::string page = R"(# Command line

`rtfx --help` lists the commands, and `rtfx COMMAND --help` the options of one. A mistyped command, option or
name is an error that names the nearest one. The exit code is 0 for success, 1 for a failure, 2 for a wrong
command line and 130 after an interrupt; `rtfx gate` and `rtfx run` also use 10 to 13.
)";
  for (const CommandHelp& command : program.commands)
    add_command(command, program.name + " " + command.name, page);
  return page;
}

using Page = std::string (*)(const CommandHelp&);
const std::map<std::string, Page> kPages = {
    {"configuration", configuration_page},
    {"decoders", decoders_page},
    {"metrics", metrics_page},
    {"command_line", command_line_page},
    {"journal", [](const CommandHelp&) { return journal_page(); }},
    {"journal_schema", [](const CommandHelp&) { return journal_schema(); }}};

}  // namespace

const std::vector<std::string>& reference_pages() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const auto& [name, page] : kPages) names.push_back(name);
    return names;
  }();
  return kNames;
}

std::string reference_page(const std::string& name, const CommandHelp& program) {
  const auto page = kPages.find(name);
  if (page == kPages.end()) throw unknown_name("reference", "page", name, reference_pages());
  return (name == "journal_schema" ? "" : kGenerated) + page->second(program);
}

}  // namespace rtfx
