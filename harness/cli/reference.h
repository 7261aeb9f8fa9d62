// Makes the reference pages of docs/reference from the tables that the program itself uses.
#pragma once

#include <string>
#include <vector>

#include "harness/cli/help.h"

namespace rtfx {

/// The names of the pages. Page NAME is committed as docs/reference/NAME.md, and journal_schema as
/// docs/journal.schema.json. A test compares both with this output.
const std::vector<std::string>& reference_pages();

/// Returns a page in Markdown, or for journal_schema a JSON Schema. `program` describes the command
/// line. Throws UserError for an unknown name.
std::string reference_page(const std::string& name, const CommandHelp& program);

// The reference of the journal, which is made from the tables of its records
// (harness/results/records.h).

/// Returns docs/reference/journal.md without its first line, which says how the page is made.
std::string journal_page();

/// Returns docs/journal.schema.json, the JSON Schema of one line of a journal. It has a line for
/// each kind of record and each object.
std::string journal_schema();

}  // namespace rtfx
