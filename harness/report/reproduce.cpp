#include "harness/report/reproduce.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "harness/report/python_script.h"
#include "harness/results/journal.h"
#include "harness/run/run.h"
#include "harness/run/workspace.h"
#include "harness/stream/stream.h"

namespace rtfx {

std::vector<std::string> table_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(project_file("configs/tables"))) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void print_tables() {
  for (const std::string& name : table_names()) {
    std::ifstream in(table_file(name));
    const auto document = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
    fmt::print("{:<24} {}\n", name,
               document.is_object() ? document.value("question", "") : "(not JSON)");
  }
}

std::filesystem::path table_file(const std::string& name) {
  const std::vector<std::string> names = table_names();
  if (std::find(names.begin(), names.end(), name) == names.end())
    throw unknown_name("reproduce", "table", name, names);
  return project_file("configs/tables/" + name + ".json");
}

void require_consent(const Config& config, std::span<const Checkpoint> checkpoints,
                     const std::function<Estimate()>& time, bool yes, std::istream* answers) {
  constexpr int64_t kLarge = 200'000'000;
  int64_t parameters = 0;
  for (const Checkpoint& checkpoint : checkpoints)
    parameters = std::max(parameters, checkpoint.parameters);
  if (yes || runs_on_gpu(config) || parameters < kLarge) return;
  const std::string what = fmt::format(
      "a model of {:.2g} billion parameters in {} would run on a CPU, for {}",
      static_cast<double>(parameters) / 1e9, fmt::join(config.dtypes, ", "), time_text(time()));
  const char* remedy = "use a machine with a GPU, or --quick N for fewer utterances; --yes goes on";
  if (answers == nullptr) throw UserError("reproduce", what, remedy);
  fmt::print(stderr, "rtfx: {}. Go on? [y/N] ", what);
  std::string answer;
  std::getline(*answers, answer);
  if (answer != "y" && answer != "yes") throw UserError("reproduce", "not confirmed", remedy);
}

void require_consent(const Config& config, bool yes) {
  const Workspace workspace(config);
  const bool terminal = isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1;
  require_consent(
      config, workspace.checkpoints(),
      [&] { return estimate(workspace, make_plan(config, workspace.kinds())); }, yes,
      terminal ? &std::cin : nullptr);
}

int run_table(const Config& config, Journal::Mode mode) {
  return config.stream ? stream(config, mode) : run(config, mode);
}

void render_table(const std::filesystem::path& table, const std::filesystem::path& journal,
                  const std::filesystem::path& output, bool latex) {
  const bool is_run = std::filesystem::is_directory(journal);
  const std::filesystem::path folder = !output.empty() ? output
                                       : is_run        ? journal
                                                       : journal.parent_path();
  if (!output.empty()) std::filesystem::create_directories(output);
  const bool is_journal = is_run || journal_name(journal) == "journal";
  const auto markdown = folder / (is_journal ? "table.md" : journal_name(journal) + ".md");
  std::vector<std::string> arguments = {table.string(), journal.string(), "-o", markdown.string()};
  if (latex) arguments.emplace_back("--latex");
  run_script("reproduce", "plots/paper_table.py", arguments);

  // Figures stand beside the table: NAME.svg, or JOURNAL_NAME.svg for a journal of another name.
  const auto document = read_json_file(table);
  for (const std::string figure :
       document.value("/paper/figures"_json_pointer, nlohmann::json::array())) {
    const auto file = folder / (is_run ? figure + ".svg"
                                       : fmt::format("{}_{}.svg", journal_name(journal), figure));
    run_script("reproduce", "plots/" + figure + ".py", {journal.string(), "-o", file.string()});
  }
}

}  // namespace rtfx
