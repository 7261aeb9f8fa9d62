// The loops of a search, apart from who drives them: the host, the host with recorded graphs, or a
// CUDA graph with while nodes. A decoder is written once, as segments of tensor work and loops over
// them:
//
//   loops.segment(RangeName::decode_init, [&] { first(); });
//   loops.while_any(active, [&] { loops.segment(RangeName::decode_step, [&] { step(); }); });
//
// All tensor work belongs in a segment. Segments change tensors in place: for a graph they run only
// once, to be recorded, and a loop's flags are read again and again at the same address.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "algorithms/gpu/host_read.h"
#include "base/nvtx.h"

namespace rtfx {

class Loops {
 public:
  virtual ~Loops() = default;
  /// Tensor work without a loop in it: what the host launches as one graph when graphs are
  /// replayed. A profiler sees it as a range `name`.
  virtual void segment(RangeName name, const std::function<void()>& work) = 0;
  /// `body` as long as any of `flags` (bool, at least one element) is set; tested before each
  /// round.
  virtual void while_any(const at::Tensor& flags, const std::function<void()>& body) = 0;
};

/// The host runs everything and reads the flags back: one host read per test.
class HostLoops : public Loops {
 public:
  explicit HostLoops(HostReads& reads) : reads_(reads) {}
  void segment(RangeName name, const std::function<void()>& work) override {
    const ScopedRange range(name, segments_++);
    work();
  }
  void while_any(const at::Tensor& flags, const std::function<void()>& body) override {
    while (reads_.any(flags)) body();
  }

 private:
  HostReads& reads_;
  int64_t segments_ = 0;
};

}  // namespace rtfx
