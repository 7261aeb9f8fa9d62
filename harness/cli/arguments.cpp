#include "harness/cli/arguments.h"

#include <fmt/format.h>

#include "base/printable.h"
#include "base/utf8.h"
#include "harness/cli/prepare.h"
#include "harness/results/statistics.h"

namespace rtfx {

using nlohmann::json;

namespace {

/// Returns the help of an option whose default is in the configuration.
std::string or_configured(std::string help) {
  help.pop_back();  // the full stop
  return help + " (default: the configuration's).";
}

}  // namespace

void add_drift(CLI::App& command, std::optional<double>& drift, const char* runs) {
  command
      .add_option("--drift", drift,
                  fmt::format("Standard deviation between runs of one program, as a share of the "
                              "mean (default: the spread of five {} or more, else at least {}).",
                              runs, kRunDrift))
      ->check(between(0.0, 1.0))
      ->type_name("SHARE");
}

void ConfigArguments::add_to(CLI::App& app) {
  app.add_option("config", file, "Configuration in JSON.")->required()->type_name("FILE");
  add_overrides_to(app);
}

void ConfigArguments::add_overrides_to(CLI::App& app) {
  app.add_option(
         "--set", overrides,
         "Override a key of the configuration: a.b.0.c=value, such as protocol.seed=2. The value "
         "is JSON or plain text, and paths are relative to the working folder. May be repeated.")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  app.add_option("--device", device, or_configured(kDeviceHelp))
      ->check(not_empty())
      ->type_name("DEVICE");
  app.add_option("--threads", threads, or_configured(kThreadsHelp))->check(at_least(0));
  app.add_option("--output", output,
                 "Folder for the results (default: the configuration's \"output\", else runs/ and "
                 "the configuration's name).")
      ->check(not_empty())
      ->type_name("FOLDER");
  app.add_flag("--sync-debug", sync_debug,
               "Let a case fail if its decoder waits for the device without declaring it. Only "
               "runs that measure cases check this.");
}

namespace {

/// Returns the override "key=text". The text is quoted as JSON. JSON cannot hold bytes that are not
/// UTF-8, so a file name with such bytes is not quoted.
std::string text_override(const std::string& key, const std::string& text) {
  return key + "=" + (is_utf8(text) ? json(text).dump() : text);
}

}  // namespace

std::vector<std::string> ConfigArguments::all_overrides() const {
  std::vector<std::string> all = overrides;
  if (!device.empty()) all.push_back(text_override("device", device));
  if (!output.empty()) all.push_back(text_override("output", output));
  if (threads) all.push_back(fmt::format("threads={}", *threads));
  if (sync_debug) all.emplace_back("sync_debug=true");
  return all;
}

std::string ConfigArguments::command_line() const {
  std::string line = " " + for_shell(file);
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) line += fmt::format(" {} {}", flag, for_shell(value));
  };
  for (const std::string& change : overrides) add("--set", change);
  add("--device", device);
  add("--threads", threads ? std::to_string(*threads) : "");
  add("--output", output);
  return line + (sync_debug ? " --sync-debug" : "");
}

Document ConfigArguments::read() const {
  Document document = read_document(file, all_overrides());
  prepare_files(document);
  return document;
}

Config ConfigArguments::load() const { return parse_config(read()); }

void JournalMode::add_to(CLI::App& app) {
  auto* resume_flag = app.add_flag("--resume", resume,
                                   "Continue the journal in the output folder. Without --resume or "
                                   "--force, an earlier journal there is an error.");
  app.add_flag("--force", force, "Start a new journal. An earlier one is kept as journal.jsonl.N.")
      ->excludes(resume_flag);
}

Journal::Mode JournalMode::mode() const {
  return resume ? Journal::Mode::resume : force ? Journal::Mode::force : Journal::Mode::fresh;
}

}  // namespace rtfx
