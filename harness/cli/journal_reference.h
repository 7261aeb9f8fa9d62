// The reference of the journal, made of the tables of its records (harness/results/records.h).
#pragma once

#include <string>

namespace rtfx {

/// The page docs/reference/journal.md, without the line that says what makes it.
std::string journal_page();

/// The JSON Schema of one line of a journal, docs/journal.schema.json. It has a line for each kind
/// and each object.
std::string journal_schema();

}  // namespace rtfx
