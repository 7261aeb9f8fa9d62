#include "harness/report/escape.h"

#include <gtest/gtest.h>

namespace rtfx {
namespace {

TEST(Escape, LatexHasNoCommandsOfOthers) {
  EXPECT_EQ(latex_text("x\n\\input{/etc/passwd}"),
            "x\\textbackslash{}n\\textbackslash{}input\\{/etc/passwd\\}");
  EXPECT_EQ(latex_text("50 % & $x_1^2$ #1"), "50 \\% \\& \\$x\\_1\\textasciicircum{}2\\$ \\#1");
  EXPECT_EQ(latex_text("[2pt] a*"), "{[}2pt{]} a{*}");
  EXPECT_EQ(latex_text("12 ± 3 ~"), "12 $\\pm$ 3 \\textasciitilde{}");
  EXPECT_EQ(latex_text("Grüße"), "Grüße");
}

TEST(Escape, MarkdownIsNeitherMarkupNorHtml) {
  EXPECT_EQ(markdown_text("<img src=x onerror=alert(1)>"), "&lt;img src=x onerror=alert(1)&gt;");
  EXPECT_EQ(markdown_text("&lt;"), "&amp;lt;");
  EXPECT_EQ(markdown_text("a|b\n*c* _d_ `e` [f](g) ~~h~~ $i$ ![j]"),
            "a\\|b\\\\n\\*c\\* \\_d\\_ \\`e\\` \\[f\\](g) \\~\\~h\\~\\~ \\$i\\$ \\!\\[j\\]");
}

TEST(Escape, CsvHasNoFormulas) {
  for (const char* formula : {"=HYPERLINK(1)", "+1", "-1", "@SUM(A1)"})
    EXPECT_EQ(csv_text(formula), "'" + std::string(formula));
  EXPECT_EQ(csv_text("=1,\"2\""), "\"'=1,\"\"2\"\"\"");
  EXPECT_EQ(csv_text("plain=1"), "plain=1");
  EXPECT_EQ(csv_text("a\nb\x1b"), "a\\nb\\x1b");
}

}  // namespace
}  // namespace rtfx
