// Tests of files that are no language model over the acoustic model's tokens. Each gives one
// complaint with file and line.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>

#include "algorithms/shared/ngram_lm/fusion.h"
#include "algorithms/shared/ngram_lm/load_ngram_lm.h"
#include "tests/support/gzip.h"
#include "tests/support/ngram_table.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using namespace test;

class BadLanguageModel : public TempFolder {
 protected:
  /// Returns the complaint about a good file in which `to` replaces `from`.
  std::string after(const std::string& from, const std::string& to, int64_t vocabulary = 4) {
    std::ostringstream text;
    text << std::ifstream("tests/data/two_gram.arpa").rdbuf();
    std::string changed = text.str();
    const size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    changed.replace(at, from.size(), to);
    return complaint(changed, vocabulary);
  }

  std::string complaint(const std::string& text, int64_t vocabulary = 4) {
    const auto file = write("lm.arpa", text);
    return user_error([&] { load_ngram_lm(file, vocabulary, {}); });
  }

  /// Returns a well-formed file with these n-grams, one list per order.
  static std::string arpa(const std::vector<std::vector<std::string>>& sections) {
    std::string text = "\\data\\\n";
    for (size_t n = 0; n < sections.size(); ++n)
      text += fmt::format("ngram {}={}\n", n + 1, sections[n].size());
    for (size_t n = 0; n < sections.size(); ++n) {
      text += fmt::format("\\{}-grams:\n", n + 1);
      for (const std::string& words : sections[n]) text += "-1\t" + words + "\n";
    }
    return text + "\\end\\\n";
  }
};

TEST_F(BadLanguageModel, MissingSections) {
  EXPECT_HAS(after("\\data\\", "data"), "no \\data\\ section");
  EXPECT_HAS(complaint(""), "no \\data\\ section");
  EXPECT_HAS(after("\\2-grams:", "\\3-grams:"), "lm.arpa:15: \\2-grams: should stand here");
  EXPECT_HAS(after("\\1-grams:", ""), "lm.arpa:9: expected 'ngram 3=<count>'");
  EXPECT_HAS(after("\\end\\", ""), "the file ends where \\end\\ should stand");
  EXPECT_HAS(after("ngram 1=5\nngram 2=3\n", ""), "announces no n-grams");
}

TEST_F(BadLanguageModel, WrongCounts) {
  EXPECT_HAS(after("ngram 1=5", "ngram 1=6"), "announces 6 1-grams, the section has 5");
  EXPECT_HAS(after("ngram 2=3", "ngram 2=2"), "announces 2 2-grams, the section has more");
  EXPECT_HAS(after("ngram 2=3", "ngram 2=x"), "lm.arpa:6: expected 'ngram 2=<count>'");
  EXPECT_HAS(after("ngram 2=3", "ngram 3=3"), "expected 'ngram 2=<count>'");
  EXPECT_HAS(after("ngram 2=3", "ngram 2=3000000000"), "at most");
}

TEST_F(BadLanguageModel, WrongLines) {
  EXPECT_HAS(after("-0.1\td e", "-0.1\td"), "lm.arpa:17: a line of \\2-grams:");
  EXPECT_HAS(after("-0.1\td e", "-0.1\td e 0 0"), "a line of \\2-grams:");
  EXPECT_HAS(after("-0.1\td e", "x\td e"), "'x' is no log10 probability");
  EXPECT_HAS(after("-0.1\td e", "0.1\td e"), "'0.1' is no log10 probability");
  EXPECT_HAS(after("-0.1\td e", "nan\td e"), "'nan' is no log10 probability");
  EXPECT_HAS(after("-0.1\td e", "-1e50\td e"), "'-1e50' is no log10 probability");
  // This probability is 0 as a float.
  EXPECT_EQ(after("-0.1\td e", "-1e-50\td e"), "");
  EXPECT_HAS(after("-0.5\td\t-0.3", "-0.5\td\tinf"), "'inf' is no log10 back-off weight");
  EXPECT_HAS(after("-0.5\td\t-0.3", "-0.5\td\t3e38"), "'3e38' is no log10 back-off weight");
}

TEST_F(BadLanguageModel, TokensThatDoNotMatch) {
  EXPECT_HAS(after("-0.5\td", "-0.5\tthe"), "lm.arpa:12: 'the' is no token");
  EXPECT_HAS(after("-0.5\td", "-0.5\t2"), "'e' is a character, the tokens before it are not");
  EXPECT_HAS(after("-0.5\td", "-0.5\te"), "'e' is there twice");
  for (const char* special : {"<s>", "</s>", "<unk>"})
    EXPECT_HAS(complaint(arpa({{"0", special, special}, {"0 0"}})),
               std::string("lm.arpa:7: '") + special + "' is there twice");
  EXPECT_HAS(complaint(arpa({{"<UNK>", "0", "<unk>"}, {"0 0"}})), "'<unk>' is there twice");
  EXPECT_HAS(after("-0.1\td e", "-0.1\td f"), "lm.arpa:17: token 'f' is not among the 1-grams");
  EXPECT_HAS(after("-0.1", "-0.1", 1), "'e' is token 1, but the acoustic model has 1 tokens");
  EXPECT_HAS(complaint(arpa({{"7"}, {}}), 7), "'7' is token 7, but the acoustic model has 7");
  EXPECT_HAS(complaint(arpa({{"12345678901"}, {}})), "is no token");
}

TEST_F(BadLanguageModel, ContextsThatLeadNowhere) {
  EXPECT_HAS(complaint(arpa({{"0", "1", "2"}, {"1 2"}, {"0 1 2"}})),
             "lm.arpa:12: its beginning '0 1' is no n-gram");
  EXPECT_HAS(complaint(arpa({{"0", "1", "2"}, {"0 1"}, {"0 1 2"}})),
             "lm.arpa:12: the n-gram without its first token is no n-gram");
  // A context that ends with <s> would back off to the one that it came from.
  EXPECT_HAS(complaint(arpa({{"0", "<s>"}, {"<s> <s>"}})), "'<s>' inside an n-gram");
  EXPECT_HAS(complaint(arpa({{"0", "</s>"}, {"</s> 0"}})), "'</s>' inside an n-gram");
  EXPECT_HAS(complaint(arpa({{"0", "1"}, {"0 1", "1 0", "0 1"}})),
             "lm.arpa:10: the n-gram is there");
  EXPECT_HAS(complaint(arpa({{"0", "</s>"}, {"0 </s>", "0 </s>"}})), "there twice");
}

TEST_F(BadLanguageModel, UnknownTokensInAContext) {
  const std::string missing = ", and 3 of 4 tokens are not among the 1-grams; list all tokens";
  for (const char* longer : {"<unk> 0", "0 <unk>", "<s> <unk>", "<unk> </s>"}) {
    const std::string text = arpa({{"0", "<unk>", "<s>", "</s>"}, {longer}});
    EXPECT_HAS(complaint(text), "lm.arpa:10: uses <unk> in longer n-grams" + missing);
    EXPECT_EQ(complaint(text, 1), "");
  }
  EXPECT_HAS(complaint(arpa({{"0", "<unk> -0.5"}, {}})),
             "lm.arpa:6: gives <unk> a back-off weight" + missing);
  EXPECT_HAS(complaint(arpa({{"0", "<unk>"}, {"<unk> 1"}}), 1), "token '1' is not among");
}

TEST_F(BadLanguageModel, OrdersThatAreNotSupported) {
  EXPECT_HAS(complaint(arpa({{"0", "1"}})), "is a 1-gram model; orders 2 to 10");
  EXPECT_HAS(complaint(arpa(std::vector<std::vector<std::string>>(11))), "is a 11-gram model");
  EXPECT_EQ(complaint(arpa({{"0"}, {}, {}, {}, {}, {}, {}, {}, {}, {}})), "");
}

TEST_F(BadLanguageModel, TooLarge) {
  // The limit of 252 B is exact: 9 arcs of 12 B (4 tokens, 3 2-grams) and 7 states of 24 B need it.
  const char* file = "tests/data/two_gram.arpa";
  EXPECT_EQ(user_error([&] { load_ngram_lm(file, 4, {.memory_limit = 252}); }), "");
  EXPECT_HAS(user_error([&] { load_ngram_lm(file, 4, {.memory_limit = 251}); }), "needs 0.0 MiB");
}

TEST_F(BadLanguageModel, FilesThatCannotBeRead) {
  const auto load = [](const std::filesystem::path& file) {
    return user_error([&] { load_ngram_lm(file, 4, {}); });
  };
  EXPECT_HAS(load(path("none.arpa")), "no such file");
  EXPECT_HAS(load(path("")), "is a directory");
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_HAS(load(path("pipe")), "is a pipe or device, and it must be read twice");
  // This file holds a gzip header, and nothing behind it.
  EXPECT_HAS(load(write("cut.arpa.gz", std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10))),
             "cut.arpa.gz");
  // libarchive reports nothing for a file that lacks its last bytes.
  const std::string whole = gzip("\\data\\\nngram 1=1\n");
  EXPECT_HAS(load(write("end.arpa.gz", whole.substr(0, whole.size() - 4))), "end.arpa.gz");
}

TEST_F(BadLanguageModel, ALineWithoutEndDoesNotFillTheMemory) {
  const auto file = write("zeros.arpa.gz", gzip(std::string(65 << 20, '\0')));
  EXPECT_HAS(user_error([&] { load_ngram_lm(file, 4, {}); }), "a line of more than 64 MiB");
}

}  // namespace
}  // namespace rtfx
