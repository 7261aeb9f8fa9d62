// The reference pages of docs/reference, made of the tables that the program itself uses.
#pragma once

#include <string>
#include <vector>

#include "harness/cli/help.h"

namespace rtfx {

/// Names of the pages. A page NAME is committed as docs/reference/NAME.md, the page journal_schema
/// as docs/journal.schema.json, and a test holds both to this output.
const std::vector<std::string>& reference_pages();

/// A page in Markdown; journal_schema is a JSON Schema. Throws UserError for an unknown name.
/// `program` describes the command line.
std::string reference_page(const std::string& name, const CommandHelp& program);

// The reference of the journal, made of the tables of its records (harness/results/records.h).

/// The page docs/reference/journal.md, without the line that says what makes it.
std::string journal_page();

/// The JSON Schema of one line of a journal, docs/journal.schema.json. It has a line for each kind
/// and each object.
std::string journal_schema();

}  // namespace rtfx
