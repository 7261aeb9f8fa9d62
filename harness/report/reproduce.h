// `rtfx reproduce`: runs the configuration of a published table and sets ours beside its figures.
//
// A table is configs/tables/<name>.json: a configuration with two keys more. "paper" says what was
// published and in which setting. "cells" lists the figures: which case each belongs to, its
// metric, its text as printed, and what kind of agreement can be expected. plots/paper_table.py
// reads both.
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

/// In alphabetical order.
std::vector<std::string> table_names();

/// Prints name and question of every table.
void print_tables();

/// The table's configuration file. Throws UserError with the nearest name for an unknown one.
std::filesystem::path table_file(const std::string& name);

/// Asks before a large model is run on a CPU, which may take days. It prints the time that the plan
/// needs and reads the answer from `answers`, which is null where there is no terminal. Throws
/// UserError with the remedy where the answer is no, or where nobody can be asked. With a GPU,
/// small models alone, or `yes`, it does nothing.
void require_consent(const Config& config, std::span<const Checkpoint> checkpoints,
                     const std::function<Estimate()>& time, bool yes, std::istream* answers);

/// Asks for the models of the configuration, with the terminal where there is one.
void require_consent(const Config& config, bool yes);

/// Runs a table's configuration and returns an ExitCode as run() does. Throws UserError, before
/// anything runs, for data or models that are not there.
int run_table(const Config& config, Journal::Mode mode);

/// Prints the table of a journal, or of a run's folder. Writes it as Markdown, if wanted as LaTeX
/// too, and writes the figures that the table names as SVG. They go into the folder `output`, which
/// is made, or beside the journal where it is empty. Figures of a profile are left out, with a line
/// that says so, where the run's folder has none.
void render_table(const std::filesystem::path& table, const std::filesystem::path& journal,
                  const std::filesystem::path& output, bool latex);

/// Writes one page, `output`/tables.md, of all tables whose journals are in the folder `runs`:
/// <table>/journal.jsonl or <table>.jsonl, or either with .gz. The page has all effects and their
/// verdicts, and names the tables that were not run. Figures stand beside it. Throws UserError
/// where there is no journal.
void render_all(const std::filesystem::path& runs, const std::filesystem::path& output);

}  // namespace rtfx
