#include "algorithms/decoders/wfst/ctc_wfst/gpu_streams.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <array>

#include "algorithms/shared/wfst/wfst_batch.h"

namespace rtfx {
namespace {

constexpr int64_t kFirstEntries = 16, kFirstTokens = 4096;
constexpr size_t kRowsOfAThread = 32;  // fewer are not worth another thread

}  // namespace

GpuStreams::GpuStreams(std::shared_ptr<PassingMemory> memory, float beam, int64_t max_active,
                       at::Tensor word_costs)
    : memory_(std::move(memory)),
      beam_(beam),
      max_active_(max_active),
      word_costs_(std::move(word_costs)) {
  make_entries(kFirstEntries, std::min<int64_t>(kFirstTokens, memory_->graph().view().states));
}

/// Keeps the content of the present entries.
void GpuStreams::make_entries(int64_t entries, int64_t capacity) {
  const int64_t before = store_state_.defined() ? store_state_.size(0) : 0;
  const auto grown = [&](const at::Tensor& old, at::ScalarType type) {
    at::Tensor made =
        at::empty({entries, capacity}, at::TensorOptions(type).device(memory_->device()));
    if (before > 0) made.narrow(0, 0, before).narrow(1, 0, old.size(1)).copy_(old);
    return made;
  };
  store_state_ = grown(store_state_, at::kInt);
  store_cost_ = grown(store_cost_, at::kFloat);
  for (int64_t entry = entries; entry-- > before;)
    free_entries_.push_back(static_cast<int32_t>(entry));
}

int64_t GpuStreams::open(std::optional<std::vector<float>> word_costs) {
  const c10::cuda::CUDAGuard guard(memory_->device());
  if (free_entries_.empty()) make_entries(2 * store_state_.size(0), store_state_.size(1));
  at::Tensor costs = word_costs_;
  if (word_costs) {
    costs = word_costs->empty()
                ? at::Tensor()
                : memory_->upload(word_costs->data(),
                                  static_cast<int64_t>(sizeof(float) * word_costs->size()));
  }
  const int32_t entry = free_entries_.back();
  free_entries_.pop_back();
  return streams_.add({entry, std::move(costs), {}});
}

void GpuStreams::close(int64_t stream) { free_entries_.push_back(streams_.remove(stream).entry); }

void GpuStreams::advance(std::span<const WfstPiece> pieces) {
  const c10::cuda::CUDAGuard guard(memory_->device());
  const std::vector<Stream*> streams = streams_.of(piece_streams(pieces));
  const auto frames = piece_frames(pieces, memory_->graph().view().columns, memory_->device());
  memory_->make_workspaces(static_cast<int64_t>(pieces.size()));
  for (std::vector<size_t> open = longest_first(frames); !open.empty();)
    search(pieces, streams, open);
}

void GpuStreams::search(std::span<const WfstPiece> pieces, const std::vector<Stream*>& streams,
                        std::vector<size_t>& open) {
  std::vector<PassingRow> rows;
  for (const size_t i : open) {
    const at::Tensor &lp = pieces[i].lp, &costs = streams[i]->word_costs;
    PassingRow row = streams[i]->history.next_row();
    row.lp = lp.const_data_ptr<float>();
    row.word_costs = costs.defined() ? static_cast<const float*>(costs.const_data_ptr()) : nullptr;
    row.frames = static_cast<int32_t>(lp.size(0));
    row.entry = streams[i]->entry;
    rows.push_back(row);
  }
  PassingBatch batch;
  batch.beam = beam_;
  batch.max_active = max_active_;
  batch.store = {store_state_.size(1), store_state_.mutable_data_ptr<int32_t>(),
                 store_cost_.mutable_data_ptr<float>()};
  const PassingRun run = memory_->run(batch, rows, reads_);
  const std::vector<PassingEnd>& ends = run.ends;

  const int64_t held = std::min(run.traces_used, memory_->traces().size(0));
  const at::Tensor host = reads_.values(memory_->traces().narrow(0, 0, held));
  const auto* traces = static_cast<const PassingTrace*>(host.const_data_ptr());
  positions_.assign(static_cast<size_t>(held), PieceHistory::kNoPosition);
  const auto without_room = [](const PassingEnd& end) {
    return end.status == PassingStatus::out_of_traces || end.status == PassingStatus::out_of_store;
  };
  std::vector<int64_t> tokens;
  for (const PassingEnd& end : ends) tokens.push_back(end.tokens);
  const auto threads =
      std::min(static_cast<size_t>(at::get_num_threads()), 1 + open.size() / kRowsOfAThread);
  for_each_utterance(tokens, threads, [&](size_t, size_t n) {
    if (!without_room(ends[n])) streams[open[n]]->history.append(ends[n], traces, positions_);
  });

  std::vector<size_t> left;
  int64_t most_tokens = store_state_.size(1);
  for (size_t n = 0; n < open.size(); ++n) {
    if (!without_room(ends[n])) continue;
    left.push_back(open[n]);
    if (ends[n].status == PassingStatus::out_of_store)
      most_tokens = std::max<int64_t>(most_tokens, ends[n].tokens);
  }
  if (most_tokens > store_state_.size(1)) {
    const int64_t states = memory_->graph().view().states;
    make_entries(store_state_.size(0), std::min(2 * most_tokens, states));
  }
  if (run.traces_used > held) memory_->grow_traces(run.traces_used);
  open = std::move(left);
}

const PieceHistory& GpuStreams::begun(int64_t stream) {
  const PieceHistory& history = streams_.at(stream).history;
  if (!history.begun()) {
    const int64_t columns = memory_->graph().view().columns;
    const at::Tensor no_frames =
        at::empty({0, columns}, at::TensorOptions(at::kFloat).device(memory_->device()));
    advance(std::array{WfstPiece{stream, no_frames}});
  }
  return history;
}

WfstPath GpuStreams::partial(int64_t stream) {
  return begun(stream).best_path(memory_->graph().view(), false);
}

WfstPath GpuStreams::finish(int64_t stream) {
  return begun(stream).best_path(memory_->graph().view(), true);
}

}  // namespace rtfx
