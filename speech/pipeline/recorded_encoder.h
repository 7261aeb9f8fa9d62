// The encoder of a pipeline, recorded as CUDA graphs. encoder_memory.h checks whether its work fits
// into memory.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "models/acoustic_model.h"

namespace rtfx {

// The encoder as CUDA graphs, which launch the hundreds of small kernels of a batch at once.

/// Records `step` as a CUDA graph on the current device. Returns a function that enqueues the graph
/// on LibTorch's current stream. record_step() is a StepRecorder
/// (models/streaming/encoder_streams.h). Waits for the device.
std::function<void()> record_step(const std::function<void()>& step);

/// The sizes with which a batch is computed.
struct EncoderSize {
  int64_t utterances = 0, mel_frames = 0;
  int64_t rows = 0;  // Features::packed_rows

  auto operator<=>(const EncoderSize&) const = default;
};

/// Rounds sizes up, so that few sizes serve all batches. For the fused encoder, utterances and mel
/// frames grow by at most an eighth. Packed rows, which it computes, grow by at most a 32nd, but
/// few rows by up to 127. The encoder by operators computes all padding. There, mel frames grow by
/// at most a 16th, and utterances do not grow. Few mel frames may grow by up to 63 in both cases.
EncoderSize rounded_up(const EncoderSize& size, bool fused);

/// Returns the rounded size of a batch, with the number of rows that it needs.
EncoderSize rounded_size(const AcousticModel& model, const Features& features);

/// Pads the features to that size. Silence follows each utterance, and utterances without frames
/// follow the last one. The encoder's frames do not depend on this, up to the rounding of products
/// of another shape (Encoder).
Features padded_features(const Features& features, const EncoderSize& size);

/// Keeps the values of the `capacity` keys that were used last.
template <class Key, class Value>
class LruCache {
 public:
  explicit LruCache(size_t capacity) : capacity_(capacity) {}

  /// Returns the key's value, or null where there is none. The order does not change.
  Value* find(const Key& key) {
    const auto found = places_.find(key);
    return found == places_.end() ? nullptr : &found->second->second;
  }

  /// Returns the key's value, and adds one where there is none. `before_removal` is called before
  /// the least recently used value is destroyed to make room.
  template <class Call>
  Value& operator()(const Key& key, const Call& before_removal) {
    if (const auto found = places_.find(key); found != places_.end()) {
      order_.splice(order_.begin(), order_, found->second);
      return order_.front().second;
    }
    if (order_.size() == capacity_) {
      before_removal(order_.back().second);
      places_.erase(order_.back().first);
      order_.pop_back();
    }
    order_.emplace_front(key, Value());
    places_[key] = order_.begin();
    return order_.front().second;
  }

  size_t size() const { return order_.size(); }
  void clear() {
    places_.clear();
    order_.clear();
  }

 private:
  size_t capacity_;
  std::list<std::pair<Key, Value>> order_;  // the one that was used last comes first
  std::map<Key, typename std::list<std::pair<Key, Value>>::iterator> places_;
};

/// Runs a model's encoder. On a GPU with `graphs`, batches have rounded sizes. The first two
/// batches of a size are launched kernel by kernel. The second one then records a CUDA graph, for
/// which it waits for the device, and later ones launch the graph. A size that comes once therefore
/// takes no time for a recording. Equal sizes give equal bits, launched or recorded. The kMostSizes
/// sizes that were used last are kept. The graphs share the memory of their input and of their
/// intermediate results.
class RecordedEncoder {
 public:
  static constexpr size_t kMostSizes = 128;

  /// Counts the batches that were computed in each way.
  struct Counts {
    int64_t launched = 0;  // kernel by kernel
    int64_t recorded = 0;  // these were launched kernel by kernel, too
    int64_t replayed = 0;  // as graphs that earlier batches recorded

    Counts operator-(const Counts& before) const {
      return {launched - before.launched, recorded - before.recorded, replayed - before.replayed};
    }
  };

  /// With `at_once`, the first batch of a size records its graph. After one warm-up round, measured
  /// rounds of the same batches then record nothing.
  RecordedEncoder(std::shared_ptr<const AcousticModel> model, bool graphs, bool at_once = false);
  ~RecordedEncoder();

  /// Computes what Encoder does (models/encoder/encoder.h). The results are equal up to the
  /// rounding of differently shaped products. The caller owns the result. Waits only to record.
  Encoded operator()(const Features& given);

  const Counts& counts() const { return counts_; }

  /// Returns whether graphs are recorded and replayed. Otherwise batches are launched kernel by
  /// kernel in the same sizes, so that tests can check the graphs.
  bool uses_graphs() const { return graphs_; }
  void use_graphs(bool use) { graphs_ = use && can_record_; }

  /// Forgets all sizes. The state is then that of a new object. Waits for the device.
  void forget();

 private:
  struct Recording;
  struct Size {
    bool seen = false;
    std::shared_ptr<Recording> recording;
  };
  std::shared_ptr<Recording> record(const Features& features);
  /// Returns memory for the input of a graph, [utterances, mel bins, frames].
  at::Tensor input(at::IntArrayRef shape, const at::TensorOptions& options);

  std::shared_ptr<const AcousticModel> model_;
  bool can_record_;  // with `graphs`, on a GPU
  bool graphs_, at_once_;
  bool room_ = true;  // whether another graph is expected to fit into memory
  LruCache<EncoderSize, Size> sizes_{kMostSizes};
  at::Tensor input_;                        // input of all graphs, one after the other
  std::weak_ptr<Recording> last_recorded_;  // the next recording shares its memory
  Counts counts_;
};

/// Lets an encoder use its graphs or not, as long as this object lives.
class ScopedGraphs {
 public:
  ScopedGraphs(RecordedEncoder& encoder, bool use)
      : encoder_(encoder), before_(encoder.uses_graphs()) {
    encoder_.use_graphs(use);
  }
  ~ScopedGraphs() { encoder_.use_graphs(before_); }
  ScopedGraphs(const ScopedGraphs&) = delete;
  ScopedGraphs& operator=(const ScopedGraphs&) = delete;

 private:
  RecordedEncoder& encoder_;
  bool before_;
};

}  // namespace rtfx
