#include "algorithms/shared/wfst/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>

#include "base/error.h"
#include "base/files.h"
#include "base/numbers.h"
#include "base/sha256.h"
#include "base/text.h"

namespace rtfx {

namespace {

constexpr std::array<char, 8> kMagic = {'r', 't', 'f', 'x', 't', 'l', 'g', '\n'};
constexpr int32_t kVersion = 1;
constexpr const char* kRemedy = "make it again with `rtfx graph build`";
static_assert(std::endian::native == std::endian::little);
static_assert(sizeof(GraphArc) == 16);

template <size_t N>
void put(std::array<char, N>& field, std::string_view text) {
  std::copy_n(text.begin(), std::min(text.size(), N), field.begin());
}

template <size_t N>
std::string_view get(const std::array<char, N>& field) {
  return {field.data(),
          static_cast<size_t>(std::find(field.begin(), field.end(), '\0') - field.begin())};
}

}  // namespace

/// The head of the file. Behind it are arcs, word_begin, emitting_begin, nonemitting_begin,
/// final_cost and letters. Each is aligned, because the sizes of the parts before it are multiples
/// of its alignment.
struct WfstGraph::Header {
  std::array<char, 8> magic = kMagic;
  int32_t version = kVersion;
  int32_t states = 0, start = 0, columns = 0;
  int64_t emitting_arcs = 0, arcs = 0, words = 0, letters = 0;
  std::array<char, 24> topology{};
  std::array<char, 64> tokenizer{}, body{};  // SHA-256, hexadecimal

  /// Returns the bytes of the file, or 0 if a count is out of range.
  int64_t file_size() const {
    constexpr int64_t kMost = int64_t{1} << 40;
    for (const int64_t n : {int64_t{states}, emitting_arcs, arcs, words, letters})
      if (n < 0 || n > kMost) return 0;
    return static_cast<int64_t>(sizeof(Header)) + 16 * arcs + 8 * (words + 1) +
           4 * (3 * int64_t{states} + 2) + letters;
  }
};

WfstGraph WfstGraph::from(const TransducerArcs& tlg, int32_t tokens,
                          const std::vector<std::string>& words, const std::string& topology,
                          const std::string& tokenizer, const std::string& where) {
  static_assert(sizeof(Header) % 16 == 0);
  if (tlg.arcs.size() > std::numeric_limits<int32_t>::max())
    throw UserError(where,
                    fmt::format("the graph has {} arcs, more than 2^31 - 1", tlg.arcs.size()),
                    "prune the language model");
  Header header;
  header.states = tlg.states;
  header.start = tlg.start;
  header.columns = tokens + 1;
  header.arcs = static_cast<int64_t>(tlg.arcs.size());
  header.words = static_cast<int64_t>(words.size());
  put(header.topology, topology);
  put(header.tokenizer, tokenizer);

  std::vector<std::pair<int32_t, GraphArc>> arcs;  // each with the state that it leaves
  for (const auto& a : tlg.arcs) arcs.push_back({a.from, {a.to, a.input - 1, a.output, a.cost}});
  std::sort(arcs.begin(), arcs.end(), [](const auto& x, const auto& y) {
    const auto key = [](const auto& p) {
      const GraphArc& a = p.second;
      return std::tuple(a.column < 0, p.first, a.column, a.next, a.word, a.cost);
    };
    return key(x) < key(y);
  });
  // begin[0][s] and begin[1][s] count the emitting and non-emitting arcs of the states below s.
  std::array<std::vector<int32_t>, 2> begin;
  for (auto& b : begin) b.assign(static_cast<size_t>(tlg.states) + 1, 0);
  for (const auto& [from, arc] : arcs) ++begin[arc.column < 0][static_cast<size_t>(from) + 1];
  for (auto& b : begin)
    for (size_t s = 1; s < b.size(); ++s) b[s] += b[s - 1];
  header.emitting_arcs = begin[0].back();
  for (int32_t& b : begin[1]) b += begin[0].back();

  std::vector<float> final_cost(static_cast<size_t>(tlg.states),
                                std::numeric_limits<float>::infinity());
  for (const auto& [state, cost] : tlg.finals) {
    float& kept = final_cost[static_cast<size_t>(state)];
    kept = std::min(kept, cost);
  }
  std::string letters;
  std::vector<int64_t> word_begin = {0};
  for (const std::string& word : words) {
    letters += word;
    word_begin.push_back(static_cast<int64_t>(letters.size()));
  }
  header.letters = static_cast<int64_t>(letters.size());

  auto image = std::make_shared<std::string>();
  image->reserve(static_cast<size_t>(header.file_size()));
  image->resize(sizeof(Header));
  const auto append = [&](const void* data, size_t bytes) {
    image->append(static_cast<const char*>(data), bytes);
  };
  for (const auto& [from, arc] : arcs) append(&arc, sizeof(arc));
  append(word_begin.data(), 8 * word_begin.size());
  for (const auto& b : begin) append(b.data(), 4 * b.size());
  append(final_cost.data(), 4 * final_cost.size());
  append(letters.data(), letters.size());
  put(header.body, sha256(std::string_view(*image).substr(sizeof(Header))));
  std::memcpy(image->data(), &header, sizeof(Header));
  const std::span<const char> bytes(*image);
  return {std::move(image), bytes, where};
}

WfstGraph WfstGraph::map(const std::filesystem::path& path) {
  auto file = MappedFile::open(path);
  const std::span<const char> image(file->bytes());
  return {std::move(file), image, path.string()};
}

WfstGraph::WfstGraph(std::shared_ptr<const void> owner, std::span<const char> image,
                     const std::string& where)
    : owner_(std::move(owner)), image_(image) {
  const auto fail = [&](const std::string& problem) { throw UserError(where, problem, kRemedy); };
  if (image.size() < sizeof(Header) || header().magic != kMagic) fail("is no decoding graph");
  const Header& h = header();
  if (h.version != kVersion) fail(fmt::format("is of version {}, not {}", h.version, kVersion));
  if (h.file_size() != static_cast<int64_t>(image.size()))
    fail("is not of the size that its header says");
  if (sha256({image.data() + sizeof(Header), image.size() - sizeof(Header)}) != get(h.body))
    fail("is damaged: its checksum is another");

  const char* next = image.data() + sizeof(Header);
  const auto map_array = [&next]<class T>(const T*& array, int64_t count) {
    array = reinterpret_cast<const T*>(next);
    next += static_cast<int64_t>(sizeof(T)) * count;
  };
  view_.states = h.states;
  view_.start = h.start;
  view_.columns = h.columns;
  view_.emitting_arcs = h.emitting_arcs;
  view_.arc_count = h.arcs;
  const int64_t* word_begin = nullptr;
  map_array(view_.arcs, h.arcs);
  map_array(word_begin, h.words + 1);
  map_array(view_.emitting_begin, int64_t{h.states} + 1);
  map_array(view_.nonemitting_begin, int64_t{h.states} + 1);
  map_array(view_.final_cost, h.states);
  word_begin_ = {word_begin, static_cast<size_t>(h.words + 1)};
  letters_ = next;
  check(where);
}

/// Checks everything that a search relies on.
void WfstGraph::check(const std::string& where) {
  const auto require = [&](bool sound, const char* problem) {
    if (!sound) throw UserError(where, problem, kRemedy);
  };
  const GraphView& g = view_;
  const auto ranges = [&](const int32_t* begin, int64_t first, int64_t last) {
    return begin[0] == first && begin[g.states] == last &&
           std::is_sorted(begin, begin + g.states + 1);
  };
  require(g.states > 0 && g.start >= 0 && g.start < g.states && g.columns > 1,
          "has no start state: no path leads through T, L and G");
  require(ranges(g.emitting_begin, 0, g.emitting_arcs) &&
              ranges(g.nonemitting_begin, g.emitting_arcs, g.arc_count),
          "has arcs out of bounds");
  require(word_begin_.front() == 0 && word_begin_.back() == header().letters &&
              std::is_sorted(word_begin_.begin(), word_begin_.end()),
          "has words out of bounds");
  for (int64_t i = 0; i < g.arc_count; ++i) {
    const GraphArc& a = g.arcs[i];
    require(a.next >= 0 && a.next < g.states && a.word >= 0 && a.word <= words(),
            "has an arc to a state or of a word that is not there");
    require(i < g.emitting_arcs ? a.column >= 0 && a.column < g.columns : a.column == -1,
            "has a label beyond the tokens and blank");
    require(std::isfinite(a.cost), "has a cost that is not finite");
  }
  for (int32_t s = 0; s < g.states; ++s)
    require(g.final_cost[s] > -std::numeric_limits<float>::infinity(),
            "has a final cost that is none");  // refuses NaN, too

  // This finds a topological order: states that no non-emitting arc leads to are removed again and
  // again. There is no cycle of such arcs if all states can be removed.
  std::vector<int32_t> arcs_into(static_cast<size_t>(g.states)), ready;
  std::vector<int32_t> longest(static_cast<size_t>(g.states));  // path of such arcs to a state
  for (int64_t i = g.emitting_arcs; i < g.arc_count; ++i)
    ++arcs_into[static_cast<size_t>(g.arcs[i].next)];
  for (int32_t s = 0; s < g.states; ++s)
    if (arcs_into[static_cast<size_t>(s)] == 0) ready.push_back(s);
  for (size_t n = 0; n < ready.size(); ++n) {
    const auto s = static_cast<size_t>(ready[n]);
    for (int32_t i = g.nonemitting_begin[s]; i < g.nonemitting_begin[s + 1]; ++i) {
      const auto next = static_cast<size_t>(g.arcs[i].next);
      longest[next] = std::max(longest[next], longest[s] + 1);
      if (--arcs_into[next] == 0) ready.push_back(g.arcs[i].next);
    }
  }
  require(ready.size() == static_cast<size_t>(g.states), "has a cycle of non-emitting arcs");
  view_.longest_nonemitting = *std::max_element(longest.begin(), longest.end());
}

WfstGraph WfstGraph::showing(std::vector<int32_t> shown) const {
  WfstGraph graph = *this;
  graph.shown_ = std::make_shared<const std::vector<int32_t>>(std::move(shown));
  graph.view_.shown_word = graph.shown_->data();
  return graph;
}

void WfstGraph::write(const std::filesystem::path& path) const {
  RTFX_CHECK(shown_ == nullptr, "a graph that shows other words");
  write_file(path, {image_.data(), image_.size()});
}

std::string_view WfstGraph::word(int32_t id) const {
  const auto i = static_cast<size_t>(id);
  return {letters_ + word_begin_[i - 1], static_cast<size_t>(word_begin_[i] - word_begin_[i - 1])};
}

std::string_view WfstGraph::topology() const { return get(header().topology); }
std::string_view WfstGraph::tokenizer() const { return get(header().tokenizer); }

namespace {

// Constants of fst/fst.h and fst/symbol-table.h of OpenFst.
constexpr int32_t kOpenFstMagic = 2125659606, kSymbolsMagic = 2125658996;
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
  if (in.read<int32_t>() != kOpenFstMagic) in.fail("is no file of OpenFst");
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
    // In a graph without a start, the start is -1. Such a graph has no path.
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

namespace {

/// Reads the lines of a transducer in text.
class TextReader {
 public:
  TextReader(std::string_view text, std::string where, bool k2_has_blank)
      : text_(text), where_(std::move(where)), k2_has_blank_(k2_has_blank) {}

  TransducerArcs read() {
    while (!text_.empty()) {
      const size_t end = std::min(text_.find('\n'), text_.size());
      ++line_;
      read_line(text_.substr(0, end));
      text_.remove_prefix(std::min(end + 1, text_.size()));
    }
    if (graph_.arcs.empty()) fail("has no arc");
    // Each state has an arc that leads to or from it, or is final.
    if (states_ > 2 * static_cast<int64_t>(graph_.arcs.size() + graph_.finals.size()))
      fail("has states without arcs");
    graph_.states = static_cast<int32_t>(states_);
    if (is_k2_) turn_k2();
    return std::move(graph_);
  }

 private:
  void read_line(std::string_view line) {
    const std::vector<std::string_view> fields = split_at(line, " \t\r");
    if (fields.empty()) return;
    const int32_t from = state(fields[0]);
    if (fields.size() <= 2) {
      const float cost = fields.size() == 2 ? weight(fields[1]) : 0;
      if (cost != std::numeric_limits<float>::infinity()) graph_.finals.emplace_back(from, cost);
      return;
    }
    if (fields.size() == 3 || (fields.size() == 4 && fields[3].find('.') != fields[3].npos))
      fail("is an arc without an output label: words are needed");
    if (fields.size() > 5) fail("is no arc: it has more than five columns");
    if (graph_.arcs.empty()) graph_.start = from;
    const int32_t to = state(fields[1]);
    const auto input = number<int32_t>(fields[2], "a label"),
               output = number<int32_t>(fields[3], "a label");
    if (input < -1 || output < -1 || (output < 0 && input >= 0)) fail("has a negative label");
    is_k2_ |= input == -1;
    graph_.add(from, to, input, output, fields.size() == 5 ? weight(fields[4]) : 0);
  }

  /// Turns scores into costs, labels into those of OpenFst, and arcs to the end into final costs.
  void turn_k2() {
    std::vector<TransducerArcs::Arc> arcs;
    graph_.finals.clear();  // The end stands in a line of its own.
    for (TransducerArcs::Arc arc : graph_.arcs) {
      arc.cost = -arc.cost;
      if (arc.input == -1) {
        if (arc.output > 0) fail("has a word on an arc to the end");
        graph_.finals.emplace_back(arc.from, arc.cost);
        continue;
      }
      if (arc.input == std::numeric_limits<int32_t>::max()) fail("has a label out of bounds");
      if (k2_has_blank_) ++arc.input;
      arcs.push_back(arc);
    }
    graph_.arcs = std::move(arcs);
  }

  int32_t state(std::string_view field) {
    const auto found = number<int32_t>(field, "a state");
    if (found < 0 || found == std::numeric_limits<int32_t>::max())
      fail("has a state out of bounds");
    states_ = std::max<int64_t>(states_, int64_t{found} + 1);
    return found;
  }

  float weight(std::string_view field) const { return number<float>(field, "a weight"); }

  template <class Number>
  Number number(std::string_view field, const char* name) const {
    const auto value = parse_number<Number>(field);
    if (!value) fail(fmt::format("has '{}' where {} should stand", field, name));
    return *value;
  }

  [[noreturn]] void fail(const std::string& problem) const {
    throw UserError(fmt::format("{}:{}", where_, line_), problem,
                    "give lines 'from to input output cost' of numbers, as fstprint and k2 write "
                    "them without symbol tables");
  }

  std::string_view text_;
  std::string where_;
  int64_t line_ = 0, states_ = 0;
  bool is_k2_ = false, k2_has_blank_;
  TransducerArcs graph_;
};

bool begins_as_text(std::string_view bytes) {
  const std::string_view head = bytes.substr(0, bytes.find('\n'));
  return !head.empty() && head.find_first_not_of("0123456789 \t\r-+.eEinfty") == head.npos &&
         head.find_first_of("0123456789") != head.npos;
}

}  // namespace

TransducerArcs read_openfst(const std::filesystem::path& path, bool k2_has_blank) {
  const auto file = MappedFile::open(path);
  std::string_view bytes = file->bytes();
  std::string unpacked;
  if (bytes.starts_with("\x1f\x8b")) bytes = unpacked = read_text(path);
  bytes = without_byte_order_mark(bytes, path.string());
  if (begins_as_text(bytes)) return TextReader(bytes, path.string(), k2_has_blank).read();
  return Reader({bytes, path.string()}).read();
}

}  // namespace rtfx
