#include "harness/cli/arguments.h"

#include <fmt/format.h>

#include "base/printable.h"
#include "harness/cli/prepare.h"

namespace rtfx {

using nlohmann::json;

void ConfigArguments::add_to(CLI::App& app) {
  app.add_option("config", file, "JSON configuration")->required()->type_name("FILE");
  add_overrides_to(app);
}

void ConfigArguments::add_overrides_to(CLI::App& app) {
  app.add_option("--set", overrides,
                 "override: a.b.0.c=value, the value as JSON or plain text; paths are relative to "
                 "the working folder")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  app.add_option("--device", device, "auto, cpu, cuda or cuda:N (default: the configuration's)")
      ->type_name("DEVICE");
  app.add_option("--threads", threads,
                 "CPU threads; 0: all that the process may use (default: the configuration's)")
      ->check(at_least(0));
  app.add_option("--output", output, "folder of the journal (default: runs/<name>)")
      ->type_name("FOLDER");
  app.add_flag("--sync-debug", sync_debug,
               "fail where a decoder waits for the device without declaring it");
}

namespace {

/// The override "key=text". JSON holds no bytes that are not UTF-8, so such a file name stands as
/// it is, and all other texts are quoted.
std::string text_override(const std::string& key, const std::string& text) {
  return key + "=" + (valid_utf8(text) == text.size() ? json(text).dump() : text);
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
  auto* resume_flag = app.add_flag("--resume", resume, "continue the journal in the output folder");
  app.add_flag("--force", force, "start anew; an earlier journal is kept as journal.jsonl.N")
      ->excludes(resume_flag);
}

Journal::Mode JournalMode::mode() const {
  return resume ? Journal::Mode::resume : force ? Journal::Mode::force : Journal::Mode::fresh;
}

}  // namespace rtfx
