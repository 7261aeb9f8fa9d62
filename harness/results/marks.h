// Marks beside the figures of a case, which warn the reader of them. Tables, pages, figures and
// exports show the same marks.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/results/summaries.h"

namespace rtfx {

struct Mark {
  const char* name;  // begins the text of the mark
  /// Explains the mark below a table. Empty for stand-ins, which the heading of a table explains.
  const char* meaning;
  bool makes_times_doubtful;
  /// Returns the mark with its figures, such as "suspect 1/3". Empty if the case does not have it.
  std::string (*text)(const CaseSummary& summary);
};

/// All marks, in the order in which they are shown. Those of stand-ins are the last.
const std::vector<Mark>& all_marks();

/// The name and the meaning of each mark that these cases have: {"suspect", "the machine disturbed
/// so many of all rounds (cpu_wait: ...)"}.
using Meanings = std::vector<std::pair<std::string, std::string>>;
Meanings meanings_of_marks(const Summaries& cases);

}  // namespace rtfx
