#include "harness/cli/help_commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "algorithms/decoder.h"
#include "algorithms/shared/wfst/topology.h"
#include "harness/cli/help.h"
#include "harness/cli/reference.h"
#include "harness/report/export.h"
#include "harness/report/reproduce.h"
#include "harness/scoring/normalize.h"
#include "models/dtypes.h"
#include "speech/runtime/build.h"

namespace rtfx {
namespace {

using Names = std::vector<std::string>;

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_name().empty(); });
}

Names decoder_names() {
  Names names;
  for (const DecoderEntry* entry : decoder_entries()) names.push_back(entry->name);
  return names;
}

/// Returns the values of an option by the name of its type.
Names words_of(const std::string& type) {
  static const std::map<std::string, Names> known = {{"DEVICE", {"auto", "cpu", "cuda", "cuda:0"}},
                                                     {"DTYPE", dtype_names()},
                                                     {"SCORER", normalizer_names()},
                                                     {"PAGE", reference_pages()},
                                                     {"SHELL", {"bash", "zsh", "fish"}},
                                                     {"TOPOLOGY", topology_names()},
                                                     {"FORMAT", export_formats()}};
  if (const auto found = known.find(type); found != known.end()) return found->second;
  if (type == "DECODER") return decoder_names();
  if (type == "TABLE") return table_names();
  if (type == "NAME") {
    Names names = decoder_names();
    names.insert(names.begin(), {"decoders", "config", "metrics"});
    return names;
  }
  return {};
}

/// Returns the type's name without the checks that CLI11 adds ("INT:POSITIVE"), and the words of a
/// choice ("TEXT:{node,graph}").
std::string split_type(const std::string& type, Names& words) {
  const size_t colon = type.find(':');
  if (const size_t brace = type.find('{'); brace != std::string::npos) {
    std::string word;
    for (const char c : type.substr(brace + 1)) {
      if (c == ',' || c == '}') {
        words.push_back(std::exchange(word, ""));
      } else {
        word += c;
      }
    }
  }
  return type.substr(0, colon);
}

/// Returns the name in capitals, such as DECODER for "--decoder". An option without a type name of
/// its own has it.
std::string upper(std::string name) {
  name.erase(0, name.find_first_not_of('-'));
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

OptionHelp describe(const CLI::Option& option) {
  OptionHelp help;
  help.help = option.get_description();
  help.default_value = option.get_default_str();
  help.positional = option.get_positional();
  help.required = option.get_required();
  if (help.positional) {
    help.names = {option.get_name()};
  } else {
    for (const std::string& name : option.get_snames()) help.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) help.names.push_back("--" + name);
  }
  if (option.get_items_expected_max() > 0) {
    help.value = split_type(option.get_type_name(), help.words);
    if (help.words.empty()) help.words = words_of(help.value);
    if (help.words.empty()) help.words = words_of(upper(help.names.back()));
  }
  return help;
}

CommandHelp describe(const CLI::App& app) {
  CommandHelp help{app.get_name(), app.get_description(), {}, {}};
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) help.options.push_back(describe(*option));
  }
  for (const CLI::App* command : commands_of(app)) help.commands.push_back(describe(*command));
  return help;
}

}  // namespace

void add_help_commands(CLI::App& app) {
  const auto shell = std::make_shared<std::string>();
  auto* completion = app.add_subcommand(
      "completion",
      "Print a script that completes the commands and options of rtfx in a shell.\nExample: rtfx "
      "completion bash > ~/.local/share/bash-completion/completions/rtfx");
  completion->add_option("shell", *shell, "Shell: bash, zsh or fish.")
      ->required()
      ->type_name("SHELL");
  completion->callback([&app, shell] {
    using Writer = std::string (*)(const CommandHelp&);
    static const std::map<std::string, Writer> writers = {
        {"bash", bash_completion}, {"fish", fish_completion}, {"zsh", zsh_completion}};
    const auto writer = writers.find(*shell);
    if (writer == writers.end())
      throw unknown_name("completion", "shell", *shell, words_of("SHELL"));
    fmt::print("{}", writer->second(describe(app)));
  });
  const auto page = std::make_shared<std::string>();
  auto* reference =
      app.add_subcommand("reference", "Print a reference page in Markdown, as in docs/reference.");
  reference
      ->add_option("page", *page,
                   fmt::format("Page to print: {}.", fmt::join(reference_pages(), ", ")))
      ->required()
      ->type_name("PAGE");
  reference->callback([&app, page] { fmt::print("{}", reference_page(*page, describe(app))); });
  app.add_subcommand("man", "Print the manual page.\nExample: rtfx man | man -l -")
      ->callback([&app] {
        const std::string version = version_text();
        fmt::print("{}", manual_page(describe(app), version.substr(0, version.find('\n'))));
      });
}

std::optional<UserError> mistyped(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* command = &app;
  std::string path = app.get_name();
  size_t next = 0;
  while (next < arguments.size() && !arguments[next].starts_with("-")) {
    const auto commands = commands_of(*command);
    if (commands.empty()) break;
    const std::string& word = arguments[next++];
    Names names;
    const CLI::App* found = nullptr;
    for (const CLI::App* one : commands) {
      names.push_back(one->get_name());
      if (one->get_name() == word) found = one;
    }
    if (found == nullptr) {
      // `profile` takes a configuration, or a command of its own.
      if (std::ranges::any_of(command->get_options(), &CLI::Option::get_positional)) break;
      return unknown_name(path, "command", word, names);
    }
    command = found;
    path += " " + word;
  }
  Names names,
      hidden;  // `hidden` are the options that the program gives to its own child processes
  for (const CLI::Option* option : command->get_options()) {
    for (const std::string& name : option->get_lnames())
      (option->get_group().empty() ? hidden : names).push_back("--" + name);
  }
  for (; next < arguments.size() && arguments[next] != "--"; ++next) {
    const std::string name = arguments[next].substr(0, arguments[next].find('='));
    if (name.starts_with("--") && std::ranges::find(names, name) == names.end() &&
        std::ranges::find(hidden, name) == hidden.end())
      return unknown_name(path, "option", name, names);
  }
  return std::nullopt;
}

}  // namespace rtfx
