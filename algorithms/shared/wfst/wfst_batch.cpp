#include "algorithms/shared/wfst/wfst_batch.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <limits>
#include <numeric>
#include <optional>

#include "algorithms/batched_hypotheses.h"
#include "base/error.h"
#include "base/nvtx.h"
#include "models/acoustic_model.h"
#include "models/checkpoint/tensor_data.h"

namespace rtfx {

at::Tensor scaled_log_probs(const AcousticModel& model, const at::Tensor& frames,
                            double acoustic_scale) {
  at::Tensor lp = model.ctc_head->logits(frames).to(at::kFloat).log_softmax(2);
  return lp.mul_(acoustic_scale).contiguous();
}

HostEmissions host_emissions(const AcousticModel& model, const EncodedBatch& batch,
                             double acoustic_scale, HostReads& reads) {
  at::Tensor lp = scaled_log_probs(model, batch.frames, acoustic_scale);
  if (lp.is_cuda()) {
    const at::Tensor host =
        at::empty(lp.sizes(), lp.options().device(at::kCPU).pinned_memory(true));
    reads.copy(lp, host);
    lp = host;
  }
  // A NaN or +infinity among the logits makes the whole frame NaN.
  return {lp, rows_with_nan(lp.narrow(2, 0, 1), at::tensor(batch.lengths_host, at::kLong))};
}

std::vector<size_t> longest_first(const std::vector<int64_t>& lengths) {
  std::vector<size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lengths[a] > lengths[b]; });
  return order;
}

void for_each_utterance(const std::vector<int64_t>& lengths, size_t threads,
                        const std::function<void(size_t thread, size_t row)>& search) {
  const std::vector<size_t> order = longest_first(lengths);
  std::atomic<size_t> next = 0;
  const auto work = [&](size_t thread) {
    for (size_t i = next++; i < order.size(); i = next++) {
      const ScopedRange range(RangeName::decode_row, static_cast<int64_t>(order[i]));
      search(thread, order[i]);
    }
  };
  // A thread that is done takes the next row, since rows differ in length. parallel_ranges() would
  // divide the rows beforehand.
  std::vector<std::future<void>> others;
  for (size_t thread = 1; thread < std::min(threads, order.size()); ++thread)
    others.push_back(std::async(std::launch::async, work, thread));
  work(0);
  for (std::future<void>& other : others) other.get();
}

std::vector<int64_t> piece_streams(std::span<const WfstPiece> pieces) {
  std::vector<int64_t> streams;
  for (const WfstPiece& piece : pieces) streams.push_back(piece.stream);
  return streams;
}

std::vector<int64_t> piece_frames(std::span<const WfstPiece> pieces, int64_t columns,
                                  at::Device device) {
  std::vector<int64_t> frames;
  for (const WfstPiece& piece : pieces) {
    const at::Tensor& lp = piece.lp;
    if (!lp.defined() || lp.dim() != 2 || lp.size(1) != columns || lp.dtype() != at::kFloat ||
        !lp.is_contiguous() || lp.device() != device) {
      throw UserError(
          fmt::format("the piece of stream {}", piece.stream),
          fmt::format("is not [frames, {}] float32, contiguous, on {}", columns, device.str()),
          "cut it from what project() returns");
    }
    frames.push_back(lp.size(0));
  }
  return frames;
}

int64_t count_not_final(const std::vector<WfstPath>& paths) {
  return std::ranges::count_if(
      paths, [](const WfstPath& path) { return path.alive && !path.reached_final; });
}

namespace {

/// Writes tokens and frames of a path into a row of each tensor.
void write_tokens(const WfstPath& path, int32_t* tokens, int32_t* frames) {
  std::copy(path.tokens.begin(), path.tokens.end(), tokens);
  std::copy(path.token_frames.begin(), path.token_frames.end(), frames);
}

/// Makes n-best lists. Marked rows have an empty list.
NBest nbest_lists(const std::vector<std::vector<WfstPath>>& lists, const bool* nan) {
  size_t entries = 1, longest = 0;
  for (const std::vector<WfstPath>& list : lists) {
    entries = std::max(entries, list.size());
    for (const WfstPath& path : list) longest = std::max(longest, path.tokens.size());
  }
  const auto rows = static_cast<int64_t>(lists.size()), n = static_cast<int64_t>(entries);
  NBest nbest;
  nbest.lengths = at::zeros({rows, n}, at::kInt);
  nbest.tokens = at::zeros({rows, n, static_cast<int64_t>(longest)}, at::kInt);
  nbest.frames = at::zeros_like(nbest.tokens);
  nbest.scores = at::full({rows, n}, -std::numeric_limits<float>::infinity(), at::kFloat);
  for (size_t b = 0; b < lists.size(); ++b) {
    for (size_t i = 0; !nan[b] && i < lists[b].size(); ++i) {
      const WfstPath& path = lists[b][i];
      const size_t place = b * entries + i;
      nbest.lengths.mutable_data_ptr<int32_t>()[place] = static_cast<int32_t>(path.tokens.size());
      nbest.scores.mutable_data_ptr<float>()[place] = static_cast<float>(-path.cost);
      write_tokens(path, nbest.tokens.mutable_data_ptr<int32_t>() + place * longest,
                   nbest.frames.mutable_data_ptr<int32_t>() + place * longest);
    }
  }
  return nbest;
}

}  // namespace

WordText word_text(const WfstGraph& graph) {
  return [graph](int32_t word) { return std::string(graph.word(word)); };
}

namespace {

std::vector<FoundWord> found_words(const WfstPath& path, const WordText& text) {
  std::vector<FoundWord> words;
  for (size_t i = 0; i < path.words.size(); ++i)
    words.push_back({text(path.words[i]), path.word_frames[i]});
  return words;
}

}  // namespace

Hypothesis wfst_hypothesis(const WfstPath& path, const WordText& text) {
  Hypothesis h;
  h.nan = !path.alive;
  if (h.nan) return h;
  h.tokens = path.tokens;
  h.frames = path.token_frames;
  h.score = static_cast<float>(-path.cost);
  h.words = found_words(path, text);
  return h;
}

Hypotheses wfst_hypotheses(const std::vector<WfstPath>& paths, const at::Tensor& nan,
                           const WordText& text, const std::vector<std::vector<WfstPath>>& lists) {
  const auto batch = static_cast<int64_t>(paths.size());
  size_t longest = 0;
  for (const WfstPath& path : paths) longest = std::max(longest, path.tokens.size());
  Hypotheses h;
  h.lengths = at::zeros({batch}, at::kInt);
  h.tokens = at::zeros({batch, static_cast<int64_t>(longest)}, at::kInt);
  h.frames = at::zeros_like(h.tokens);
  h.scores = at::zeros({batch}, at::kFloat);
  h.nan = nan.clone();
  auto words = std::make_shared<FoundWords>();
  words->rows.resize(paths.size());
  for (size_t b = 0; b < paths.size(); ++b) {
    const WfstPath& path = paths[b];
    if (!path.alive) h.nan.mutable_data_ptr<bool>()[b] = true;
    if (data_of<bool>(h.nan)[b]) continue;
    h.lengths.mutable_data_ptr<int32_t>()[b] = static_cast<int32_t>(path.tokens.size());
    h.scores.mutable_data_ptr<float>()[b] = static_cast<float>(-path.cost);
    write_tokens(path, h.tokens.mutable_data_ptr<int32_t>() + b * longest,
                 h.frames.mutable_data_ptr<int32_t>() + b * longest);
    words->rows[b] = found_words(path, text);
  }
  for (const std::vector<WfstPath>& list : lists) {
    auto& entries = words->lists.emplace_back();
    for (const WfstPath& path : list) entries.push_back(found_words(path, text));
  }
  h.words = std::move(words);
  if (!lists.empty()) h.nbest = nbest_lists(lists, data_of<bool>(h.nan));
  return h;
}

int64_t WfstStreams::open() {
  const int64_t stream = search_->open();
  if (lists_.search) kept_[stream].pieces = {lists_.no_frames};
  return stream;
}

void WfstStreams::set_bias(int64_t stream, std::shared_ptr<const CompiledBias> bias) {
  const auto kept = kept_.find(stream);
  if (kept != kept_.end() && kept->second.pieces.size() > 1) {
    throw UserError(fmt::format("stream {}", stream),
                    "gets other phrases after its first frame, and its n-best list has one set of "
                    "phrases for the whole utterance",
                    "set the phrases before the first frame, or leave out \"nbest\"");
  }
  std::optional<std::vector<float>> costs;
  if (bias != nullptr) {
    std::vector<float> own;
    const std::span<const float> of_row = boosting_.of_row(bias.get(), own);
    costs.emplace(of_row.begin(), of_row.end());
  }
  search_->set_word_costs(stream, std::move(costs));
  if (kept != kept_.end()) kept->second.bias = std::move(bias);
}

void WfstStreams::push(std::span<const int64_t> streams, const EncodedBatch& pieces) {
  std::vector<WfstPiece> rows;
  for (size_t row = 0; row < streams.size(); ++row) {
    rows.push_back({streams[row], pieces.frames[static_cast<int64_t>(row)].narrow(
                                      0, 0, pieces.lengths_host[row])});
  }
  search_->advance(rows);
  if (!lists_.search) return;
  for (const WfstPiece& piece : rows)
    if (piece.lp.size(0) > 0) kept_.at(piece.stream).pieces.push_back(piece.lp.clone());
}

PartialResult WfstStreams::partial(int64_t stream) {
  return {wfst_hypothesis(search_->partial(stream), text_), 0};
}

Hypothesis WfstStreams::finish(int64_t stream) {
  Hypothesis result = wfst_hypothesis(search_->finish(stream), text_);
  if (lists_.search) {
    const KeptPieces& kept = kept_.at(stream);
    for (const WfstPath& path : lists_.search(at::cat(kept.pieces), kept.bias))
      result.nbest.push_back(wfst_hypothesis(path, text_));
  }
  close(stream);
  return result;
}

void WfstStreams::close(int64_t stream) {
  search_->close(stream);
  kept_.erase(stream);
}

}  // namespace rtfx
