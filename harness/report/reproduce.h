// `rtfx reproduce`: runs the configuration of a published table, and shows our figures beside the
// published ones.
//
// A table is configs/tables/<name>.json: a configuration with two more keys. "paper" states the
// publication and its setting. "cells" lists the figures: the case, the metric, the printed text,
// and the kind of agreement that can be expected. plots/paper_table.py reads both.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <istream>
#include <span>
#include <string>
#include <vector>

#include "harness/config/config.h"
#include "harness/results/journal.h"
#include "harness/run/estimate.h"
#include "models/checkpoint/checkpoint.h"

namespace rtfx {

/// Returns the names in alphabetical order.
std::vector<std::string> table_names();

/// Prints the name and the question of every table.
void print_tables();

/// Returns the table's configuration file. The UserError for an unknown table has the nearest name.
std::filesystem::path table_file(const std::string& name);

/// Asks before it runs a large model on a CPU, which may take days. Prints the time that the plan
/// needs, and reads the answer from `answers`, which is null if there is no terminal. Throws
/// UserError with the remedy if the answer is no or nobody can be asked. Does nothing with a GPU,
/// for small models, or with `yes`.
void require_consent(const Config& config, std::span<const Checkpoint> checkpoints,
                     const std::function<Estimate()>& time, bool yes, std::istream* answers);

/// Asks for the models of the configuration, on the terminal if there is one.
void require_consent(const Config& config, bool yes);

/// Runs a table's configuration, and returns an ExitCode as run() does. Throws UserError for
/// missing data or models before anything runs.
int run_table(const Config& config, Journal::Mode mode);

/// Prints the table of a journal, or of a run's folder. Writes it as Markdown, with `latex` also as
/// LaTeX, and writes the figures that the table names as SVG. Files go into the folder `output`,
/// which is made, or beside the journal if it is empty. Figures of a profile are left out with a
/// notice if the run's folder has no profile.
void render_table(const std::filesystem::path& table, const std::filesystem::path& journal,
                  const std::filesystem::path& output, bool latex);

/// Writes one page, `output`/tables.md, of all tables whose journals are in the folder `runs`:
/// <table>/journal.jsonl or <table>.jsonl, each also as .gz. The page has all effects and their
/// marks, and names the tables that were not run. Figures are written beside it. Throws
/// UserError if there is no journal.
void render_all(const std::filesystem::path& runs, const std::filesystem::path& output);

}  // namespace rtfx
