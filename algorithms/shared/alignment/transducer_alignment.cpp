#include "algorithms/shared/alignment/transducer_alignment.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "algorithms/gpu/host_read.h"
#include "base/error.h"
#include "base/nvtx.h"
#include "models/checkpoint/tensor_data.h"

namespace rtfx {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();
constexpr uint8_t kNoStep = 255;

/// A kind of step: the frames that it passes, whether it emits a token, and TDT's duration (its
/// value and its column).
struct Step {
  int32_t frames = 0;
  bool token = false;
  int32_t duration = 0, column = -1;
};

/// Returns all kinds of steps. The number of a step is its index.
std::vector<Step> steps_of(const Transducer& transducer) {
  if (!transducer.is_tdt()) return {{1, false}, {0, true}};
  std::vector<Step> steps;
  const std::vector<int64_t>& durations = transducer.duration_list();
  for (const bool token : {false, true}) {
    for (size_t i = 0; i < durations.size(); ++i) {
      const auto duration = static_cast<int32_t>(durations[i]);
      steps.push_back(
          {token ? duration : std::max(duration, 1), token, duration, static_cast<int32_t>(i)});
    }
  }
  RTFX_CHECK(steps.size() < kNoStep, "a step's number is one byte");
  return steps;
}

/// Returns the outputs of the prediction network behind 0 .. U tokens, [U + 1, H].
at::Tensor predictions(const Transducer& transducer, std::span<const int32_t> tokens) {
  const ScopedRange range(RangeName::decode_predict);
  const at::Tensor labels =
      at::tensor(std::vector<int64_t>(tokens.begin(), tokens.end()), at::kLong)
          .to(transducer.device());
  Transducer::Prediction last = transducer.start(1);
  std::vector<at::Tensor> all = {last.output};
  for (int64_t u = 0; u < labels.size(0); ++u) {
    last = transducer.predict(labels.narrow(0, u, 1), last.state);
    all.push_back(last.output);
  }
  return at::cat(all);
}

/// The best path through the nodes of a band.
class Lattice {
 public:
  Lattice(const Transducer& transducer, const at::Tensor& frames, std::span<const int32_t> tokens,
          const LatticeBand& band)
      : transducer_(transducer),
        tokens_(tokens),
        band_(band),
        steps_(steps_of(transducer)),
        encoded_(transducer.encode(frames)),
        predicted_(predictions(transducer, tokens)) {
    for (const Step& step : steps_) reach_ = std::max(reach_, step.frames);
    values_.resize(static_cast<size_t>(reach_) + 1);
    int64_t nodes = 0;
    for (int64_t t = 0; t < length(); ++t) {
      row_.push_back(nodes);
      nodes += width(t);
    }
    from_.assign(static_cast<size_t>(nodes), kNoStep);
    logprobs_.resize(static_cast<size_t>(nodes));
  }

  Alignment best_path() {
    const int64_t labels = transducer_.blank() + 1;
    const int64_t most =
        std::max<int64_t>(1, kBlockBytes / (4 * labels * static_cast<int64_t>(sizeof(float))));
    for (int64_t t = 0; t < std::min<int64_t>(length(), reach_ + 1); ++t) open_row(t);
    if (band_.first[0] == 0) value(0, 0) = 0;
    for (int64_t first = 0; first < length();) {
      int64_t end = first, nodes = 0;
      do {
        nodes += width(end++);
      } while (end < length() && nodes + width(end) <= most);
      const std::vector<float> outputs = evaluate(first, end, most);
      const float* output = outputs.data();
      for (int64_t t = first; t < end; ++t) {
        for (int32_t u = band_.first[index(t)]; u <= band_.last[index(t)]; ++u) {
          leave(t, u, output);
          output += output_width();
        }
        if (t + reach_ + 1 < length()) open_row(t + reach_ + 1);  // in the place of row t
      }
      first = end;
    }
    return trace_back();
  }

 private:
  static constexpr int64_t kBlockBytes = int64_t{128} << 20;

  static size_t index(int64_t i) { return static_cast<size_t>(i); }
  int64_t length() const { return band_.frames(); }
  int64_t width(int64_t t) const { return band_.last[index(t)] - band_.first[index(t)] + 1; }
  /// Returns the number of values of a node: log p(blank), log p(next token), and one for each
  /// duration.
  int64_t output_width() const {
    return 2 + static_cast<int64_t>(transducer_.duration_list().size());
  }
  bool has(int64_t t, int32_t u) const {
    return u >= band_.first[index(t)] && u <= band_.last[index(t)];
  }
  size_t node(int64_t t, int32_t u) const {
    return index(row_[index(t)] + u - band_.first[index(t)]);
  }
  double& value(int64_t t, int32_t u) {
    return values_[index(t % (reach_ + 1))][index(u - band_.first[index(t)])];
  }
  void open_row(int64_t t) { values_[index(t % (reach_ + 1))].assign(index(width(t)), kNever); }

  /// Evaluates the joint network for all nodes of frames [first, end), `most` nodes at a time.
  std::vector<float> evaluate(int64_t first, int64_t end, int64_t most) {
    const ScopedRange range(RangeName::decode_joint);
    std::vector<int64_t> frames, prefixes, labels;
    for (int64_t t = first; t < end; ++t) {
      for (int32_t u = band_.first[index(t)]; u <= band_.last[index(t)]; ++u) {
        frames.push_back(t);
        prefixes.push_back(u);
        // No token follows the last one, and the value of this label is not read.
        labels.push_back(index(u) < tokens_.size() ? tokens_[index(u)] : transducer_.blank());
      }
    }
    const auto count = std::ssize(frames);
    std::vector<float> outputs;
    outputs.reserve(index(count * output_width()));
    for (int64_t begin = 0; begin < count; begin += most) {
      const int64_t n = std::min(most, count - begin);
      const auto part = [&](const std::vector<int64_t>& all) {
        const auto from = all.begin() + begin;
        return at::tensor(std::vector<int64_t>(from, from + n), at::kLong).to(transducer_.device());
      };
      const LogProbs found = transducer_.log_probs(encoded_.index_select(0, part(frames)),
                                                   predicted_.index_select(0, part(prefixes)), 1);
      std::vector<at::Tensor> numbers = {found.labels.narrow(1, transducer_.blank(), 1),
                                         found.labels.gather(1, part(labels).unsqueeze(1))};
      if (transducer_.is_tdt()) numbers.push_back(found.durations);
      HostReads reads;
      const at::Tensor host = reads.values(at::cat(numbers, 1).to(at::kFloat)).contiguous();
      outputs.insert(outputs.end(), data_of<float>(host), data_of<float>(host) + host.numel());
    }
    return outputs;
  }

  /// Takes all steps from a node whose value is final.
  void leave(int64_t t, int32_t u, const float* output) {
    const bool has_next = index(u) < tokens_.size();
    logprobs_[node(t, u)] = output[1];
    nan_ |=
        std::isnan(output[0]) || std::isnan(output[output_width() - 1]);  // so are all of its kind
    const double here = value(t, u);
    if (here == kNever) return;
    for (size_t s = 0; s < steps_.size(); ++s) {
      const Step& step = steps_[s];
      if (step.token && !has_next) continue;
      const int32_t to = u + (step.token ? 1 : 0);
      double reached = here + output[step.token ? 1 : 0];
      if (step.column >= 0) reached += output[2 + step.column];
      if (t + step.frames >= length()) {
        if (index(to) == tokens_.size() && reached > end_value_) {
          end_value_ = reached;
          end_ = {t, u, static_cast<uint8_t>(s)};
        }
      } else if (has(t + step.frames, to) && reached > value(t + step.frames, to)) {
        value(t + step.frames, to) = reached;
        from_[node(t + step.frames, to)] = static_cast<uint8_t>(s);
      }
    }
  }

  Alignment trace_back() const {
    const ScopedRange range(RangeName::decode_trace_back);
    Alignment found;
    Hypothesis& h = found.hypothesis;
    h.tokens.assign(tokens_.begin(), tokens_.end());
    h.frames.resize(tokens_.size());
    if (transducer_.is_tdt()) h.durations.resize(tokens_.size());
    std::vector<double>& confidence = found.evidence.confidence;
    confidence.resize(tokens_.size());
    h.score = static_cast<float>(end_value_);
    h.nan = nan_ || !std::isfinite(end_value_);
    if (h.nan) return found;
    int64_t t = end_.t;
    int32_t u = end_.u;
    for (uint8_t s = end_.step;;) {
      // Step `s` leads away from (t, u).
      const Step& step = steps_[s];
      if (step.token) {
        h.frames[index(u)] = static_cast<int32_t>(t);
        if (!h.durations.empty()) h.durations[index(u)] = step.duration;
        confidence[index(u)] = std::exp(static_cast<double>(logprobs_[node(t, u)]));
      }
      if (t == 0 && u == 0) break;
      s = from_[node(t, u)];
      t -= steps_[s].frames;
      u -= steps_[s].token ? 1 : 0;
    }
    return found;
  }

  const Transducer& transducer_;
  std::span<const int32_t> tokens_;
  const LatticeBand& band_;
  std::vector<Step> steps_;
  at::Tensor encoded_, predicted_;           // [T, H], [U + 1, H]
  int32_t reach_ = 0;                        // most frames that a step passes
  std::vector<std::vector<double>> values_;  // rows t .. t + reach_, each at t % (reach_ + 1)
  std::vector<int64_t> row_;                 // the first node of each frame
  std::vector<uint8_t> from_;                // the step that leads to each node
  std::vector<float> logprobs_;              // log p of the next token at each node
  struct {
    int64_t t = 0;
    int32_t u = 0;
    uint8_t step = kNoStep;
  } end_;  // the last step, and the node it leads away from
  double end_value_ = kNever;
  bool nan_ = false;
};

}  // namespace

int64_t LatticeBand::nodes() const {
  int64_t all = 0;
  for (size_t t = 0; t < first.size(); ++t) all += last[t] - first[t] + 1;
  return all;
}

LatticeBand whole_lattice(int64_t frames, int64_t tokens) {
  const auto count = static_cast<size_t>(frames);
  return {std::vector<int32_t>(count, 0),
          std::vector<int32_t>(count, static_cast<int32_t>(tokens))};
}

LatticeBand band_around(std::span<const int32_t> guide, int64_t frames, int64_t width) {
  LatticeBand band;
  int32_t first = 0, last = 0;
  for (int64_t t = 0; t < frames; ++t) {
    while (static_cast<size_t>(first) < guide.size() &&
           guide[static_cast<size_t>(first)] + width < t)
      ++first;
    while (static_cast<size_t>(last) < guide.size() &&
           guide[static_cast<size_t>(last)] <= t + width)
      ++last;
    band.first.push_back(first);
    band.last.push_back(last);
  }
  return band;
}

std::vector<int32_t> guide_from(const Hypothesis& found, std::span<const int32_t> tokens,
                                int64_t total) {
  enum Origin : uint8_t { both, text_only, found_only };
  const size_t rows = tokens.size() + 1, columns = found.tokens.size() + 1;
  std::vector<uint8_t> from(rows * columns, found_only);
  std::vector<int32_t> above(columns), here(columns);
  std::iota(above.begin(), above.end(), 0);
  for (size_t i = 1; i < rows; ++i) {
    here[0] = static_cast<int32_t>(i);
    from[i * columns] = text_only;
    for (size_t j = 1; j < columns; ++j) {
      const bool equal = tokens[i - 1] == found.tokens[j - 1];
      int32_t least = above[j - 1] + (equal ? 0 : 1);
      Origin origin = both;
      if (above[j] + 1 < least) {
        least = above[j] + 1;
        origin = text_only;
      }
      if (here[j - 1] + 1 < least) {
        least = here[j - 1] + 1;
        origin = found_only;
      }
      here[j] = least;
      from[i * columns + j] = origin;
    }
    std::swap(above, here);
  }
  constexpr int32_t kUnknown = -1;
  std::vector<int32_t> guide(tokens.size(), kUnknown);
  for (size_t i = tokens.size(), j = found.tokens.size(); i > 0 || j > 0;) {
    const uint8_t origin = from[i * columns + j];
    if (origin == both && tokens[i - 1] == found.tokens[j - 1]) guide[i - 1] = found.frames[j - 1];
    if (origin != found_only) --i;
    if (origin != text_only) --j;
  }
  // A gap gets equal steps between the tokens before and behind it, or from frame 0, or to the end.
  double before = 0;
  for (size_t i = 0; i < guide.size();) {
    if (guide[i] != kUnknown) {
      before = guide[i++];
      continue;
    }
    size_t end = i;
    while (end < guide.size() && guide[end] == kUnknown) ++end;
    const double behind = end < guide.size() ? guide[end] : static_cast<double>(total);
    const double step = (behind - before) / static_cast<double>(end - i + 1);
    for (size_t k = i; k < end; ++k)
      guide[k] = static_cast<int32_t>(before + step * static_cast<double>(k - i + 1));
    i = end;
  }
  return guide;
}

Alignment align_transducer(const Transducer& transducer, const at::Tensor& frames,
                           std::span<const int32_t> tokens, const LatticeBand& band) {
  RTFX_CHECK(band.frames() == frames.size(0) && band.frames() > 0, "a band has the rows of frames");
  return Lattice(transducer, frames, tokens, band).best_path();
}

}  // namespace rtfx
