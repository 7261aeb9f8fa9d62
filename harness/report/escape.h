// Text that others wrote, made fit for the formats that tables are written in. Each is on one line,
// and without control characters (base/printable.h).
#pragma once

#include <string>
#include <string_view>

namespace rtfx {

/// Escapes text for a cell of a LaTeX table, its caption or a comment. No character of it is a
/// command, ends the comment, or is read as the option of a line's end ("\\ [2pt]").
std::string latex_text(std::string_view text);

/// Escapes text for a Markdown table and for running text, so that it is neither markup nor HTML.
std::string markdown_text(std::string_view text);

/// Escapes text for an XML element and for the value of an attribute.
std::string xml_text(std::string_view text);

/// A field of a CSV file, quoted where it must be. What a spreadsheet would take for a formula
/// (=, +, -, @ at the beginning) begins with an apostrophe.
std::string csv_text(std::string_view text);

}  // namespace rtfx
