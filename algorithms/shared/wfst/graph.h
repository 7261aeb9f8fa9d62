// A decoding graph (TLG) in the form that searches read. The arcs of a state are neighbours.
// Emitting arcs, which consume a frame, are apart from non-emitting arcs. The file has the same
// layout as the memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/shared/wfst/composition.h"

namespace rtfx {

/// An arc. A GPU loads its 16 bytes at once.
struct alignas(16) GraphArc {
  int32_t next = 0;     // state
  int32_t column = -1;  // column of the emissions: token id, V for blank; -1: non-emitting
  int32_t word = 0;     // 1..W; 0: none
  float cost = 0;       // -ln p

  bool operator==(const GraphArc&) const = default;
};

/// The graph as plain pointers, trivially copyable. The number of an arc is its index in `arcs`.
struct GraphView {
  int32_t states = 0, start = 0;
  int32_t columns = 0;                         // V + 1
  int64_t emitting_arcs = 0, arc_count = 0;    // emitting arcs come first
  const GraphArc* arcs = nullptr;              // [arc_count]
  const int32_t* emitting_begin = nullptr;     // [states + 1], within [0, emitting_arcs]
  const int32_t* nonemitting_begin = nullptr;  // [states + 1], within [emitting_arcs, arc_count]
  const float* final_cost = nullptr;           // [states]; +infinity: not final
  int32_t longest_nonemitting = 0;             // length of the longest path of such arcs
  const int32_t* shown_word = nullptr;         // [W + 1], see shown(); null: all are shown

  /// Returns the word that results show for an arc's word, usually the same one. Results may show
  /// one word for words with different costs: see with_phrases() in added_words.h.
  int32_t shown(int32_t word) const { return shown_word == nullptr ? word : shown_word[word]; }
};

class WfstGraph {
 public:
  /// Makes a graph of `tlg`, whose input labels are those of TokenLabels without disambiguation
  /// symbols, and whose output labels are words 1..W. `words[i]` is word i + 1. `tokenizer` is a
  /// checksum of 64 characters (graph_builder.h). Arcs of a state are sorted by column, next state,
  /// word and cost. Throws UserError(where) if no path leads through the graph, or if it has a
  /// cycle of non-emitting arcs.
  static WfstGraph from(const TransducerArcs& tlg, int32_t tokens,
                        const std::vector<std::string>& words, const std::string& topology,
                        const std::string& tokenizer, const std::string& where);

  /// Maps a file that write() made. Pages are read when they are needed, and processes share them.
  /// Throws UserError if the file is not a graph, has another version or is damaged. The same holds
  /// for an index out of bounds, a NaN and a cycle of non-emitting arcs.
  static WfstGraph map(const std::filesystem::path& path);

  /// Returns this graph with the words [W + 1] that results show for its own words. A file cannot
  /// hold them.
  WfstGraph showing(std::vector<int32_t> shown) const;

  /// Replaces the file in one step, in little endian. Throws UserError.
  void write(const std::filesystem::path& path) const;

  /// Valid as long as a copy of this graph lives.
  const GraphView& view() const { return view_; }
  int64_t words() const { return static_cast<int64_t>(word_begin_.size()) - 1; }
  std::string_view word(int32_t id) const;  // 1..W
  std::string_view topology() const;
  std::string_view tokenizer() const;  // checksum
  int64_t bytes() const { return static_cast<int64_t>(image_.size()); }

 private:
  struct Header;
  WfstGraph(std::shared_ptr<const void> owner, std::span<const char> image,
            const std::string& where);
  const Header& header() const { return *reinterpret_cast<const Header*>(image_.data()); }
  void check(const std::string& where);

  std::shared_ptr<const void> owner_;  // owns the image: memory or a mapped file
  std::span<const char> image_;        // the whole file
  std::shared_ptr<const std::vector<int32_t>> shown_;
  GraphView view_;
  std::span<const int64_t> word_begin_;  // [W + 1] in letters_
  const char* letters_ = nullptr;
};

// Reads graphs that OpenFst and Kaldi wrote. OpenFst itself trusts its files: with a damaged one it
// ends the process or reads out of bounds. So this project has a reader of its own.

/// Reads a file of OpenFst with tropical weights (StdArc), of type vector or const, and skips its
/// symbol tables. Reads text, too, in which each line is an arc or a final state:
///
///   AT&T's form  "from to input output [cost]" and "state [cost]", as `fstprint` writes it
///   k2's form    "from to input output score", as k2.to_str() writes it; a score is -cost, and
///                label -1 leads to the end
///
/// Input label 0 of k2 is blank in a graph that was composed with a topology of CTC. Then
/// `k2_has_blank` is true, and all input labels of k2 are counted up by one, since 0 is none here.
/// In an LG of k2, label 0 is none, too, and the labels stay as they are. All files may be gzip.
/// The state of the first line is the start. Throws UserError, also for a negative label and for a
/// state out of bounds.
TransducerArcs read_openfst(const std::filesystem::path& path, bool k2_has_blank = true);

}  // namespace rtfx
