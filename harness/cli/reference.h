// The reference pages of docs/reference, made of the tables that the program itself uses.
#pragma once

#include <string>
#include <vector>

#include "harness/cli/command_help.h"

namespace rtfx {

/// Names of the pages: configuration, decoders, command_line, metrics. A page NAME is committed as
/// docs/reference/NAME.md, and a test holds it to this output.
const std::vector<std::string>& reference_pages();

/// A page in Markdown. Throws UserError for an unknown name. `program` describes the command line.
std::string reference_page(const std::string& name, const CommandHelp& program);

}  // namespace rtfx
