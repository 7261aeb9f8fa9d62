// A decoding graph (TLG) in the form that searches read: arcs of a state one after the other, those
// that take a frame (emitting) apart from those that do not, in memory as in its file.
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

/// 16 bytes: one load of a GPU.
struct alignas(16) GraphArc {
  int32_t next = 0;     // state
  int32_t column = -1;  // of the emissions: token id, V for blank; -1: non-emitting
  int32_t word = 0;     // 1..W; 0: none
  float cost = 0;       // -ln p

  bool operator==(const GraphArc&) const = default;
};

/// The graph as plain pointers; trivially copyable. An arc's number is its index in `arcs`.
struct GraphView {
  int32_t states = 0, start = 0;
  int32_t columns = 0;                         // V + 1
  int64_t emitting_arcs = 0, arc_count = 0;    // emitting ones come first
  const GraphArc* arcs = nullptr;              // [arc_count]
  const int32_t* emitting_begin = nullptr;     // [states + 1], within [0, emitting_arcs]
  const int32_t* nonemitting_begin = nullptr;  // [states + 1], within [emitting_arcs, arc_count]
  const float* final_cost = nullptr;           // [states]; +infinity: not final
  int32_t longest_nonemitting = 0;             // arcs of the longest path of non-emitting arcs
};

class WfstGraph {
 public:
  /// `tlg`: input labels as TokenLabels has them, without disambiguation symbols; output labels
  /// 1..W. `words[i]`: word i + 1. `tokenizer`: checksum, 64 characters (graph_builder.h). Arcs of
  /// a state are put in the order of column, next state, word, cost. Throws UserError(where) when
  /// no path leads through the graph or it has a cycle of non-emitting arcs.
  static WfstGraph from(const TransducerArcs& tlg, int32_t tokens,
                        const std::vector<std::string>& words, const std::string& topology,
                        const std::string& tokenizer, const std::string& where);

  /// Maps a file of write(); pages are read as they are needed, and shared between processes.
  /// Throws UserError when it is no such file, of another version, damaged, or unsound: an index
  /// out of bounds, a NaN, a cycle of non-emitting arcs.
  static WfstGraph map(const std::filesystem::path& path);

  /// Replaces the file in one step. Little endian. Throws UserError.
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

  std::shared_ptr<const void> owner_;  // of the image: memory or a mapped file
  std::span<const char> image_;        // the whole file
  GraphView view_;
  std::span<const int64_t> word_begin_;  // [W + 1] in letters_
  const char* letters_ = nullptr;
};

}  // namespace rtfx
