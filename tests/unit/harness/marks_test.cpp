#include "harness/results/marks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "base/files.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

TEST(Marks, EachOneIsExplainedInTheDocumentation) {
  const std::string page = read_text("docs/reference/output.md");
  const size_t begin = page.find("## Marks"), end = page.find("\n## ", begin + 1);
  ASSERT_NE(end, std::string::npos);
  const std::string table = page.substr(begin, end - begin);
  for (const Mark& mark : all_marks()) EXPECT_HAS(table, fmt::format("`{}", mark.name));
}

/// Scripts that read tables of rivals have the names of these marks too.
TEST(Marks, ScriptsHaveTheNamesOfThoseThatMakeTimesDoubtful) {
  std::vector<std::string> names;
  for (const Mark& mark : all_marks()) {
    if (mark.makes_times_doubtful) names.push_back(fmt::format("\"{}\"", mark.name));
  }
  ASSERT_FALSE(names.empty());
  EXPECT_HAS(read_text("plots/journal.py"),
             fmt::format("\nDOUBTFUL_MARKS = ({})\n", fmt::join(names, ", ")));
}

TEST(Marks, TextsBeginWithTheNameOfTheirMark) {
  CaseSummary summary;
  for (const double total : {1, 2}) {
    auto& run = std::get<record::Run>(summary.rounds.emplace_back(record::Run()));
    run.all_empty = true;
    run.suspect.emplace().emplace_back("cpu_wait");
    run.pipeline.emplace();
    run.wall_seconds = Number(2);
    run.model.stand_in = "small.nemo widened";
    run.metrics["rtfx.total"] = Nullable<Number>(Number(total));
    summary.last = run;
  }
  summary.deterministic = false;
  summary.stand_in_data = "spoken";
  summary.replay.emplace();
  summary.replay->beyond = 3;
  summary.replay->decisions = 812;
  std::set<std::string> found;
  for (const Mark& mark : all_marks()) {
    const std::string text = mark.text(summary);
    if (text.empty()) continue;
    EXPECT_TRUE(text.starts_with(mark.name)) << text;
    found.insert(mark.name);
  }
  EXPECT_EQ(found.size(), all_marks().size() - 1);  // all but that of streams, OVERLOADED
  EXPECT_FALSE(found.contains("OVERLOADED"));
  EXPECT_EQ(summary.marks().front(), "BEYOND ROUNDING 3/812");
  EXPECT_EQ(summary.marks().back(), "stand-in data");
}

}  // namespace
}  // namespace rtfx
