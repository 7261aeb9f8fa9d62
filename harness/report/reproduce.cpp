#include "harness/report/reproduce.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/terminal.h"
#include "harness/report/python_script.h"
#include "harness/results/journal.h"
#include "harness/run/loaded_inputs.h"
#include "harness/run/run.h"
#include "harness/stream/stream.h"

namespace rtfx {

std::vector<std::string> table_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(project_file("configs/tables"))) {
    const std::filesystem::path name = entry.path().stem();
    const bool is_tuned =
        name.extension() == ".tuned";  // a copy of a table, written by `rtfx tune`
    if (entry.path().extension() == ".json" && !is_tuned) names.push_back(name.string());
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
  print_message("rtfx: {}. Go on? [y/N] ", what);
  std::string answer;
  std::getline(*answers, answer);
  if (answer != "y" && answer != "yes") throw UserError("reproduce", "not confirmed", remedy);
}

void require_consent(const Config& config, bool yes) {
  const LoadedInputs inputs(config);
  const bool terminal = isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1;
  require_consent(
      config, inputs.checkpoints(),
      [&] { return estimate(inputs, make_plan(config, inputs.kinds())); }, yes,
      terminal ? &std::cin : nullptr);
}

int run_table(const Config& config, Journal::Mode mode) {
  return config.stream ? stream(config, mode) : run(config, mode);
}

namespace {

namespace fs = std::filesystem;

/// A figure of a table (plots/paper_table.py).
struct TableFigure {
  std::string name, script, only;
  bool is_of_profile = false;
};

std::vector<TableFigure> figures_of(const fs::path& table) {
  std::vector<TableFigure> figures;
  const nlohmann::json document = read_json_file(table);
  for (const nlohmann::json& entry :
       document.value("/paper/figures"_json_pointer, nlohmann::json::array())) {
    if (entry.is_string())
      figures.push_back({.name = entry, .script = entry, .only = ""});
    else
      figures.push_back({entry.at("name"), entry.at("script"), entry.value("case", ""),
                         entry.value("from", "") == "profile"});
  }
  return figures;
}

/// Draws the figures of a table as `folder`/<before><name>.svg. Names figures that the run cannot
/// give, because its profile is missing or it lacks cases. With `all`, a figure of the whole run
/// must succeed.
void draw_figures(const fs::path& table, const fs::path& journal, const fs::path& folder,
                  const std::string& before, bool all = true) {
  const fs::path run = fs::is_directory(journal) ? journal : journal.parent_path();
  std::vector<std::string> left_out;
  for (const TableFigure& figure : figures_of(table)) {
    if (figure.is_of_profile && !fs::exists(plain_or_gzip(run / "profile.jsonl"))) {
      left_out.push_back(figure.name);
      continue;
    }
    const fs::path file = folder / (before + figure.name + ".svg");
    std::vector<std::string> arguments = {(figure.is_of_profile ? run : journal).string(), "-o",
                                          file.string()};
    if (!figure.only.empty()) arguments.insert(arguments.end(), {"--case", figure.only});
    try {
      run_script("reproduce", "plots/" + figure.script + ".py", arguments);
    } catch (const UserError&) {
      if (all && figure.only.empty()) throw;
      fmt::print("not drawn: {}, which this run has no case for\n", figure.name);
    }
  }
  if (left_out.empty()) return;
  fmt::print("not drawn: {}; `rtfx profile {} --output {}` makes what they show\n",
             fmt::join(left_out, ", "), table.string(), run.string());
}

/// Returns the journal of a table below `runs`; empty if there is none.
fs::path journal_below(const fs::path& runs, const std::string& table) {
  for (const fs::path& path :
       {runs / table, runs / (table + ".jsonl"), runs / (table + ".jsonl.gz")}) {
    const bool is_run = fs::is_directory(path);
    if (is_run ? fs::exists(plain_or_gzip(path / "journal.jsonl")) : fs::exists(path)) return path;
  }
  return {};
}

}  // namespace

void render_table(const fs::path& table, const fs::path& journal, const fs::path& output,
                  bool latex) {
  const bool is_run = fs::is_directory(journal);
  const fs::path folder = !output.empty() ? output : is_run ? journal : journal.parent_path();
  if (!output.empty()) fs::create_directories(output);
  const bool is_journal = is_run || journal_name(journal) == "journal";
  const auto markdown = folder / (is_journal ? "table.md" : journal_name(journal) + ".md");
  std::vector<std::string> arguments = {table.string(), journal.string(), "-o", markdown.string()};
  if (latex) arguments.emplace_back("--latex");
  run_script("reproduce", "plots/paper_table.py", arguments);
  // Figures are beside the table: NAME.svg, or JOURNAL_NAME.svg for a journal of another name.
  draw_figures(table, journal, folder, is_journal ? "" : journal_name(journal) + "_");
}

void render_all(const fs::path& runs, const fs::path& output) {
  std::vector<std::string> arguments;
  bool any = false;
  fs::create_directories(output);
  for (const std::string& name : table_names()) {
    const fs::path journal = journal_below(runs, name);
    arguments.insert(arguments.end(), {"--table", table_file(name).string(), journal.string()});
    if (journal.empty()) continue;
    any = true;
    draw_figures(table_file(name), journal, output, name + "_", /*all=*/false);
  }
  if (!any) {
    throw UserError(
        runs.string(), "holds no journal of a table",
        "give --from the folder of TABLE/journal.jsonl or TABLE.jsonl, plain or as .gz");
  }
  arguments.insert(arguments.end(), {"-o", (output / "tables.md").string()});
  run_script("reproduce", "plots/paper_page.py", arguments);
}

}  // namespace rtfx
