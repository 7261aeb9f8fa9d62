#include "algorithms/shared/wfst/openfst_file.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/files.h"

namespace rtfx {
namespace {

// Constants of fst/fst.h and fst/symbol-table.h of OpenFst.
constexpr int32_t kMagic = 2125659606, kSymbolsMagic = 2125658996;
constexpr int32_t kHasInputSymbols = 1, kHasOutputSymbols = 2, kIsAligned = 4;
constexpr size_t kAlignment = 16;

/// Reads a file from its beginning to its end, and throws UserError if it ends too early.
class Bytes {
 public:
  Bytes(std::string_view bytes, std::string where) : bytes_(bytes), where_(std::move(where)) {}

  template <class T>
  T read() {
    T value{};
    std::memcpy(&value, next(sizeof(T)).data(), sizeof(T));
    return value;
  }

  std::string_view text() {
    const auto size = read<int32_t>();
    if (size < 0) fail("is damaged");
    return next(static_cast<size_t>(size));
  }

  std::string_view next(size_t size) {
    if (size > left()) fail("ends too early");
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }

  /// Returns `count` in 32 bits, if that many parts of `size` bytes each can follow.
  int32_t count(int64_t count, size_t size) const {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    if (count < 0 || count > kMost || static_cast<size_t>(count) > left() / size)
      fail("is not of the size that its header says");
    return static_cast<int32_t>(count);
  }

  void align() { next((kAlignment - at_ % kAlignment) % kAlignment); }

  [[noreturn]] void fail(const std::string& problem) const {
    throw UserError(where_, problem, "give a graph of OpenFst or Kaldi, of type vector or const");
  }

 private:
  size_t left() const { return bytes_.size() - at_; }

  std::string_view bytes_;
  std::string where_;
  size_t at_ = 0;
};

struct Header {
  std::string_view type;
  int32_t flags = 0;
  int64_t start = 0, states = 0, arcs = 0;
};

void skip_symbols(Bytes& in) {
  if (in.read<int32_t>() != kSymbolsMagic) in.fail("has a table of symbols that is none");
  in.text();           // the table's name
  in.read<int64_t>();  // the next free key
  const auto symbols = in.read<int64_t>();
  for (int64_t i = 0; i < symbols; ++i) {
    in.text();
    in.read<int64_t>();
  }
}

Header read_header(Bytes& in) {
  Header header;
  if (in.read<int32_t>() != kMagic) in.fail("is no file of OpenFst");
  header.type = in.text();
  if (header.type != "vector" && header.type != "const")
    in.fail(fmt::format("is of type '{}'", header.type));
  const std::string_view arc = in.text();
  if (arc != "standard") in.fail(fmt::format("has arcs of type '{}', not 'standard'", arc));
  const auto version = in.read<int32_t>();
  header.flags = in.read<int32_t>();
  if (header.type == "const" && version == 1) header.flags |= kIsAligned;
  in.read<uint64_t>();  // properties
  header.start = in.read<int64_t>();
  header.states = in.read<int64_t>();
  header.arcs = in.read<int64_t>();
  for (const int32_t flag : {kHasInputSymbols, kHasOutputSymbols})
    if ((header.flags & flag) != 0) skip_symbols(in);
  return header;
}

class Reader {
 public:
  explicit Reader(Bytes in) : in_(std::move(in)), header_(read_header(in_)) {}

  TransducerArcs read() {
    if (header_.type == "vector") {
      read_vector();
    } else {
      read_const();
    }
    // A graph without a start has -1 here, and no path.
    if (header_.start < -1 || header_.start >= graph_.states) in_.fail("starts out of bounds");
    graph_.start = header_.start < 0 ? 0 : static_cast<int32_t>(header_.start);
    for (const TransducerArcs::Arc& arc : graph_.arcs) {
      if (arc.to < 0 || arc.to >= graph_.states)
        in_.fail("has an arc to a state that is not there");
      if (arc.input < 0 || arc.output < 0) in_.fail("has a negative label");
    }
    return std::move(graph_);
  }

 private:
  void read_vector() {
    constexpr size_t kState = 12;
    graph_.states = in_.count(header_.states, kState);
    for (int32_t state = 0; state < graph_.states; ++state) {
      read_final(state);
      read_arcs(state, in_.count(in_.read<int64_t>(), kArc));
    }
  }

  /// Reads all states, then all arcs. Each state says which arcs it has.
  void read_const() {
    constexpr size_t kState = 20;
    if ((header_.flags & kIsAligned) != 0) in_.align();
    graph_.states = in_.count(header_.states, kState);
    std::vector<uint32_t> counts;
    for (int32_t state = 0; state < graph_.states; ++state) {
      read_final(state);
      const uint64_t first = in_.read<uint32_t>();
      if (first != sum_) in_.fail("has states whose arcs do not follow each other");
      counts.push_back(in_.read<uint32_t>());
      sum_ += counts.back();
      in_.read<uint64_t>();  // number of arcs without labels
    }
    if ((header_.flags & kIsAligned) != 0) in_.align();
    if (static_cast<int64_t>(sum_) != header_.arcs) in_.fail("has arcs without a state");
    in_.count(header_.arcs, kArc);
    for (int32_t state = 0; state < graph_.states; ++state)
      read_arcs(state, static_cast<int32_t>(counts[static_cast<size_t>(state)]));
  }

  void read_final(int32_t state) {
    const auto cost = in_.read<float>();
    if (cost != std::numeric_limits<float>::infinity()) graph_.finals.emplace_back(state, cost);
  }

  void read_arcs(int32_t from, int32_t count) {
    for (int32_t i = 0; i < count; ++i) {
      const auto input = in_.read<int32_t>(), output = in_.read<int32_t>();
      const auto cost = in_.read<float>();
      graph_.add(from, in_.read<int32_t>(), input, output, cost);
    }
  }

  static constexpr size_t kArc = 16;
  Bytes in_;
  Header header_;
  TransducerArcs graph_;
  uint64_t sum_ = 0;
};

}  // namespace

TransducerArcs read_openfst(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  return Reader({file->bytes(), path.string()}).read();
}

}  // namespace rtfx
