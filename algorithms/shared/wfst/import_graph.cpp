#include "algorithms/shared/wfst/import_graph.h"

#include <fmt/format.h>

#include <set>
#include <string>
#include <vector>

#include "algorithms/shared/wfst/graph_builder.h"
#include "algorithms/shared/wfst/lexicon.h"
#include "base/error.h"
#include "base/files.h"
#include "base/numbers.h"

namespace rtfx {

namespace {

struct WordTable {
  std::vector<std::string> words;  // words[i] has the id i + 1; "" for ids without a word
  std::vector<int64_t> lines;      // their line numbers in the file

  bool contains(size_t id) const { return id <= words.size() && !words[id - 1].empty(); }
};

/// Reads a word table. Throws UserError for two words with one id.
WordTable read_word_table(const std::filesystem::path& path) {
  constexpr int32_t kMost = 1 << 22;  // more words than any vocabulary has
  WordTable table;
  TextLines lines(path);
  std::string_view line;
  while (lines.next(line)) {
    const auto fields = split_fields(line);
    if (fields.empty()) continue;
    const int32_t id = fields.size() == 2 ? parse_number<int32_t>(fields[1]).value_or(-1) : -1;
    if (id < 0 || id > kMost) {
      throw UserError(fmt::format("{}:{}", path.string(), lines.number()),
                      fmt::format("'{}' is no word and its id, at most {}", line, kMost),
                      "give the table of the graph's output labels, with words without spaces");
    }
    if (id == 0) continue;  // epsilon
    if (table.words.size() < static_cast<size_t>(id)) {
      table.words.resize(static_cast<size_t>(id));
      table.lines.resize(static_cast<size_t>(id));
    }
    std::string& word = table.words[static_cast<size_t>(id) - 1];
    const std::string_view found = fields[0];
    if (found == "<eps>") require_word(found, path, lines.number(), "give it the id 0");
    if (!word.empty() && word != found) {
      throw UserError(fmt::format("{}:{}", path.string(), lines.number()),
                      fmt::format("'{}' has the id {}, which '{}' has already", found, id, word),
                      "give the table that the graph was made with");
    }
    word = found;
    table.lines[static_cast<size_t>(id) - 1] = lines.number();
  }
  return table;
}

/// Returns the labels of loops at the start of a graph, or at states that the start reaches without
/// a frame.
std::set<int32_t> labels_at_start(const TransducerArcs& graph) {
  std::vector<std::vector<const TransducerArcs::Arc*>> arcs(static_cast<size_t>(graph.states));
  for (const TransducerArcs::Arc& arc : graph.arcs)
    arcs[static_cast<size_t>(arc.from)].push_back(&arc);
  std::set<int32_t> labels, seen = {graph.start};
  std::vector<int32_t> open = {graph.start};
  while (!open.empty() && graph.states > 0) {
    const int32_t state = open.back();
    open.pop_back();
    for (const TransducerArcs::Arc* arc : arcs[static_cast<size_t>(state)]) {
      if (arc->to == state && arc->input > 0 && arc->output == 0) labels.insert(arc->input);
      if (arc->input == 0 && seen.insert(arc->to).second) open.push_back(arc->to);
    }
  }
  return labels;
}

/// Throws UserError unless the graph shows that blank is its last label.
void require_last_blank(const TransducerArcs& graph, int32_t tokens, const std::string& where) {
  const std::set<int32_t> labels = labels_at_start(graph);
  if (labels.contains(tokens + 1)) return;
  if (labels.contains(1)) {
    throw UserError(where,
                    "its start stays with label 1, so that blank seems to be the first label",
                    "if so, give --blank first; else --blank last");
  }
  throw UserError(
      where,
      fmt::format("its start does not stay with label {}, which should be blank for the "
                  "{} tokens of this tokenizer",
                  tokens + 1, tokens),
      "give the tokenizer that it was made with; or --blank last to go on");
}

}  // namespace

WfstGraph import_graph(const Tokenizer& tokenizer, const std::filesystem::path& openfst,
                       const std::filesystem::path& word_table, std::optional<BlankLabel> blank) {
  const auto tokens = static_cast<int32_t>(tokenizer.size());
  const bool is_ctc = blank != BlankLabel::none;
  TransducerArcs graph = read_openfst(openfst, /*k2_has_blank=*/is_ctc);
  if (!blank) require_last_blank(graph, tokens, openfst.string());
  const WordTable table = read_word_table(word_table);
  for (TransducerArcs::Arc& arc : graph.arcs) {
    if (arc.input > tokens + (is_ctc ? 1 : 0)) {
      throw UserError(
          openfst.string(),
          fmt::format("has the label {}, which is none of the {} tokens{}", arc.input, tokens,
                      is_ctc ? ", nor blank" : ""),
          is_ctc ? "give the tokenizer that it was made with, and replace disambiguation symbols "
                   "by 0; a label of k2 counts as one more"
                 : "leave out --blank none for a graph with blanks; or give the tokenizer that it "
                   "was made with, and replace disambiguation symbols by 0");
    }
    if (blank == BlankLabel::first && arc.input > 0)
      arc.input = arc.input == 1 ? tokens + 1 : arc.input - 1;
    const auto word = static_cast<size_t>(arc.output);
    if (word == 0) continue;
    if (table.contains(word)) {
      // Word tables also have symbols, which the graph must not write.
      require_word(table.words[word - 1], word_table, table.lines[word - 1],
                   "make the graph again with outputs that are words");
      continue;
    }
    throw UserError(word_table.string(),
                    fmt::format("has no word with the id {}, which the graph has", word),
                    "give the table that the graph was made with");
  }
  return WfstGraph::from(graph, tokens, table.words,
                         is_ctc ? "imported" : topology_name(Topology::tokens),
                         tokenizer_checksum(tokenizer), openfst.string());
}

}  // namespace rtfx
