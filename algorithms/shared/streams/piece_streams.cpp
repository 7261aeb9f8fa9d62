#include "algorithms/shared/streams/piece_streams.h"

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace rtfx {
namespace {

constexpr int64_t kFirstSlots = 16, kStartSlot = 0;

/// Moves tokens [0, count) of `from` to the end of `to`.
void move_tokens(Hypothesis& from, size_t count, Hypothesis& to) {
  const auto move = [count](std::vector<int32_t>& source, std::vector<int32_t>& target) {
    const auto end = source.begin() + static_cast<ptrdiff_t>(std::min(count, source.size()));
    target.insert(target.end(), source.begin(), end);
    source.erase(source.begin(), end);
  };
  move(from.tokens, to.tokens);
  move(from.frames, to.frames);
  move(from.durations, to.durations);
}

/// Copies the values to the device. The host does not wait for the copy.
at::Tensor on_device(std::span<const int64_t> values, at::Device device) {
  const at::Tensor host =
      at::empty({std::ssize(values)}, at::TensorOptions(at::kLong).pinned_memory(device.is_cuda()));
  std::ranges::copy(values, host.mutable_data_ptr<int64_t>());
  return host.to(device, /*non_blocking=*/true);
}

bool lives(const Hypothesis& h) { return h.score != -std::numeric_limits<float>::infinity(); }

/// Returns the number of leading tokens that all living hypotheses share, with equal frames.
size_t common_tokens(const std::vector<Hypothesis>& beam) {
  const Hypothesis* first = nullptr;
  size_t common = 0;
  for (const Hypothesis& h : beam) {
    if (!lives(h)) continue;
    if (first == nullptr) {
      first = &h;
      common = h.tokens.size();
      continue;
    }
    size_t i = 0;
    while (i < std::min(common, h.tokens.size()) && h.tokens[i] == first->tokens[i] &&
           h.frames[i] == first->frames[i] &&
           (h.durations.empty() || h.durations[i] == first->durations[i]))
      ++i;
    common = i;
  }
  return common;
}

}  // namespace

PieceSearch greedy_in_pieces(
    bool takes_biases, std::function<at::Tensor(const at::Tensor& frames)> project,
    const at::Tensor& like,
    std::function<Hypotheses(const EncodedBatch& batch, Loops& loops, RowState& state)> search) {
  const auto run = [search = std::move(search), reads = std::make_shared<HostReads>()](
                       const EncodedBatch& batch, bool, RowState& state) {
    HostLoops loops(*reads);
    std::vector<RowPiece> pieces;
    for (Hypothesis& h : search(batch, loops, state).to_host()) {
      RowPiece piece;
      piece.consumed = batch.lengths_host[pieces.size()];
      piece.nan = h.nan;
      piece.slots.push_back({0, std::move(h)});
      pieces.push_back(std::move(piece));
    }
    return pieces;
  };
  PieceSearch pieces;
  pieces.takes_biases = takes_biases;
  pieces.project = std::move(project);
  pieces.search = run;
  pieces.like = like;
  return pieces;
}

PieceSearch beam_in_pieces(std::function<at::Tensor(const at::Tensor& frames)> project,
                           const at::Tensor& like, const BeamRanking& ranking,
                           std::function<std::vector<RowPiece>(const EncodedBatch& batch, bool last,
                                                               RowState& state, HostReads& reads)>
                               search) {
  PieceSearch pieces;
  pieces.project = std::move(project);
  pieces.search = [search = std::move(search), reads = std::make_shared<HostReads>()](
                      const EncodedBatch& batch, bool last, RowState& state) {
    return search(batch, last, state, *reads);
  };
  pieces.like = like;
  pieces.beam = static_cast<size_t>(ranking.beam);
  pieces.at_end = true;
  pieces.takes_biases = true;
  pieces.score_norm = ranking.score_norm;
  pieces.nbest = static_cast<size_t>(ranking.nbest);
  return pieces;
}

PieceStreams::PieceStreams(PieceSearch search, const StreamLimits& limits)
    : search_(std::move(search)), limits_(limits) {
  RTFX_CHECK(limits_.max_batch > 0 && limits_.max_frames > 0, "limits of streams");
  const c10::DeviceGuard guard(search_.like.device());
  const auto rows = static_cast<size_t>(limits_.max_batch);
  const at::Tensor frames = at::zeros({limits_.max_batch, limits_.max_frames, search_.like.size(2)},
                                      search_.like.options());
  const at::Tensor lengths =
      at::zeros({limits_.max_batch}, search_.like.options().dtype(at::kLong));
  search_.search({frames, lengths, std::vector<int64_t>(rows), {}}, /*last=*/false, batch_);
  for (const at::Tensor& tensor : batch_) slots_.push_back(tensor.narrow(0, 0, 1).clone());
}

void PieceStreams::make_slots(int64_t slots) {
  free_slots_.reserve(static_cast<size_t>(slots));
  for (at::Tensor& tensor : slots_) {
    std::vector<int64_t> sizes = tensor.sizes().vec();
    sizes.front() = slots;
    at::Tensor made = at::empty(sizes, tensor.options());
    // If memory was short before, some tensors have more slots already.
    made.narrow(0, 0, slot_count_).copy_(tensor.narrow(0, 0, slot_count_));
    tensor = std::move(made);
  }
  for (int64_t slot = slots; slot-- > slot_count_;) free_slots_.push_back(slot);
  slot_count_ = slots;
}

int64_t PieceStreams::open() {
  const c10::DeviceGuard guard(search_.like.device());
  if (free_slots_.empty()) make_slots(std::max(kFirstSlots, 2 * slot_count_));
  Stream stream;
  stream.slot = free_slots_.back();
  free_slots_.pop_back();
  stream.beam.resize(search_.beam);
  for (size_t k = 1; k < stream.beam.size(); ++k)
    stream.beam[k].score = -std::numeric_limits<float>::infinity();
  return streams_.add(std::move(stream));
}

void PieceStreams::set_bias(int64_t number, std::shared_ptr<const CompiledBias> bias) {
  if (!search_.takes_biases) return Streams::set_bias(number, std::move(bias));
  const c10::DeviceGuard guard(search_.like.device());
  Stream& stream = streams_.at(number);
  stream.bias = std::move(bias);
  if (stream.searched) slots_.front().select(0, stream.slot).zero_();
}

void PieceStreams::close(int64_t stream) { free_slots_.push_back(streams_.remove(stream).slot); }

void PieceStreams::push(std::span<const int64_t> streams, const EncodedBatch& pieces) {
  const at::Tensor& frames = pieces.frames;
  if (streams.size() != pieces.lengths_host.size() || !frames.defined() || frames.dim() != 3 ||
      frames.size(0) != static_cast<int64_t>(streams.size()) ||
      frames.size(2) != search_.like.size(2) || frames.dtype() != search_.like.dtype() ||
      frames.device() != search_.like.device()) {
    throw UserError(
        "the pieces of streams",
        fmt::format("are not {} rows of [frames, {}] {} on {}", streams.size(),
                    search_.like.size(2), search_.like.dtype().name(), search_.like.device().str()),
        "pass what project() returns");
  }
  for (const int64_t length : pieces.lengths_host) {
    if (length < 0 || length > frames.size(1)) {
      throw UserError("the pieces of streams",
                      fmt::format("have a length of {} in {} frames", length, frames.size(1)),
                      "pass lengths within the frames");
    }
  }
  const c10::DeviceGuard guard(search_.like.device());
  const std::vector<Stream*> open = streams_.find_all(streams);
  const auto waits = [](const Stream* stream) { return stream->waiting.defined(); };
  if (pieces.longest() <= limits_.max_frames && std::ranges::none_of(open, waits)) {
    search_pieces(open, pieces);
    return;
  }
  for (size_t row = 0; row < open.size(); ++row) {
    const at::Tensor piece =
        frames[static_cast<int64_t>(row)].narrow(0, 0, pieces.lengths_host[row]);
    at::Tensor& waiting = open[row]->waiting;
    waiting = waiting.defined() ? at::cat({waiting, piece}) : piece;
  }
  search_waiting(open, /*last=*/false);
  // Frames that are kept must not alias the caller's memory.
  for (Stream* stream : open) {
    at::Tensor& waiting = stream->waiting;
    waiting = waiting.size(0) > 0 ? waiting.clone() : at::Tensor();
  }
}

void PieceStreams::search_pieces(const std::vector<Stream*>& streams, const EncodedBatch& pieces) {
  const auto most = static_cast<size_t>(limits_.max_batch);
  for (size_t begin = 0; begin < streams.size(); begin += most) {
    const std::span<Stream* const> rows(streams.data() + begin,
                                        std::min(most, streams.size() - begin));
    const std::span lengths(pieces.lengths_host.data() + begin, rows.size());
    const auto count = static_cast<int64_t>(rows.size());
    const int64_t width = std::min(pieces.frames.size(1), limits_.max_frames);
    const at::Tensor frames = pieces.frames.narrow(0, static_cast<int64_t>(begin), count);
    EncodedBatch batch = new_batch(rows);
    std::ranges::copy(lengths, batch.lengths_host.begin());
    const at::Tensor into = batch.frames.narrow(0, 0, count).narrow(1, 0, width);
    into.copy_(frames.narrow(1, 0, width));
    // Behind its own frames, a row of the caller may hold anything.
    if (std::ranges::any_of(lengths, [&](int64_t length) { return length < width; })) {
      const at::Tensor ends = on_device(lengths, frames.device());
      into.masked_fill_(
          (at::arange(width, ends.options()).unsqueeze(0) >= ends.unsqueeze(1)).unsqueeze(2), 0);
    }
    const std::vector<int64_t> consumed = search_batch(rows, std::move(batch), /*last=*/false);
    for (size_t row = 0; row < rows.size(); ++row) {
      if (const int64_t rest = lengths[row] - consumed[row]; rest > 0) {
        rows[row]->waiting =
            frames[static_cast<int64_t>(row)].narrow(0, consumed[row], rest).clone();
      }
    }
  }
}

void PieceStreams::search_waiting(const std::vector<Stream*>& streams, bool last) {
  std::vector<Stream*> left = streams;
  while (!left.empty()) {
    const auto batch = static_cast<size_t>(limits_.max_batch);
    std::vector<Stream*> again;
    bool stuck = false;
    for (size_t begin = 0; begin < left.size(); begin += batch) {
      const std::span<Stream* const> rows(left.data() + begin,
                                          std::min(batch, left.size() - begin));
      EncodedBatch pieces = assemble(rows);
      bool all = last;
      for (size_t row = 0; row < rows.size(); ++row)
        all &= pieces.lengths_host[row] == rows[row]->waiting.size(0);
      const std::vector<int64_t> consumed = search_batch(rows, std::move(pieces), all);
      for (size_t row = 0; row < rows.size(); ++row) {
        at::Tensor& waiting = rows[row]->waiting;
        const int64_t before = waiting.size(0);
        waiting = waiting.narrow(0, consumed[row], before - consumed[row]);
        if (before <= limits_.max_frames) continue;
        again.push_back(rows[row]);
        stuck |= consumed[row] == 0;
      }
    }
    // If nothing was consumed, a hypothesis lags behind another by more frames than a batch has.
    if (stuck) limits_.max_frames *= 2;
    left = std::move(again);
  }
}

std::vector<int64_t> PieceStreams::search_batch(std::span<Stream* const> streams,
                                                EncodedBatch batch, bool last) {
  const at::Device device = search_.like.device();
  batch.lengths = on_device(batch.lengths_host, device);
  std::vector<int64_t> from, to;
  for (Stream* stream : streams) {
    from.push_back(stream->searched ? stream->slot : kStartSlot);
    to.push_back(stream->slot);
    stream->searched = true;
  }
  const at::Tensor taken = on_device(from, device);
  const at::Tensor given = from == to ? taken : on_device(to, device);
  const auto count = static_cast<int64_t>(streams.size());
  for (size_t i = 0; i < batch_.size(); ++i)
    batch_[i].narrow(0, 0, count).copy_(slots_[i].index_select(0, taken));
  const std::vector<RowPiece> pieces = search_.search(batch, last, batch_);
  for (size_t i = 0; i < batch_.size(); ++i)
    slots_[i].index_copy_(0, given, batch_[i].narrow(0, 0, count));
  std::vector<int64_t> consumed;
  for (size_t row = 0; row < streams.size(); ++row) {
    append_piece(*streams[row], pieces[row]);
    consumed.push_back(pieces[row].consumed);
  }
  return consumed;
}

EncodedBatch PieceStreams::new_batch(std::span<Stream* const> streams) const {
  EncodedBatch batch;
  batch.frames = at::zeros({limits_.max_batch, limits_.max_frames, search_.like.size(2)},
                           search_.like.options());
  batch.lengths_host.resize(static_cast<size_t>(limits_.max_batch));
  for (size_t row = 0; row < streams.size(); ++row) {
    if (streams[row]->bias == nullptr) continue;
    batch.biases.resize(static_cast<size_t>(limits_.max_batch));
    batch.biases[row] = streams[row]->bias;
  }
  return batch;
}

EncodedBatch PieceStreams::assemble(std::span<Stream* const> streams) const {
  EncodedBatch batch = new_batch(streams);
  for (size_t row = 0; row < streams.size(); ++row) {
    const at::Tensor& waiting = streams[row]->waiting;
    const int64_t frames = std::min(waiting.size(0), limits_.max_frames);
    batch.frames[static_cast<int64_t>(row)]
        .narrow(0, 0, frames)
        .copy_(waiting.narrow(0, 0, frames));
    batch.lengths_host[row] = frames;
  }
  return batch;
}

void PieceStreams::append_piece(Stream& stream, const RowPiece& piece) {
  std::vector<Hypothesis> beam;
  for (const RowPiece::Slot& slot : piece.slots) {
    const Hypothesis& added = slot.added;
    Hypothesis h;
    if (lives(added)) h = stream.beam[slot.origin];
    h.score = added.score;
    h.tokens.insert(h.tokens.end(), added.tokens.begin(), added.tokens.end());
    h.durations.insert(h.durations.end(), added.durations.begin(), added.durations.end());
    for (const int32_t frame : added.frames)
      h.frames.push_back(frame + static_cast<int32_t>(stream.offset));
    beam.push_back(std::move(h));
  }
  stream.beam = std::move(beam);
  const size_t common = common_tokens(stream.beam);
  bool first = true;
  for (Hypothesis& h : stream.beam) {
    if (!lives(h)) continue;
    Hypothesis same;
    move_tokens(h, common, first ? stream.stable : same);
    first = false;
  }
  stream.nan |= piece.nan;
  stream.offset += piece.consumed;
}

/// Ranks hypotheses in the order and the arithmetic of BeamHypotheses::result().
std::vector<const Hypothesis*> PieceStreams::ranked(const Stream& stream) const {
  const auto rank = [&](const Hypothesis* h) {
    const size_t tokens = stream.stable.tokens.size() + h->tokens.size();
    return search_.score_norm ? h->score / static_cast<float>(tokens + 1) : h->score;
  };
  std::vector<const Hypothesis*> order;
  for (const Hypothesis& h : stream.beam) order.push_back(&h);
  std::stable_sort(order.begin(), order.end(),
                   [&](const Hypothesis* a, const Hypothesis* b) { return rank(a) > rank(b); });
  order.resize(std::min(order.size(), search_.nbest));
  return order;
}

Hypothesis PieceStreams::whole(const Stream& stream, const Hypothesis& rest) const {
  Hypothesis h = stream.stable;
  Hypothesis tail = rest;
  move_tokens(tail, tail.tokens.size(), h);
  h.score = rest.score;
  h.nan = stream.nan;
  return h;
}

PartialResult PieceStreams::partial(int64_t number) {
  const Stream& stream = streams_.at(number);
  return {whole(stream, *ranked(stream).front()),
          static_cast<int64_t>(stream.stable.tokens.size())};
}

Hypothesis PieceStreams::finish(int64_t number) {
  const c10::DeviceGuard guard(search_.like.device());
  Stream& stream = streams_.at(number);
  if (search_.at_end) {
    if (!stream.waiting.defined())
      stream.waiting = at::empty({0, search_.like.size(2)}, search_.like.options());
    search_waiting({&stream}, /*last=*/true);
  }
  const std::vector<const Hypothesis*> order = ranked(stream);
  Hypothesis best = whole(stream, *order.front());
  if (search_.nbest > 1)
    for (const Hypothesis* h : order)
      if (lives(*h)) best.nbest.push_back(whole(stream, *h));
  close(number);
  return best;
}

}  // namespace rtfx
