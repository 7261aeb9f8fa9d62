#include "models/formats/pickle.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <unordered_map>
#include <utility>

namespace rtfx::pickle {

namespace {

constexpr size_t kMostBytes = size_t{4} << 20;
constexpr size_t kMostArguments = 8;  // arguments of a call or a reference, which are copied

struct StorageType {
  std::string_view name;
  c10::ScalarType dtype;
};
constexpr StorageType kStorageTypes[] = {
    {"torch FloatStorage", c10::kFloat},       {"torch HalfStorage", c10::kHalf},
    {"torch BFloat16Storage", c10::kBFloat16}, {"torch DoubleStorage", c10::kDouble},
    {"torch LongStorage", c10::kLong},         {"torch IntStorage", c10::kInt},
    {"torch ShortStorage", c10::kShort},       {"torch CharStorage", c10::kChar},
    {"torch ByteStorage", c10::kByte},         {"torch BoolStorage", c10::kBool},
};
constexpr std::string_view kOrderedDict = "collections OrderedDict";
constexpr std::string_view kTensor = "torch._utils _rebuild_tensor_v2";
constexpr std::string_view kParameter = "torch._utils _rebuild_parameter";
constexpr std::string_view kSize = "torch Size";

bool allowed(std::string_view global) {
  return storage_dtype(global) || global == kOrderedDict || global == kTensor ||
         global == kParameter || global == kSize;
}

class Machine {
 public:
  Machine(std::string_view pickle, const std::string& where) : bytes_(pickle), where_(where) {
    if (pickle.size() > kMostBytes)
      throw fail(fmt::format("has {} bytes, more than any list of weights", pickle.size()));
  }

  Program run() {
    while (step()) {
    }
    if (stack_.size() != 1 || !marks_.empty()) throw fail("ends in the middle");
    Program program;
    program.values = std::move(values_);
    program.names = std::move(names_);
    program.result = stack_.back();
    return program;
  }

 private:
  UserError fail(const std::string& problem) const {
    return failure(where_, fmt::format("{} (byte {})", problem, opcode_at_));
  }

  std::string_view take(size_t count) {
    if (count > bytes_.size() - at_) throw fail("is truncated");
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }

  template <class T>
  T number() {
    static_assert(std::endian::native == std::endian::little);
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

  std::string_view line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) throw fail("is truncated");
    const std::string_view text = take(end - at_);
    take(1);
    return text;
  }

  uint32_t add(Value value) {
    values_.push_back(std::move(value));
    return static_cast<uint32_t>(values_.size() - 1);
  }
  void push(Value value) { stack_.push_back(add(std::move(value))); }
  void push_text(std::string_view text) { push({Kind::text, 0, text, {}}); }
  void push_integer(int64_t value) { push({Kind::integer, value, {}, {}}); }

  uint32_t pop() {
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() <= floor) throw fail("takes from an empty stack");
    const uint32_t top = stack_.back();
    stack_.pop_back();
    return top;
  }

  /// Removes the values above the last mark and returns them in their order.
  std::vector<uint32_t> pop_to_mark() {
    if (marks_.empty()) throw fail("has no mark where one is needed");
    const auto begin = stack_.begin() + static_cast<ptrdiff_t>(marks_.back());
    marks_.pop_back();
    std::vector<uint32_t> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    return items;
  }

  void push_tuple(size_t count) {
    std::vector<uint32_t> items(count);
    for (size_t i = count; i-- > 0;) items[i] = pop();
    push({Kind::sequence, 0, {}, std::move(items)});
  }

  Value& top(Kind kind, const char* what) {
    if (!stack_.empty() && values_[stack_.back()].kind == Kind::foreign)
      return values_[stack_.back()];
    if (stack_.empty() || values_[stack_.back()].kind != kind)
      throw fail(fmt::format("puts items into something that is no {}", what));
    return values_[stack_.back()];
  }

  void extend(Kind kind, const char* what, const std::vector<uint32_t>& items) {
    Value& container = top(kind, what);
    if (kind == Kind::dictionary && items.size() % 2 != 0) throw fail("has a key without a value");
    if (container.kind == Kind::foreign) return;
    container.items.insert(container.items.end(), items.begin(), items.end());
  }

  void remember(uint32_t slot) {
    if (stack_.empty()) throw fail("takes from an empty stack");
    memo_[slot] = stack_.back();
  }

  void recall(uint32_t slot) {
    const auto found = memo_.find(slot);
    if (found == memo_.end()) throw fail("refers to a value that it never made");
    stack_.push_back(found->second);
  }

  void push_global(std::string_view module, std::string_view name) {
    names_.push_back(fmt::format("{} {}", module, name));
    const std::string& global = names_.back();
    if (global.find("_rebuild_qtensor") != std::string::npos)
      throw UserError(where_, "holds quantised tensors", "rtfx reads fp32, fp16 and bf16 weights");
    push({allowed(global) ? Kind::global : Kind::foreign, 0, global, {}});
  }

  void reduce() {
    const Value& arguments = values_[pop()];
    const Value& function = values_[pop()];
    if (function.kind == Kind::foreign && arguments.kind == Kind::sequence) {
      push({Kind::foreign, 0, function.text, {}});
      return;
    }
    if (function.kind != Kind::global || arguments.kind != Kind::sequence)
      throw fail("calls something that is no function");
    if (function.text == kOrderedDict && arguments.items.empty()) {
      push({Kind::dictionary, 0, {}, {}});
    } else if (function.text == kTensor && arguments.items.size() >= 4 &&
               arguments.items.size() <= kMostArguments) {
      push({Kind::tensor, 0, {}, arguments.items});
    } else if (function.text == kParameter && !arguments.items.empty()) {
      stack_.push_back(arguments.items.front());
    } else if (function.text == kSize && arguments.items.size() == 1) {
      stack_.push_back(arguments.items.front());
    } else {
      throw fail(
          fmt::format("calls '{}' with other arguments than torch.save() does", function.text));
    }
  }

  /// Makes a foreign object. Only settings beside the weights have objects of classes.
  void new_object() {
    pop();
    const Value& type = values_[pop()];
    if (type.kind != Kind::foreign) throw fail("makes an object of something that is no class");
    push({Kind::foreign, 0, type.text, {}});
  }

  void push_storage() {
    const Value& reference = values_[pop()];
    if (reference.kind != Kind::sequence || reference.items.size() < 5 ||
        reference.items.size() > kMostArguments)
      throw fail("refers to something that is no storage");
    push({Kind::storage, 0, {}, reference.items});
  }

  void push_long(size_t size) {
    const std::string_view digits = take(size);
    if (size > sizeof(int64_t)) throw fail("holds an integer of more than 64 bits");
    int64_t value = size > 0 && (digits.back() & 0x80) ? -1 : 0;
    std::memcpy(&value, digits.data(), size);
    push_integer(value);
  }

  /// Runs one instruction. Returns false at the end. The comments have the names of Python's
  /// pickletools.
  bool step() {
    opcode_at_ = at_;
    const auto opcode = static_cast<unsigned char>(take(1).front());
    switch (opcode) {
      case 0x80:  // PROTO
        if (const auto protocol = number<uint8_t>(); protocol < 2 || protocol > 5)
          throw fail(fmt::format("is of protocol {}", protocol));
        break;
      case 0x95:
        number<uint64_t>();
        break;  // FRAME
      case '(':
        marks_.push_back(stack_.size());
        break;  // MARK
      case 'N':
        push({});
        break;  // NONE
      case 0x88:
        push({Kind::boolean, 1, {}, {}});
        break;  // NEWTRUE
      case 0x89:
        push({Kind::boolean, 0, {}, {}});
        break;  // NEWFALSE
      case 'J':
        push_integer(number<int32_t>());
        break;  // BININT
      case 'K':
        push_integer(number<uint8_t>());
        break;  // BININT1
      case 'M':
        push_integer(number<uint16_t>());
        break;  // BININT2
      case 0x8a:
        push_long(number<uint8_t>());
        break;  // LONG1
      case 'G':
        take(8);
        push({Kind::real, 0, {}, {}});
        break;  // BINFLOAT
      case 'X':
        push_text(take(number<uint32_t>()));
        break;  // BINUNICODE
      case 0x8c:
        push_text(take(number<uint8_t>()));
        break;  // SHORT_BINUNICODE
      case ')':
        push({Kind::sequence, 0, {}, {}});
        break;  // EMPTY_TUPLE
      case ']':
        push({Kind::sequence, 0, {}, {}});
        break;  // EMPTY_LIST
      case '}':
        push({Kind::dictionary, 0, {}, {}});
        break;  // EMPTY_DICT
      case 0x85:
        push_tuple(1);
        break;  // TUPLE1
      case 0x86:
        push_tuple(2);
        break;  // TUPLE2
      case 0x87:
        push_tuple(3);
        break;  // TUPLE3
      case 't':
        push({Kind::sequence, 0, {}, pop_to_mark()});
        break;  // TUPLE
      case 'a':
        extend_one();
        break;  // APPEND
      case 'e':
        extend_above(Kind::sequence, "list");
        break;  // APPENDS
      case 's':
        set_one();
        break;  // SETITEM
      case 'u':
        extend_above(Kind::dictionary, "dictionary");
        break;  // SETITEMS
      case 'q':
        remember(number<uint8_t>());
        break;  // BINPUT
      case 'r':
        remember(number<uint32_t>());
        break;  // LONG_BINPUT
      case 0x94:
        remember(static_cast<uint32_t>(memo_.size()));
        break;  // MEMOIZE
      case 'h':
        recall(number<uint8_t>());
        break;  // BINGET
      case 'j':
        recall(number<uint32_t>());
        break;     // LONG_BINGET
      case 'c': {  // GLOBAL
        const std::string_view module = line();
        push_global(module, line());
        break;
      }
      case 0x93: {  // STACK_GLOBAL
        const Value &name = values_[pop()], &module = values_[pop()];
        push_global(module.text, name.text);
        break;
      }
      case 'R':
        reduce();
        break;  // REDUCE
      case 0x81:
        new_object();
        break;  // NEWOBJ
      case 'Q':
        push_storage();
        break;   // BINPERSID
      case 'b':  // BUILD sets attributes of the dictionary (_metadata)
        pop();
        top(Kind::dictionary, "dictionary");
        break;
      case '.':
        return false;  // STOP
      default:
        throw fail(fmt::format("has opcode {:#04x}, which is not allowed", opcode));
    }
    return true;
  }

  void extend_one() {
    const uint32_t item = pop();
    extend(Kind::sequence, "list", {item});
  }
  void set_one() {
    const uint32_t value = pop();
    const uint32_t key = pop();
    extend(Kind::dictionary, "dictionary", {key, value});
  }
  void extend_above(Kind kind, const char* what) {
    const std::vector<uint32_t> items = pop_to_mark();
    extend(kind, what, items);
  }

  std::string_view bytes_;
  std::string where_;
  size_t at_ = 0, opcode_at_ = 0;
  std::deque<Value> values_;
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint32_t, uint32_t> memo_;
  std::deque<std::string> names_;
};

}  // namespace

std::optional<c10::ScalarType> storage_dtype(std::string_view global) {
  for (const StorageType& type : kStorageTypes)
    if (type.name == global) return type.dtype;
  return std::nullopt;
}

UserError failure(const std::string& where, const std::string& problem) {
  return {where, fmt::format("not PyTorch weights: the pickle {}", problem),
          "the checkpoint is damaged, or was not written by torch.save(state_dict)"};
}

Program run(std::string_view bytes, const std::string& where) {
  return Machine(bytes, where).run();
}

}  // namespace rtfx::pickle
