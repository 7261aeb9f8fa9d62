// The manual page, in roff with the macros of man(7).
#include <fmt/format.h>

#include <algorithm>

#include "harness/cli/command_help.h"

namespace rtfx {
namespace {

/// Text that roff prints as it is: no escapes, no requests at the beginning of a line.
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

/// "rtfx run CONFIG [OPTION...]"
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
All is well.
.TP
1
A case or a file failed, or something unforeseen happened.
.TP
2
The command line, a configuration or a file that it names is wrong.
.TP
13
An exact decoder fell below the required grade (\fBverify.required\fR).
.TP
130
Interrupted; \fB\-\-resume\fR goes on.
.PP
\fBrtfx gate\fR: 0 PASS, 10 REGRESSED, 11 INCONCLUSIVE, 12 INVALID, 13 CORRECTNESS.
.SH ENVIRONMENT
.TP
\fBNO_COLOR\fR
No colours on a terminal.
.TP
\fBRTFX_PYTHON\fR
The Python that draws pages and tables (default: that of .venv).
.TP
\fBOMP_WAIT_POLICY\fR
\fIpassive\fR lets waiting threads sleep, without which times on a busy CPU mean nothing.
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
      ".SH DESCRIPTION\nrtfx runs decoders of speech\\-recognition models over the same encoder "
      "outputs and says of each how fast it is, how good, and whether its results are the "
      "baseline's. {} has the same as below for one command.\n",
      bold("rtfx command --help"));
  return text + ".SH COMMANDS\n" + command_sections(program, "rtfx") + kEnd;
}

}  // namespace rtfx
