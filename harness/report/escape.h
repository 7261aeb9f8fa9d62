// Escapes text that others wrote for the formats of tables. The result is on one line, and has no
// control characters (base/printable.h).
#pragma once

#include <string>
#include <string_view>

namespace rtfx {

/// Escapes text for a cell of a LaTeX table or for a note below it. No character of it can act as a
/// command, or be read as the option of a line break ("\\ [2pt]") or of an item.
std::string latex_text(std::string_view text);

/// Escapes text for a Markdown table and for running text, so that it is neither markup nor HTML.
std::string markdown_text(std::string_view text);

/// Escapes text for an XML element and for the value of an attribute.
std::string xml_text(std::string_view text);

/// Returns a field of a CSV file, quoted if necessary. A text that a spreadsheet would read as a
/// formula (it begins with =, +, - or @) gets an apostrophe in front.
std::string csv_text(std::string_view text);

}  // namespace rtfx
