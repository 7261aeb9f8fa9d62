#include "algorithms/shared/ngram_lm/load_ngram_lm.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <numbers>
#include <vector>

#include "algorithms/shared/ngram_lm/arpa.h"
#include "base/error.h"
#include "base/files.h"
#include "base/numbers.h"
#include "base/sha256.h"
#include "base/terminal.h"
#include "base/utf8.h"
#include "models/checkpoint/tensor_data.h"

namespace rtfx {

namespace {

/// The bound of ARPA files in natural logarithms, with room for rounding.
constexpr float kMostBackoff = 3 * ArpaReader::kMostBackoff;

class Check {
 public:
  Check(const NgramArrays& arrays, int64_t vocabulary, int64_t order)
      : arcs_(arrays.arc_to.size(0)),
        states_(arrays.backoff_to.size(0)),
        vocabulary_(vocabulary),
        order_(order),
        arc_to_(data_of<int32_t>(arrays.arc_to)),
        arc_label_(data_of<int32_t>(arrays.arc_label)),
        arc_weight_(data_of<float>(arrays.arc_weight)),
        state_arcs_(data_of<int32_t>(arrays.state_arcs)),
        backoff_to_(data_of<int32_t>(arrays.backoff_to)),
        backoff_weight_(data_of<float>(arrays.backoff_weight)),
        final_weight_(data_of<float>(arrays.final_weight)),
        context_(data_of<int32_t>(arrays.context)) {}

  std::string problem() const {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    if (order_ < 2 || order_ > NgramLm::kMaxOrder)
      return fmt::format("is of order {}; 2 to {} are supported", order_, NgramLm::kMaxOrder);
    if (states_ < 2 || arcs_ < vocabulary_ || states_ > kMost || arcs_ > kMost)
      return fmt::format("has {} states and {} arcs for {} tokens", states_, arcs_, vocabulary_);
    int64_t arc = 0;  // the first arc that belongs to none of the states so far
    for (int64_t state = 0; state < states_; ++state) {
      const char* const problem = problem_of(state, arc);
      if (problem != nullptr) return fmt::format("state {} {}", state, problem);
    }
    return arc == arcs_ ? "" : fmt::format("arc {} belongs to no state", arc);
  }

 private:
  const char* problem_of(int64_t state, int64_t& arc) const {
    const int32_t context = context_[state], shorter = backoff_to_[state];
    if (state < 2 ? context != state : context < 1 || context >= order_)
      return "has a context of an impossible length";
    // Each back-off shortens the context, so that a search reaches state 0 after `order` of them.
    if (shorter < 0 || shorter >= states_ ||
        (state == 0 ? shorter != 0 : context_[shorter] != context - 1))
      return "backs off to a context that is not one token shorter";
    if (!(std::abs(backoff_weight_[state]) <= kMostBackoff) ||
        (state == 0 && backoff_weight_[0] != 0))
      return "has a back-off weight that is none";
    if (!is_logarithm(final_weight_[state])) return "has a weight for its end that is none";

    const int64_t begin = state_arcs_[2 * state], end = state_arcs_[2 * state + 1];
    const int64_t count = end - begin;
    if (state == 0 && count != vocabulary_) return "has not one arc for each token";
    if (begin < 0 || count < 0 || end > arcs_ || (count > 0 && begin != arc))
      return "has arcs out of bounds or of another state";
    for (int64_t i = begin; i < end; ++i) {
      const int32_t before = i == begin ? -1 : arc_label_[i - 1];
      if (arc_label_[i] <= before || arc_label_[i] >= vocabulary_)
        return "has arcs whose tokens are not in order";
      if (arc_to_[i] < 0 || arc_to_[i] >= states_) return "has an arc to a state that is not there";
      if (!is_logarithm(arc_weight_[i])) return "has an arc whose weight is none";
    }
    arc += count;
    return nullptr;
  }

  /// Accepts the logarithm of 0, and of sums that rounding lifts above 1.
  static bool is_logarithm(float weight) {
    return weight < std::numeric_limits<float>::infinity();  // refuses NaN, too
  }

  int64_t arcs_, states_, vocabulary_, order_;
  const int32_t *arc_to_, *arc_label_;
  const float* arc_weight_;
  const int32_t *state_arcs_, *backoff_to_;
  const float *backoff_weight_, *final_weight_;
  const int32_t* context_;
};

/// Returns the first promise of NgramArrays that these arrays break, such as "state 7 backs off to
/// a context that is not one token shorter", or "" if they keep all. Searches follow the indices of
/// the arrays unchecked. The arrays are on the CPU and have the right sizes and types.
std::string unsoundness(const NgramArrays& arrays, int64_t vocabulary, int64_t order) {
  return Check(arrays, vocabulary, order).problem();
}

constexpr std::array<char, 8> kMagic = {'n', 'g', 'p', 'u', 'l', 'm', '\r', '\n'};
constexpr int32_t kVersion = 1;
constexpr const char* kRemedy =
    R"(name the ARPA file instead, with "cache": true to make the copy again)";
static_assert(std::endian::native == std::endian::little);

using HexDigest = std::array<char, 64>;

struct Header {
  std::array<char, 8> magic = kMagic;
  int32_t version = kVersion;
  int32_t order = 0;
  int64_t vocabulary = 0, arcs = 0, states = 0;
  HexDigest source{}, arrays{};

  int64_t words() const { return 3 * arcs + 6 * states; }  // 4 bytes each
};

HexDigest digest(const std::string& hex) {
  HexDigest digits{};
  std::copy_n(hex.begin(), std::min(hex.size(), digits.size()), digits.begin());
  return digits;
}

std::string_view bytes_of(const at::Tensor& words) {
  return {static_cast<const char*>(words.const_data_ptr()), words.nbytes()};
}

/// Puts all arrays one after the other, as int32.
at::Tensor pack(const NgramArrays& a) {
  const auto ints = [](const at::Tensor& t) { return t.view(at::kInt).reshape(-1); };
  return at::cat({ints(a.arc_to), ints(a.arc_label), ints(a.arc_weight), ints(a.state_arcs),
                  ints(a.backoff_to), ints(a.backoff_weight), ints(a.final_weight),
                  ints(a.context)});
}

NgramArrays unpack(const at::Tensor& words, int64_t arcs, int64_t states) {
  int64_t begin = 0;
  const auto next = [&](int64_t size, at::ScalarType dtype) {
    begin += size;
    return words.narrow(0, begin - size, size).view(dtype);
  };
  NgramArrays a;
  a.arc_to = next(arcs, at::kInt);
  a.arc_label = next(arcs, at::kInt);
  a.arc_weight = next(arcs, at::kFloat);
  a.state_arcs = next(2 * states, at::kInt).view({states, 2});
  a.backoff_to = next(states, at::kInt);
  a.backoff_weight = next(states, at::kFloat);
  a.final_weight = next(states, at::kFloat);
  a.context = next(states, at::kInt);
  return a;
}

}  // namespace

std::filesystem::path binary_copy_of(const std::filesystem::path& arpa) {
  return arpa.string() + ".ngpulm";
}

bool is_binary_lm(const std::filesystem::path& path) {
  std::array<char, 8> head{};
  std::ifstream in(path, std::ios::binary);
  return in.read(head.data(), head.size()) && head == kMagic;
}

NgramLm read_binary_lm(const std::filesystem::path& path, int64_t vocabulary,
                       const std::string& source_sha256, int64_t memory_limit) {
  const bool is_copy = !source_sha256.empty();
  const auto fail = [&](const std::string& problem, const std::string& remedy = kRemedy) {
    throw UserError(path.string(), problem, is_copy ? "" : remedy);
  };
  const auto file = MappedFile::open(path);
  const std::string_view bytes = file->bytes();
  Header header;
  std::memcpy(&header, bytes.data(), std::min(bytes.size(), sizeof(header)));
  if (bytes.size() < sizeof(header) || header.magic != kMagic) fail("is no binary language model");
  if (header.version != kVersion) fail(fmt::format("is of version {}", header.version));
  if (is_copy && header.source != digest(source_sha256)) fail("was made from another file");
  if (header.vocabulary != vocabulary) {
    fail(fmt::format("was made for {} tokens, the acoustic model has {}", header.vocabulary,
                     vocabulary),
         "use a language model made with this model's tokenizer");
  }
  const auto size = static_cast<int64_t>(bytes.size());
  const int64_t largest = size / 4;  // keeps words() from overflowing
  if (header.arcs <= 0 || header.states <= 0 || header.arcs > largest || header.states > largest ||
      size != static_cast<int64_t>(sizeof(header)) + 4 * header.words()) {
    fail("is not of the size that its header says");
  }
  check_lm_size(path.string(), header.arcs, header.states, memory_limit);
  const at::Tensor words = at::empty({header.words()}, at::kInt);
  std::memcpy(words.mutable_data_ptr(), bytes.data() + sizeof(header), words.nbytes());
  if (digest(sha256(bytes_of(words))) != header.arrays) fail("is damaged");
  NgramArrays arrays = unpack(words, header.arcs, header.states);
  const std::string problem = unsoundness(arrays, vocabulary, header.order);
  if (!problem.empty()) fail(problem);
  return {std::move(arrays), vocabulary, header.order};
}

void write_binary_lm(const NgramLm& lm, const std::filesystem::path& path,
                     const std::string& source_sha256) {
  const at::Tensor words = pack(lm.arrays());
  Header header;
  header.order = static_cast<int32_t>(lm.order());
  header.vocabulary = lm.vocabulary();
  header.arcs = lm.arrays().arc_to.size(0);
  header.states = lm.arrays().backoff_to.size(0);
  header.source = digest(source_sha256);
  header.arrays = digest(sha256(bytes_of(words)));
  const std::string_view head(reinterpret_cast<const char*>(&header), sizeof(header));
  write_file(path, std::array{head, bytes_of(words)});
}

namespace {

/// The words of a file as token ids. A file writes token id i in one of two forms throughout: the
/// decimal number i, or the character with code point i + 100 in UTF-8.
class LmTokens {
 public:
  static constexpr int32_t kStart = -1;    // <s>
  static constexpr int32_t kEnd = -2;      // </s>
  static constexpr int32_t kUnknown = -3;  // <unk>
  static constexpr int32_t kNone = -4;     // no such word

  explicit LmTokens(int64_t vocabulary) : added_(static_cast<size_t>(vocabulary)) {}

  /// Returns the id of a word of the 1-grams, or one of the constants other than kNone. Throws
  /// UserError(where) for a word that is neither, that has another form than the words before it,
  /// or that occurs twice.
  int32_t add(std::string_view word, const std::string& where);

  /// Returns the id of a word of longer n-grams, kNone if it was not added.
  int32_t find(std::string_view word) const;

 private:
  enum class Form { undecided, number, character };
  int64_t vocabulary() const { return static_cast<int64_t>(added_.size()); }

  std::vector<char> added_;               // by id
  std::array<char, 3> added_specials_{};  // kStart, kEnd, kUnknown
  Form form_ = Form::undecided;
};

constexpr int32_t kFirstCharacter = 100;

/// Returns the code point of `word` if it is one UTF-8 character, else a negative number.
int32_t single_code_point(std::string_view word) {
  size_t at = 0;
  const int32_t code = next_code_point(word, at);
  return at == word.size() ? code : -1;
}

bool is_number(std::string_view word) { return word.front() >= '0' && word.front() <= '9'; }

/// Returns an id, which may be beyond the vocabulary, or one of the constants.
int32_t parse(std::string_view word) {
  if (word == "<s>") return LmTokens::kStart;
  if (word == "</s>") return LmTokens::kEnd;
  if (word == "<unk>" || word == "<UNK>") return LmTokens::kUnknown;
  if (is_number(word)) return parse_number<int32_t>(word).value_or(LmTokens::kNone);
  const int32_t code = single_code_point(word);
  return code >= kFirstCharacter ? code - kFirstCharacter : LmTokens::kNone;
}

int32_t LmTokens::add(std::string_view word, const std::string& where) {
  const int32_t id = parse(word);
  if (id == kNone) {
    throw UserError(where, fmt::format("'{}' is no token", word),
                    "the model must be trained on token ids: decimal numbers, or single characters "
                    "with code point id + 100");
  }
  if (id >= vocabulary()) {
    throw UserError(where,
                    fmt::format("'{}' is token {}, but the acoustic model has {} tokens", word, id,
                                vocabulary()),
                    "use a language model made with this model's tokenizer");
  }
  if (id >= 0) {
    const Form form = is_number(word) ? Form::number : Form::character;
    if (form_ != Form::undecided && form != form_) {
      throw UserError(where,
                      fmt::format("'{}' is a {}, the tokens before it are not", word,
                                  form == Form::number ? "number" : "character"),
                      "write all tokens in one form");
    }
    form_ = form;
  }
  char& added =
      id >= 0 ? added_[static_cast<size_t>(id)] : added_specials_[static_cast<size_t>(kStart - id)];
  if (added)
    throw UserError(where, fmt::format("'{}' is there twice", word), "make the file again");
  added = true;
  return id;
}

int32_t LmTokens::find(std::string_view word) const {
  const int32_t id = parse(word);
  const bool added = id < 0 || (id < vocabulary() && added_[static_cast<size_t>(id)]);
  return added ? id : kNone;
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kUnset = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kMaxArcs = std::numeric_limits<int32_t>::max();
constexpr int32_t kRoot = 0, kStartState = 1;

float natural(float log10) { return static_cast<float>(log10 * std::numbers::ln10); }

template <class T>
at::Tensor to_tensor(std::vector<T> values, at::ScalarType dtype) {
  const auto owner = std::make_shared<std::vector<T>>(std::move(values));
  return at::from_blob(
      owner->data(), {static_cast<int64_t>(owner->size())}, [owner](void*) {}, dtype);
}

/// Builds the arrays order by order. While it reads the n-grams of one order, the arrays hold all
/// shorter ones, so that it can follow the context of an n-gram from the root along arcs.
class Builder {
 public:
  Builder(const std::filesystem::path& path, int64_t vocabulary, int64_t memory_limit)
      : reader_(path), tokens_(vocabulary), vocabulary_(vocabulary) {
    check_size(path.string(), memory_limit);
    read_unigrams();
    for (int64_t n = 2; n <= reader_.order(); ++n) read_ngrams(n);
    reader_.read_end();
    resolve_final_weights();
  }

  NgramLm result() {
    at::Tensor ranges = to_tensor(std::move(state_arcs_), at::kInt).view({-1, 2});
    return {NgramArrays{to_tensor(std::move(arc_to_), at::kInt),
                        to_tensor(std::move(arc_label_), at::kInt),
                        to_tensor(std::move(arc_weight_), at::kFloat), std::move(ranges),
                        to_tensor(std::move(backoff_to_), at::kInt),
                        to_tensor(std::move(backoff_weight_), at::kFloat),
                        to_tensor(std::move(final_weight_), at::kFloat),
                        to_tensor(std::move(context_), at::kInt)},
            vocabulary_, reader_.order()};
  }

 private:
  /// An n-gram that does not end in </s>: it becomes an arc.
  struct Arc {
    int32_t from, label;
    float weight, backoff;
    int64_t line;
    auto key() const { return std::pair(from, label); }
  };

  /// Checks the sizes that \data\ announces, before any n-gram is read.
  void check_size(const std::string& where, int64_t memory_limit) const {
    const std::vector<int64_t>& counts = reader_.counts();
    if (reader_.order() < 2 || reader_.order() > NgramLm::kMaxOrder) {
      throw UserError(where, fmt::format("is a {}-gram model", reader_.order()),
                      fmt::format("orders 2 to {} are supported", NgramLm::kMaxOrder));
    }
    int64_t arcs = vocabulary_, states = 2;
    for (size_t n = 0; n < counts.size(); ++n) {
      if (counts[n] > kMaxArcs - arcs) {
        throw UserError(where, fmt::format("has {} n-grams", fmt::join(counts, " + ")),
                        fmt::format("at most {} are supported: prune the model", kMaxArcs));
      }
      if (n > 0) arcs += counts[n];
      if (n + 1 < counts.size()) states += counts[n];
    }
    check_lm_size(where, arcs, states, memory_limit);
  }

  int32_t add_state(int32_t backoff_to, float backoff_weight, int64_t context) {
    state_arcs_.insert(state_arcs_.end(), {0, 0});
    backoff_to_.push_back(backoff_to);
    backoff_weight_.push_back(backoff_weight);
    final_weight_.push_back(kUnset);
    context_.push_back(static_cast<int32_t>(context));
    return static_cast<int32_t>(backoff_to_.size()) - 1;
  }

  void add_arc(int32_t label, float weight, int32_t to) {
    arc_label_.push_back(label);
    arc_weight_.push_back(weight);
    arc_to_.push_back(to);
  }

  void read_unigrams() {
    add_state(kRoot, 0, 0);
    add_state(kRoot, 0, 1);
    std::vector<std::pair<float, float>> known(static_cast<size_t>(vocabulary_), {kUnset, 0});
    float unknown = -kInfinity;
    int64_t with_backoff = 0;  // the line where <unk> has a back-off weight
    reader_.read_section(1, [&](const ArpaEntry& entry) {
      const float weight = natural(entry.log10_probability), backoff = natural(entry.log10_backoff);
      const int32_t id = tokens_.add(entry.words[0], reader_.where());
      if (id == LmTokens::kStart) {
        backoff_weight_[kStartState] = backoff;
      } else if (id == LmTokens::kEnd) {
        final_weight_[kRoot] = weight;
      } else if (id == LmTokens::kUnknown) {
        if (backoff != 0) with_backoff = reader_.line_number();
        unknown = weight;
      } else {
        known[static_cast<size_t>(id)] = {weight, backoff};
      }
    });
    state_arcs_[1] = static_cast<int32_t>(vocabulary_);
    for (int32_t id = 0; id < vocabulary_; ++id) {
      const auto [weight, backoff] = known[static_cast<size_t>(id)];
      if (std::isnan(weight)) {
        add_arc(id, unknown, kRoot);
        ++unknown_tokens_;
      } else {
        add_arc(id, weight, add_state(kRoot, backoff, 1));
      }
    }
    if (with_backoff > 0) require_no_unknown_tokens(with_backoff, "gives <unk> a back-off weight");
  }

  void read_ngrams(int64_t n) {
    std::vector<Arc> arcs;
    reader_.read_section(n, [&](const ArpaEntry& entry) {
      const float weight = natural(entry.log10_probability);
      const std::array<int32_t, NgramLm::kMaxOrder> ids = read_tokens(entry);
      if (std::ranges::find(ids, LmTokens::kUnknown) != ids.end()) {
        require_no_unknown_tokens(reader_.line_number(), "uses <unk> in longer n-grams");
        return;
      }
      const int32_t from = find_context(entry, ids), label = ids[static_cast<size_t>(n - 1)];
      if (label != LmTokens::kEnd) {
        arcs.push_back({from, label, weight, natural(entry.log10_backoff), reader_.line_number()});
        return;
      }
      float& final_weight = final_weight_[static_cast<size_t>(from)];
      if (!std::isnan(final_weight)) refuse_repeated(reader_.line_number());
      final_weight = weight;
    });
    std::sort(arcs.begin(), arcs.end(),
              [](const Arc& a, const Arc& b) { return a.key() < b.key(); });
    for (size_t i = 0; i < arcs.size(); ++i) {
      const Arc& arc = arcs[i];
      if (i > 0 && arcs[i - 1].key() == arc.key())
        refuse_repeated(std::max(arcs[i - 1].line, arc.line));
      add_ngram(arc, n);
    }
  }

  std::array<int32_t, NgramLm::kMaxOrder> read_tokens(const ArpaEntry& entry) const {
    std::array<int32_t, NgramLm::kMaxOrder> ids{};
    for (size_t i = 0; i < entry.words.size(); ++i) {
      ids[i] = tokens_.find(entry.words[i]);
      if (ids[i] >= 0 || ids[i] == LmTokens::kUnknown) continue;
      if (ids[i] == LmTokens::kNone) {
        throw UserError(reader_.where(),
                        fmt::format("token '{}' is not among the 1-grams", entry.words[i]),
                        "make the file again");
      }
      const bool in_place = ids[i] == LmTokens::kStart ? i == 0 : i + 1 == entry.words.size();
      if (!in_place) {
        throw UserError(reader_.where(), fmt::format("'{}' inside an n-gram", entry.words[i]),
                        "<s> can only be its first token, </s> its last");
      }
    }
    return ids;
  }

  /// Returns the state of all tokens but the last.
  int32_t find_context(const ArpaEntry& entry,
                       const std::array<int32_t, NgramLm::kMaxOrder>& ids) const {
    int32_t state = ids[0] == LmTokens::kStart ? kStartState : arc_to_[static_cast<size_t>(ids[0])];
    for (size_t i = 1; i + 1 < entry.words.size(); ++i) {
      const int32_t next = follow(state, ids[i]);
      if (next < 0) {
        throw UserError(reader_.where(),
                        fmt::format("its beginning '{}' is no n-gram of the model",
                                    fmt::join(entry.words.first(entry.words.size() - 1), " ")),
                        "make the file again, without pruning single n-grams");
      }
      state = next;
    }
    return state;
  }

  /// Returns the state behind the arc of `state` with `label`, -1 if there is no such arc.
  int32_t follow(int32_t state, int32_t label) const {
    const size_t index = 2 * static_cast<size_t>(state);
    const auto begin = arc_label_.begin() + state_arcs_[index],
               end = arc_label_.begin() + state_arcs_[index + 1];
    const auto found = std::lower_bound(begin, end, label);
    return found == end || *found != label
               ? -1
               : arc_to_[static_cast<size_t>(found - arc_label_.begin())];
  }

  /// Adds an arc. Callers give arcs sorted by state and label.
  void add_ngram(const Arc& arc, int64_t n) {
    const auto from = static_cast<size_t>(arc.from);
    const int32_t suffix = follow(backoff_to_[from], arc.label);
    if (suffix < 0) {
      throw UserError(reader_.where(arc.line),
                      "the n-gram without its first token is no n-gram of the model",
                      "make the file again, without pruning single n-grams");
    }
    const auto index = static_cast<int32_t>(arc_to_.size());
    if (state_arcs_[2 * from + 1] == 0) state_arcs_[2 * from] = index;
    state_arcs_[2 * from + 1] = index + 1;
    const bool longest = n == reader_.order();
    add_arc(arc.label, arc.weight, longest ? suffix : add_state(suffix, arc.backoff, n));
  }

  /// Applies back-off to the weights of </s>, shorter contexts first.
  void resolve_final_weights() {
    if (std::isnan(final_weight_[kRoot])) final_weight_[kRoot] = -kInfinity;
    for (size_t s = 1; s < final_weight_.size(); ++s) {
      if (std::isnan(final_weight_[s])) {
        final_weight_[s] = backoff_weight_[s] + final_weight_[static_cast<size_t>(backoff_to_[s])];
      }
    }
  }

  /// Refuses a `use` of <unk> beyond its probability if a token of the acoustic model is unknown.
  /// If the 1-grams list all tokens, such a use changes no score, since no text has an unknown
  /// token.
  void require_no_unknown_tokens(int64_t line, const char* use) const {
    if (unknown_tokens_ == 0) return;
    throw UserError(reader_.where(line),
                    fmt::format("{}, and {} of {} tokens are not among the 1-grams", use,
                                unknown_tokens_, vocabulary_),
                    "list all tokens as 1-grams, or train without <unk> in longer n-grams");
  }
  [[noreturn]] void refuse_repeated(int64_t line) const {
    throw UserError(reader_.where(line), "the n-gram is there twice", "make the file again");
  }

  ArpaReader reader_;
  LmTokens tokens_;
  int64_t vocabulary_;
  int64_t unknown_tokens_ = 0;  // tokens of the vocabulary that the 1-grams lack
  std::vector<int32_t> arc_to_, arc_label_, state_arcs_, backoff_to_, context_;
  std::vector<float> arc_weight_, backoff_weight_, final_weight_;
};

NgramLm build_from_arpa(const std::filesystem::path& path, int64_t vocabulary,
                        int64_t memory_limit) {
  return Builder(path, vocabulary, memory_limit).result();
}

void notice(const std::string& text) { print_message("rtfx: notice: {}\n", text); }

NgramLm read_through_cache(const std::filesystem::path& path, int64_t vocabulary,
                           int64_t memory_limit) {
  const std::filesystem::path copy = binary_copy_of(path);
  const std::string checksum = sha256_file(path);
  std::string unusable;
  std::error_code error;
  if (std::filesystem::exists(copy, error)) {
    try {
      return read_binary_lm(copy, vocabulary, checksum, memory_limit);
    } catch (const UserError& e) {
      unusable = e.what();
    }
  }
  // The ARPA file is read before the notice: if it has a fault, the copy stays untouched.
  NgramLm lm = build_from_arpa(path, vocabulary, memory_limit);
  if (!unusable.empty())
    notice(fmt::format("the copy of {} is made again: {}", path.string(), unusable));
  try {
    write_binary_lm(lm, copy, checksum);
  } catch (const UserError& e) {
    notice(e.what());
  }
  return lm;
}

}  // namespace

NgramLm load_ngram_lm(const std::filesystem::path& path, int64_t vocabulary,
                      const LoadLmOptions& options) {
  require_rereadable(path);
  const int64_t limit = options.memory_limit;
  NgramLm lm = is_binary_lm(path) ? read_binary_lm(path, vocabulary, "", limit)
               : options.cache    ? read_through_cache(path, vocabulary, limit)
                                  : build_from_arpa(path, vocabulary, limit);
  const int64_t unknown = lm.unknown_tokens();
  if (options.normalize_unk && unknown > 1) {
    const at::Tensor weights = lm.arrays().arc_weight.narrow(0, 0, vocabulary);
    const at::Tensor is_unknown = lm.arrays().arc_to.narrow(0, 0, vocabulary) == 0;
    weights.sub_(is_unknown * static_cast<float>(std::log(static_cast<double>(unknown))));
  }
  return lm;
}

}  // namespace rtfx
