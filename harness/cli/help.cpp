#include "harness/cli/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

namespace rtfx {

// Completion scripts for bash, zsh and fish. Each script has a table of all commands. So pressing
// Tab does not start the program, which takes half a second.

namespace {

using Texts = std::vector<std::string>;

std::string joined(const Texts& words, const char* separator = " ") {
  return fmt::format("{}", fmt::join(words, separator));
}

std::string single_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

/// Returns the first line, for menus.
std::string short_help(const std::string& help) { return help.substr(0, help.find('\n')); }

/// Calls `visit` with the path of each command and the command: "" for the program, "graph", "graph
/// build", ...
void each_command(const CommandHelp& command, const std::string& path,
                  const std::function<void(const std::string&, const CommandHelp&)>& visit) {
  visit(path, command);
  for (const CommandHelp& one : command.commands)
    each_command(one, path.empty() ? one.name : path + " " + one.name, visit);
}

Texts option_names(const CommandHelp& command) {
  Texts names;
  for (const OptionHelp& option : command.options) {
    if (!option.positional) names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

Texts command_names(const CommandHelp& command) {
  Texts names;
  for (const CommandHelp& one : command.commands) names.push_back(one.name);
  return names;
}

/// Returns the words that may stand in the place of an argument: commands, or the words of
/// positionals.
Texts positional_words(const CommandHelp& command) {
  Texts words = command_names(command);
  for (const OptionHelp& option : command.options) {
    if (option.positional) words.insert(words.end(), option.words.begin(), option.words.end());
  }
  return words;
}

/// Returns lines of `case` that find each command's path from the words before the one to complete.
std::string path_cases(const CommandHelp& program) {
  std::string text;
  each_command(program, "", [&](const std::string& path, const CommandHelp& command) {
    for (const CommandHelp& one : command.commands) {
      const std::string deeper = path.empty() ? one.name : path + " " + one.name;
      text += fmt::format("      '{}|{}') command='{}' ;;\n", path, one.name, deeper);
    }
  });
  return text;
}

/// Returns lines of `case` for each option that takes a value. `line` makes a line from the
/// option's words, which are empty for a file.
std::string value_cases(const CommandHelp& program,
                        const std::function<std::string(const Texts&)>& line) {
  std::string text;
  each_command(program, "", [&](const std::string& path, const CommandHelp& command) {
    for (const OptionHelp& option : command.options) {
      if (option.positional || option.value.empty()) continue;
      Texts keys;
      for (const std::string& name : option.names)
        keys.push_back(fmt::format("'{}|{}'", path, name));
      text += fmt::format("    {}) {} ;;\n", joined(keys, "|"), line(option.words));
    }
  });
  return text;
}

}  // namespace

std::string bash_completion(const CommandHelp& program) {
  std::string options, words;
  each_command(program, "", [&](const std::string& path, const CommandHelp& command) {
    options += fmt::format("      '{}') words='{}' ;;\n", path, joined(option_names(command)));
    const Texts names = positional_words(command);
    if (!names.empty()) words += fmt::format("      '{}') words='{}' ;;\n", path, joined(names));
  });
  const std::string values = value_cases(program, [](const Texts& list) {
    return list.empty() ? std::string("return") : fmt::format("words='{}' taken=1", joined(list));
  });
  // If nothing is suggested, -o default completes files.
  return fmt::format(R"(# Completion of rtfx for bash, made by `rtfx completion bash`.
_rtfx() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}}
  local command='' words='' taken='' before='' i
  COMPREPLY=()
  if [[ $current == '=' ]]; then
    current=''
  elif [[ $previous == '=' ]]; then
    previous=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$command|${{COMP_WORDS[i]}}" in
{}    esac
  done
  case "$command|$previous" in
{}  esac
  if [[ -n $taken ]]; then
    if [[ $current == *,* ]]; then
      before=${{current%,*}},
      current=${{current##*,}}
    fi
  elif [[ $current == -* ]]; then
    case $command in
{}    esac
  else
    case $command in
{}    esac
  fi
  COMPREPLY=($(compgen -P "$before" -W "$words" -- "$current"))
}}
complete -o default -F _rtfx rtfx
)",
                     path_cases(program), values, options, words);
}

std::string zsh_completion(const CommandHelp& program) {
  const auto described = [](const std::string& name, const std::string& help) {
    std::string text;
    for (const char c : name) text += c == ':' ? "\\:" : std::string(1, c);
    return single_quoted(text + ":" + short_help(help));
  };
  std::string options, words;
  each_command(program, "", [&](const std::string& path, const CommandHelp& command) {
    Texts names, commands;
    for (const OptionHelp& option : command.options) {
      for (const std::string& name : option.names)
        if (!option.positional) names.push_back(described(name, option.help));
    }
    options += fmt::format("      '{}') list=({}) ;;\n", path, joined(names));
    for (const CommandHelp& one : command.commands)
      commands.push_back(described(one.name, one.help));
    for (const OptionHelp& option : command.options) {
      for (const std::string& word : option.words)
        if (option.positional) commands.push_back(single_quoted(word));
    }
    if (!commands.empty()) words += fmt::format("    '{}') list=({}) ;;\n", path, joined(commands));
  });
  const std::string values = value_cases(program, [](const Texts& list) {
    return list.empty() ? std::string("_files; return")
                        : fmt::format("compset -P '*,'; compadd -- {}; return", joined(list));
  });
  return fmt::format(R"(#compdef rtfx
# Completion of rtfx for zsh, made by `rtfx completion zsh`: a file named _rtfx in a folder of $fpath.
_rtfx() {{
  local command='' word
  local -a list
  for word in "${{(@)words[2,CURRENT - 1]}}"; do
    case "$command|$word" in
{}    esac
  done
  case "$command|${{words[CURRENT - 1]}}" in
{}  esac
  if [[ ${{words[CURRENT]}} == -* ]]; then
    case $command in
{}    esac
    _describe -o 'option' list
    return
  fi
  case $command in
{}  esac
  if (( $#list )); then
    _describe 'word' list
  else
    _files
  fi
}}
if [[ $funcstack[1] == _rtfx ]]; then
  _rtfx "$@"
else
  compdef _rtfx rtfx
fi
)",
                     path_cases(program), values, options, words);
}

std::string fish_completion(const CommandHelp& program) {
  std::string text = "# Completion of rtfx for fish, made by `rtfx completion fish`.\n";
  each_command(program, "", [&](const std::string& path, const CommandHelp& command) {
    std::string condition;
    size_t begin = 0;
    while (!path.empty() && begin <= path.size()) {
      const size_t end = std::min(path.find(' ', begin), path.size());
      condition += (begin == 0 ? "" : "; and ") + std::string("__fish_seen_subcommand_from ") +
                   path.substr(begin, end - begin);
      begin = end + 1;
    }
    if (path.empty()) condition = "__fish_use_subcommand";
    if (!path.empty() && !command.commands.empty())
      condition += "; and not __fish_seen_subcommand_from " + joined(command_names(command));
    const std::string line = fmt::format("complete -c rtfx -n {}", single_quoted(condition));
    for (const CommandHelp& one : command.commands) {
      text +=
          fmt::format("{} -f -a {} -d {}\n", line, one.name, single_quoted(short_help(one.help)));
    }
    for (const OptionHelp& option : command.options) {
      std::string entry = line;
      if (!option.positional) {
        for (const std::string& name : option.names)
          entry += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
        if (!option.value.empty()) entry += option.words.empty() ? " -r" : " -x";
      } else if (option.words.empty()) {
        continue;  // files, as for every option
      } else {
        entry += " -f";
      }
      if (!option.words.empty()) entry += " -a " + single_quoted(joined(option.words));
      text += fmt::format("{} -d {}\n", entry, single_quoted(short_help(option.help)));
    }
  });
  return text;
}

// The manual page, in roff with the macros of man(7).

namespace {

/// Returns text that roff prints unchanged: without escapes, and without requests at the beginning
/// of a line.
std::string roff(const std::string& text) {
  std::string out;
  bool at_begin = true;
  for (const char c : text) {
    if (at_begin && (c == '.' || c == '\'')) out += "\\&";
    at_begin = c == '\n';
    if (c == '\\') {
      out += "\\e";
    } else if (c == '\n') {
      out += "\n.br\n";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string bold(const std::string& text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + roff(text) + "\\fR"; }

std::string sentence(const OptionHelp& option) {
  std::string text = roff(option.help);
  if (!option.default_value.empty())
    text += fmt::format(" (default: {})", roff(option.default_value));
  if (option.required) text += " (required)";
  return text;
}

std::string option_entry(const OptionHelp& option) {
  std::string head;
  for (const std::string& name : option.names) {
    head += (head.empty() ? "" : ", ") + (option.positional ? italic(name) : bold(name));
  }
  if (!option.positional && !option.value.empty()) head += " " + italic(option.value);
  return fmt::format(".TP\n{}\n{}\n", head, sentence(option));
}

/// Returns, for example, "rtfx run CONFIG [OPTION...]".
std::string synopsis(const CommandHelp& command, const std::string& path) {
  std::string text = bold(path);
  for (const OptionHelp& option : command.options) {
    if (!option.positional) continue;
    text += option.required ? " " + italic(option.names.front())
                            : " [" + italic(option.names.front()) + "]";
  }
  return text + " [" + italic("option") + " ...]";
}

std::string command_sections(const CommandHelp& command, const std::string& path) {
  std::string text;
  // `profile` takes a configuration, or a command of its own.
  const bool complete = std::ranges::any_of(command.options, &OptionHelp::positional);
  if (complete || command.commands.empty()) {
    text = fmt::format(".SS \"{}\"\n{}\n.PP\n{}\n", roff(path), synopsis(command, path),
                       roff(command.help));
    for (const OptionHelp& option : command.options) {
      if (option.names.back() != "--help") text += option_entry(option);
    }
  }
  for (const CommandHelp& one : command.commands)
    text += command_sections(one, path + " " + one.name);
  return text;
}

constexpr const char* kEnd = R"(.SH "EXIT STATUS"
.TP
0
Success.
.TP
1
A case or a file failed, or an unexpected error occurred.
.TP
2
The command line, a configuration or a file that it names is wrong.
.TP
13
Results are wrong: an exact decoder fell below the required grade (\fBverify.required\fR), or a replay failed.
Or a type has more word errors than \fBverify.wer_above_fp32\fR allows, or streamed utterances differ from whole ones.
.TP
130
Interrupted. Commands with the option \fB\-\-resume\fR can continue.
.PP
\fBrtfx gate\fR and \fBrtfx verify\fR return their verdict: 0 PASS, 10 REGRESSED, 11 INCONCLUSIVE, 12 INVALID, 13 CORRECTNESS.
.SH ENVIRONMENT
.TP
\fBNO_COLOR\fR
If set, rtfx prints no colours on a terminal.
.TP
\fBRTFX_PYTHON\fR
Path of the Python that draws pages and tables, and runs decoders in Python (default: that of .venv).
.TP
\fBOMP_WAIT_POLICY\fR
How threads wait for each other. With \fIpassive\fR, which rtfx sets by default, they sleep.
Otherwise times on a busy CPU are wrong.
.SH EXAMPLES
.nf
rtfx bench \-\-model m.nemo \-\-data recordings/ \-\-batch 1,32
rtfx validate configs/quickstart.json
rtfx run configs/quickstart.json
rtfx report runs/quickstart
rtfx compare runs/quickstart
.fi
)";

}  // namespace

std::string manual_page(const CommandHelp& program, const std::string& version) {
  std::string text = fmt::format(".TH RTFX 1 \"\" \"{}\" \"User Commands\"\n", roff(version));
  const size_t colon = program.help.find(": ");
  text += fmt::format(".SH NAME\nrtfx \\- {}\n", roff(program.help.substr(colon + 2)));
  text += fmt::format(".SH SYNOPSIS\n{} {} [{} ...]\n", bold("rtfx"), italic("command"),
                      italic("argument"));
  text += fmt::format(
      ".SH DESCRIPTION\nrtfx runs decoders of speech\\-recognition models on the same encoder "
      "outputs. For each decoder it reports the speed, the word error rate, and whether the "
      "results equal those of the baseline. {} prints the help of one command.\n",
      bold("rtfx command --help"));
  return text + ".SH COMMANDS\n" + command_sections(program, "rtfx") + kEnd;
}

}  // namespace rtfx
