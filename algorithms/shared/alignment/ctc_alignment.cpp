#include "algorithms/shared/alignment/ctc_alignment.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "algorithms/gpu/host_read.h"
#include "algorithms/shared/alignment/ctc_viterbi.h"
#include "base/error.h"
#include "base/nvtx.h"
#include "models/checkpoint/tensor_data.h"
#include "models/parallel.h"

namespace rtfx {
namespace {

/// The best path, frame by frame: the index of the token (-1 for blank), and the log probability of
/// its label.
struct CtcPath {
  std::vector<int32_t> places;
  std::vector<float> logprobs;
  float score = 0;
};

Alignment alignment_of(const CtcPath& path, std::span<const int32_t> tokens) {
  Alignment found;
  Hypothesis& h = found.hypothesis;
  h.tokens.assign(tokens.begin(), tokens.end());
  h.score = path.score;
  h.nan = !std::isfinite(path.score);
  h.frames.assign(tokens.size(), 0);
  std::vector<int32_t>& runs = found.evidence.runs;
  std::vector<double>& confidence = found.evidence.confidence;
  runs.assign(tokens.size(), 0);
  confidence.assign(tokens.size(), 0);
  if (h.nan) return found;
  for (size_t t = 0; t < path.places.size(); ++t) {
    if (path.places[t] < 0) continue;
    const auto place = static_cast<size_t>(path.places[t]);
    if (runs[place]++ == 0) h.frames[place] = static_cast<int32_t>(t);
    confidence[place] += std::exp(static_cast<double>(path.logprobs[t]));
  }
  for (size_t i = 0; i < runs.size(); ++i) confidence[i] /= runs[i];
  return found;
}

/// The trellis of one utterance on the CPU, block by block.
class Trellis {
 public:
  Trellis(const EmissionSource& emissions, std::span<const int32_t> tokens, int64_t block_bytes)
      : emissions_(emissions), tokens_(tokens), columns_(tokens.size() + 1) {
    const int64_t frame_bytes = std::ssize(tokens) + 1 + 4 * emissions.labels;
    block_ = std::clamp<int64_t>(block_bytes / frame_bytes, 1, std::max<int64_t>(1, frames()));
    from_.resize(static_cast<size_t>(block_) * columns_);
  }

  CtcPath best_path() {
    constexpr float kNever = -std::numeric_limits<float>::infinity();
    std::vector<CtcColumn> columns(columns_, {kNever, kNever});
    columns[0].blank = 0;
    std::vector<std::vector<CtcColumn>> before;  // columns before each block
    at::Tensor emissions;                        // of the block that was computed last
    for (int64_t first = 0; first < frames(); first += block_) {
      before.push_back(columns);
      emissions = advance(first, columns);
    }
    CtcPath path;
    path.places.resize(static_cast<size_t>(frames()));
    path.logprobs.resize(path.places.size());
    const auto count = static_cast<int32_t>(columns_);
    CtcState state = last_state(columns.back(), count);
    path.score = state.on_token ? columns.back().token : columns.back().blank;
    const ScopedRange range(RangeName::decode_trace_back);
    for (size_t block = before.size(); block-- > 0;) {
      const int64_t first = static_cast<int64_t>(block) * block_;
      if (block + 1 < before.size()) emissions = advance(first, before[block]);
      trace_back(first, emissions, state, path);
    }
    return path;
  }

 private:
  int64_t frames() const { return emissions_.frames; }

  /// Moves `columns` from before frame `first` to the end of its block, and fills from_. Returns
  /// the block's emissions.
  at::Tensor advance(int64_t first, std::vector<CtcColumn>& columns) {
    const int64_t count = std::min(block_, frames() - first);
    at::Tensor block = emissions_.read(first, count);
    std::vector<CtcColumn> next(columns_);
    for (int64_t t = 0; t < count; ++t) {
      const float* const at_frame = data_of<float>(block) + t * emissions_.labels;
      const float blank = at_frame[emissions_.labels - 1];
      uint8_t* const from = from_.data() + static_cast<size_t>(t) * columns_;
      constexpr CtcColumn kNone = {-std::numeric_limits<float>::infinity(),
                                   -std::numeric_limits<float>::infinity()};
      next[0] = advance_column(columns[0], kNone, false, blank, 0, from[0]);
      for (size_t u = 1; u < columns_; ++u) {
        const int32_t token = tokens_[u - 1];
        const bool repeats = u > 1 && token == tokens_[u - 2];
        next[u] =
            advance_column(columns[u], columns[u - 1], repeats, blank, at_frame[token], from[u]);
      }
      std::swap(columns, next);
    }
    return block;
  }

  void trace_back(int64_t first, const at::Tensor& emissions, CtcState& state,
                  CtcPath& path) const {
    for (int64_t t = emissions.size(0) - 1; t >= 0; --t) {
      const int32_t place = state.place();
      const int64_t label = place < 0 ? emissions_.labels - 1 : tokens_[static_cast<size_t>(place)];
      const auto frame = static_cast<size_t>(first + t);
      path.places[frame] = place;
      path.logprobs[frame] = data_of<float>(emissions)[t * emissions_.labels + label];
      const size_t row = static_cast<size_t>(t) * columns_;
      state = state_before(state, from_[row + static_cast<size_t>(state.column)]);
    }
  }

  const EmissionSource& emissions_;
  std::span<const int32_t> tokens_;
  size_t columns_;             // U + 1
  int64_t block_;              // frames
  std::vector<uint8_t> from_;  // [block_, columns_]
};

void require_path(int64_t frames, int64_t labels, std::span<const int32_t> tokens) {
  RTFX_CHECK(frames >= least_ctc_frames(tokens), "the text has no path of so few frames");
  for (const int32_t token : tokens)
    RTFX_CHECK(token >= 0 && token < labels - 1, "a token of the text is none of the model's");
}

/// Aligns all rows of a batch on a GPU.
std::vector<Alignment> align_on_gpu(const at::Tensor& emissions,
                                    const std::vector<int64_t>& lengths,
                                    const std::vector<std::vector<int32_t>>& texts) {
  const at::Device device = emissions.device();
  const int64_t batch = emissions.size(0), frames = emissions.size(1);
  size_t longest = 0;
  for (const std::vector<int32_t>& text : texts) longest = std::max(longest, text.size());
  const auto tokens = static_cast<int64_t>(longest);
  // One copy brings the frames of each row, the lengths of the texts, and the texts to the device.
  at::Tensor inputs = at::zeros({batch, 2 + tokens}, at::kInt);
  auto* const values = inputs.mutable_data_ptr<int32_t>();
  for (size_t b = 0; b < texts.size(); ++b) {
    values[b] = static_cast<int32_t>(lengths[b]);
    values[texts.size() + b] = static_cast<int32_t>(texts[b].size());
    std::ranges::copy(texts[b], values + 2 * texts.size() + b * longest);
  }
  inputs = inputs.to(device);
  const at::TensorOptions bytes = at::TensorOptions(device).dtype(at::kByte);
  const at::Tensor from = at::empty({batch, frames, tokens + 1}, bytes);
  const bool in_shared_memory = ctc_column_bytes(tokens) <= kCtcSharedBytes;
  at::Tensor columns;
  if (!in_shared_memory) columns = at::empty({batch, ctc_column_bytes(tokens)}, bytes);
  // One copy brings places, log probabilities and scores to the host. All have four bytes.
  const at::Tensor results = at::empty({batch, 2 * frames + 1}, bytes.dtype(at::kInt));
  auto* const places = results.mutable_data_ptr<int32_t>();
  auto* const logprobs = reinterpret_cast<float*>(places + batch * frames);
  const int32_t* const given = data_of<int32_t>(inputs);
  launch_ctc_alignment(
      {
          .emissions = data_of<float>(emissions),
          .texts = given + 2 * batch,
          .lengths = given,
          .text_lengths = given + batch,
          .from = from.mutable_data_ptr<uint8_t>(),
          .columns =
              in_shared_memory ? nullptr : reinterpret_cast<CtcColumn*>(columns.mutable_data_ptr()),
          .places = places,
          .logprobs = logprobs,
          .scores = logprobs + batch * frames,
          .batch = batch,
          .frames = frames,
          .tokens = tokens,
          .labels = emissions.size(2),
      },
      c10::cuda::getCurrentCUDAStream(device.index()).stream());
  HostReads reads;
  const at::Tensor host = reads.values(results);
  const int32_t* const found = data_of<int32_t>(host);
  const auto* const numbers = reinterpret_cast<const float*>(found + batch * frames);
  std::vector<Alignment> alignments;
  for (int64_t b = 0; b < batch; ++b) {
    const auto row = static_cast<size_t>(b);
    const int64_t begin = b * frames, end = begin + lengths[row];
    CtcPath path{{found + begin, found + end}, {numbers + begin, numbers + end}};
    path.score = numbers[batch * frames + b];
    alignments.push_back(alignment_of(path, texts[row]));
  }
  return alignments;
}

}  // namespace

int64_t least_ctc_frames(std::span<const int32_t> tokens) {
  int64_t frames = std::ssize(tokens);
  for (size_t i = 1; i < tokens.size(); ++i) frames += tokens[i] == tokens[i - 1];
  return frames;
}

EmissionSource emissions_in_memory(const at::Tensor& emissions) {
  return {emissions.size(0), emissions.size(1),
          [emissions](int64_t first, int64_t count) { return emissions.narrow(0, first, count); }};
}

Alignment align_ctc(const EmissionSource& emissions, std::span<const int32_t> tokens,
                    int64_t block_bytes) {
  require_path(emissions.frames, emissions.labels, tokens);
  return alignment_of(Trellis(emissions, tokens, block_bytes).best_path(), tokens);
}

std::vector<Alignment> align_ctc_batch(const at::Tensor& emissions,
                                       const std::vector<int64_t>& lengths,
                                       const std::vector<std::vector<int32_t>>& texts) {
  for (size_t b = 0; b < texts.size(); ++b) require_path(lengths[b], emissions.size(2), texts[b]);
  if (emissions.is_cuda()) return align_on_gpu(emissions, lengths, texts);
  std::vector<Alignment> alignments(texts.size());
  parallel_ranges(std::ssize(texts), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const auto row = static_cast<size_t>(b);
      const at::Tensor own = emissions[b].narrow(0, 0, lengths[row]);
      alignments[row] = align_ctc(emissions_in_memory(own), texts[row]);
    }
  });
  return alignments;
}

}  // namespace rtfx
