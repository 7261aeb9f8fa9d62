// The reference pages of docs/reference, made of the tables that the program itself uses.
#pragma once

#include <string>
#include <vector>

#include "harness/cli/command_help.h"

namespace rtfx {

/// Names of the pages. A page NAME is committed as docs/reference/NAME.md, the page journal_schema
/// as docs/journal.schema.json, and a test holds both to this output.
const std::vector<std::string>& reference_pages();

/// A page in Markdown; journal_schema is a JSON Schema. Throws UserError for an unknown name.
/// `program` describes the command line.
std::string reference_page(const std::string& name, const CommandHelp& program);

}  // namespace rtfx
