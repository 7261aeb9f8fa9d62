#include "harness/cli/commands.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "base/stop.h"
#include "base/terminal.h"
#include "harness/cli/arguments.h"
#include "harness/cli/graph_commands.h"
#include "harness/cli/help_commands.h"
#include "harness/cli/inspect.h"
#include "harness/cli/result_commands.h"
#include "harness/cli/run_commands.h"
#include "harness/cli/speech_commands.h"
#include "harness/cli/table_commands.h"
#include "harness/cli/watch_commands.h"
#include "harness/machine/sudden_end.h"
#include "harness/run/isolated_run.h"
#include "speech/runtime/build.h"
#include "speech/runtime/device.h"

namespace rtfx {
namespace {

/// Formats help. Descriptions are wrapped between words to the width of the terminal.
class Formatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    return entry(make_option_name(option, is_positional) + make_option_opts(option),
                 make_option_desc(option));
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return entry(command->get_name(), command->get_description());
  }
  std::string make_description(const CLI::App* command) const override {
    return wrapped(CLI::Formatter::make_description(command), text_columns());
  }

 private:
  std::string entry(const std::string& name, const std::string& description) const {
    const size_t column = std::min(get_column_width(), text_columns() / 3);
    std::string text = "  " + name;
    text += text.size() < column ? std::string(column - text.size(), ' ')
                                 : "\n" + std::string(column, ' ');
    const size_t width = std::max(column + 1, text_columns()) - column;
    std::string lines = wrapped(description, width);
    for (size_t end = 0; (end = lines.find('\n', end)) != std::string::npos; end += column + 1)
      lines.insert(end + 1, std::string(column, ' '));
    return text + lines + "\n";
  }
};

struct Program {
  CLI::App app{"rtfx: benchmark and compare speech-recognition decoders", "rtfx"};
  std::string inspected, listed = "decoders";
  bool list_json = false, inspect_json = false;
  int code = kOk;

  Program() {
    app.formatter(std::make_shared<Formatter>());  // the commands take it over
    app.require_subcommand(1);
    app.option_defaults()->always_capture_default();     // --help shows defaults
    app.set_help_flag("-h,--help", "Print this help.");  // the commands take it over
    app.set_version_flag("--version", version_text(), "Print the version.");
    add_run_commands(app, code);
    add_table_commands(app, code);
    add_result_commands(app, code);
    add_watch_commands(app);
    add_speech_commands(app, code);
    add_graph(app, code);

    auto* list = app.add_subcommand(
        "list", "List decoders with their options, configuration keys, or metrics.");
    list->add_option("what", listed,
                     "List to print: decoders, config (all configuration keys), metrics, the name "
                     "of one decoder, or a configuration key with its members.")
        ->type_name("NAME");
    list->add_flag("--json", list_json, "Print JSON instead of text.");
    list->callback([this] { print_list(listed, list_json); });

    app.add_subcommand("doctor", "Show what this machine can run, and why it cannot run the rest.")
        ->callback([this] { code = doctor(); });

    auto* command =
        app.add_subcommand("inspect", "Show what a model contains, and which decoders support it.");
    command->add_option("model", inspected, kModelHelp)->required()->type_name("FILE");
    command->add_flag("--json", inspect_json, "Print JSON instead of text.");
    command->callback([this] { code = rtfx::inspect(inspected, inspect_json); });

    add_help_commands(app);
  }
};

/// Returns whether the reader of our output has closed the pipe, as `head` does. Not every kernel
/// tells this by poll(), so the error of the write counts too.
bool reader_has_left(int error) {
  if (error == EPIPE) return true;
  pollfd output = {STDOUT_FILENO, POLLOUT, 0};
  return poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

/// Returns whether the word is an override "a.b.0.c=value" and no file.
bool is_override(const std::string& word) {
  const size_t end =
      word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");
  std::error_code error;
  return end != std::string::npos && end > 0 && word[end] == '=' && word[0] != '-' &&
         !std::filesystem::exists(word, error);
}

/// Returns the arguments with a flag for each override: `--set a=1 b=2 FILE` becomes `--set a=1
/// --set b=2 FILE`. An option with any number of values would take the file as well.
std::vector<std::string> with_each_flag(int argc, char** argv) {
  const std::vector<std::string> flags = {"--set", "--tolerance"};
  std::vector<std::string> words;
  std::string flag;  // flag that may have more values
  for (const std::string word : std::span(argv, static_cast<size_t>(argc)).subspan(1)) {
    if (!words.empty() && std::ranges::find(flags, words.back()) != flags.end()) {
      flag = words.back();
    } else if (!flag.empty() && is_override(word)) {
      words.push_back(flag);
    } else {
      const auto begun = std::ranges::find_if(
          flags, [&](const std::string& one) { return word.starts_with(one + "="); });
      flag = begun == flags.end() ? "" : *begun;
    }
    words.push_back(word);
  }
  return words;
}

int run_program(int argc, char** argv, int& unwritten) {
  Program program;
  try {
    std::vector<std::string> words = with_each_flag(argc, argv);
    std::ranges::reverse(words);  // CLI11 takes them in reverse
    program.app.parse(std::move(words));
    return program.code;
  } catch (const CLI::ParseError& e) {
    const bool asked = e.get_exit_code() == 0;  // for help or the version
    std::vector<std::string> words(argv + 1, argv + argc);
    // Help is given whatever other options there are, but only for commands that exist.
    const auto is_option = [](const std::string& word) { return word.starts_with("-"); };
    if (asked) words.erase(std::ranges::find_if(words, is_option), words.end());
    if (const auto error = mistyped(program.app, words)) {
      print_error(*error);
      return kUsage;
    }
    program.app.exit(e);
    return asked ? kOk : kUsage;
  } catch (const Interrupted&) {
    print_message("\nrtfx: interrupted\n");
    return kInterrupted;
  } catch (const UserError& e) {
    print_error(e);
  } catch (const std::system_error& e) {
    const int error = e.code().value();
    // The command has set its exit code, if it had a verdict.
    if (e.code() == std::errc::broken_pipe && reader_has_left(error)) return program.code;
    if (std::ferror(stdout) != 0) {
      unwritten = error;
      return kFailed;
    }
    print_message("rtfx: error: {}\n", printable(describe_failure()));
    return kFailed;
  } catch (...) {
    print_message("rtfx: error: {}\n", printable(describe_failure()));
    return kFailed;
  }
  return kUsage;
}

/// Returns whether all printed text has been written; a disk may be full. `unwritten` is the error
/// of an earlier print, or 0.
bool output_arrived(int unwritten) {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  const int error = unwritten != 0 ? unwritten : errno;
  if (flushed && std::ferror(stdout) == 0) return true;
  if (reader_has_left(error)) return true;
  // The error of an earlier print may be forgotten.
  const std::string why = error == 0 ? "" : fmt::format(": {}", std::strerror(error));
  print_message("rtfx: error: standard output: cannot be written{}{}\n", why,
                error == ENOSPC ? "; free some space" : "");
  return false;
}

}  // namespace

int run_command_line(int argc, char** argv) {
  set_under_way(fmt::format("rtfx {}", argc > 1 ? argv[1] : ""));
  int unwritten = 0;
  int code = run_program(argc, argv, unwritten);
  if (!output_arrived(unwritten) && code == kOk) code = kFailed;
  if (std::find(argv, argv + argc, std::string_view("--child")) != argv + argc) end_child(code);
  set_under_way({});
#ifndef __SANITIZE_ADDRESS__
  // A regular end of the process runs the destructors of LibTorch's libraries. They read 125 MB of
  // these libraries, a quarter of all that `rtfx --help` reads. After a model has run, a profiler
  // needs the regular end.
  if (!DeviceScope::was_made()) std::_Exit(code);
#endif
  return code;
}

}  // namespace rtfx
