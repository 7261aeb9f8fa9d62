// A container of open streams by their numbers, which searches of streams share.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"

namespace rtfx {

/// Holds open streams by their numbers. `Stream` is the state of one.
template <class Stream>
class OpenStreams {
 public:
  int64_t add(Stream stream) {
    streams_.emplace(next_, std::move(stream));
    return next_++;
  }
  /// The address stays as long as the stream is open.
  Stream& at(int64_t number) { return *found(streams_, number); }
  const Stream& at(int64_t number) const { return *found(streams_, number); }
  /// Returns the streams of a call, in its order. Throws UserError for a stream that is not open,
  /// or that is named twice.
  std::vector<Stream*> find_all(std::span<const int64_t> numbers) {
    std::vector<Stream*> streams;
    std::set<int64_t> seen;
    for (const int64_t number : numbers) {
      if (!seen.insert(number).second) {
        throw UserError(fmt::format("stream {}", number), "has two pieces in one call",
                        "put them together, or use two calls");
      }
      streams.push_back(&at(number));
    }
    return streams;
  }
  Stream remove(int64_t number) {
    Stream stream = std::move(at(number));
    streams_.erase(number);
    return stream;
  }

 private:
  template <class Streams>
  static auto found(Streams& streams, int64_t number) {
    const auto it = streams.find(number);
    if (it == streams.end()) {
      throw UserError(fmt::format("stream {}", number), "is not open",
                      "use a number that open() gave, until finish() or close()");
    }
    return &it->second;
  }

  std::map<int64_t, Stream> streams_;
  int64_t next_ = 1;
};

}  // namespace rtfx
