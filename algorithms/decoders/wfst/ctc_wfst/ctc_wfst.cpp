#include "algorithms/decoders/wfst/ctc_wfst/ctc_wfst.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "algorithms/batched_hypotheses.h"
#include "algorithms/blank_penalty.h"
#include "algorithms/decoders/wfst/ctc_wfst/passing.h"
#include "algorithms/decoders/wfst/ctc_wfst/passing_memory.h"
#include "algorithms/gpu/new_stream.h"
#include "algorithms/shared/skipping/blank_skipping.h"
#include "algorithms/shared/wfst/wfst_batch.h"
#include "base/error.h"
#include "base/gpu/check.h"
#include "base/nvtx.h"
#include "models/acoustic_model.h"
#include "models/checkpoint/tensor_data.h"
#include "models/parallel.h"

namespace rtfx {

namespace {

constexpr std::array kFramePhases = {
    PassingPhase::choose,  PassingPhase::bound, PassingPhase::expand, PassingPhase::follow,
    PassingPhase::reserve, PassingPhase::link,  PassingPhase::keep};

/// The stream for copies of histories, which all searches of the device share.
struct HistoryCopies {
  explicit HistoryCopies(at::DeviceIndex gpu)
      : stream(new_stream(gpu, "rtfx history copies", /*high_priority=*/false)) {}

  c10::cuda::CUDAStream stream;
};

at::Tensor on_device(size_t bytes, at::Device device) {
  return at::empty({static_cast<int64_t>(bytes)}, at::TensorOptions(at::kByte).device(device));
}

/// The steps of rows that are searched together, for search_steps(). Step 0 lies before the first
/// frame. The traces of a step lie behind those of the steps before, and no later step changes
/// them. So they can be copied while the next step is in flight.
struct Steps {
  std::function<void(int64_t step)> enqueue;
  const PassingBatch& batch;
  PassingTrace* history;
  unsigned long long* traces_used;  // counts after the last two steps
  c10::cuda::CUDAStream stream, copies;
  std::array<c10::cuda::CUDAEvent, 2>& searched;
  c10::cuda::CUDAEvent& copied;
  HostReads& reads;
  int64_t& collected;  // number of traces whose copy was enqueued

  void search(int64_t step) {
    enqueue(step);
    RTFX_CUDA(cudaMemcpyAsync(traces_used + step % 2, batch.traces_used, sizeof(*traces_used),
                              cudaMemcpyDeviceToHost, stream));
    searched[static_cast<size_t>(step % 2)].record(stream);
  }

  void collect(int64_t step) {
    reads.wait(searched[static_cast<size_t>(step % 2)]);
    // A count above the capacity means that some rows had no room. All are searched again then.
    const auto used = static_cast<int64_t>(traces_used[step % 2]);
    const int64_t end = std::min(used, batch.trace_capacity);
    if (end == collected) return;
    RTFX_CUDA(cudaMemcpyAsync(history + collected, batch.traces + collected,
                              sizeof(PassingTrace) * static_cast<size_t>(end - collected),
                              cudaMemcpyDeviceToHost, copies));
    collected = end;
  }

  void wait() {
    copied.record(copies);
    reads.wait(copied);
  }
};

}  // namespace

PhasedSearch::PhasedSearch(const PassingMemory& memory, Form form)
    : memory_(memory),
      form_(form),
      batch_(on_device(sizeof(PassingBatch), memory.device())),
      traces_used_(at::empty({2}, at::TensorOptions(at::kLong).pinned_memory(true))),
      copies_(one_for_gpu<HistoryCopies>(memory.device().index()).stream) {}

const PassingTrace* PhasedSearch::history() const {
  return static_cast<const PassingTrace*>(history_.const_data_ptr());
}

PassingRun PhasedSearch::run(const PassingBatch& batch, const std::vector<PassingRow>& rows,
                             HostReads& reads) {
  prepare();
  return memory_.run(batch, rows, reads,
                     [&](const PassingBatch& complete) { search(complete, rows, reads); });
}

void PhasedSearch::prepare() {
  if (!history_.defined() || history_.size(0) < memory_.traces().size(0)) {
    history_.reset();
    history_ = at::empty(memory_.traces().sizes(), at::TensorOptions(at::kInt).pinned_memory(true));
  }
  const PassingWorkspaces& workspaces = memory_.passing_workspaces();
  if (workspaces.best == workspaces_.best && workspaces.workspaces == workspaces_.workspaces)
    return;
  progress_ = on_device(sizeof(PassingProgress) * static_cast<size_t>(workspaces.workspaces),
                        memory_.device());
  workspaces_ = workspaces;
  if (!form_.replay) return;
  try {
    record_frame();
  } catch (...) {
    workspaces_ = {};  // The next call records again.
    throw;
  }
}

void PhasedSearch::record_frame() {
  // A run without rows loads the kernels onto the device. That cannot be done during a recording.
  upload({});
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(memory_.device().index());
  launch(PassingPhase::begin, 0, stream);
  launch_frame(stream);
  frame_ = Graph::record([&](GraphRecorder& recorder) { launch_frame(recorder.stream()); });
  ++captures_;
}

void PhasedSearch::upload(const PassingBatch& batch) {
  const at::Tensor host = at::from_blob(const_cast<PassingBatch*>(&batch), {batch_.size(0)},
                                        at::TensorOptions(at::kByte));
  batch_.copy_(host.pin_memory(), /*non_blocking=*/true);
}

void PhasedSearch::launch(PassingPhase phase, int64_t first_row, cudaStream_t stream) const {
  launch_phase(phase, memory_.passing_graph(), workspaces_,
               static_cast<const PassingBatch*>(batch_.const_data_ptr()),
               static_cast<PassingProgress*>(progress_.mutable_data_ptr()), first_row, stream);
}

void PhasedSearch::launch_frame(cudaStream_t stream) const {
  for (const PassingPhase phase : kFramePhases)
    if (phase != PassingPhase::link || form_.links) launch(phase, 0, stream);
}

void PhasedSearch::search(const PassingBatch& batch, const std::vector<PassingRow>& rows,
                          HostReads& reads) {
  upload(batch);
  const auto stream = c10::cuda::getCurrentCUDAStream(memory_.device().index());
  int64_t collected = 0;
  for (size_t first = 0; first < rows.size();
       first += static_cast<size_t>(workspaces_.workspaces)) {
    const size_t end = std::min(rows.size(), first + static_cast<size_t>(workspaces_.workspaces));
    int64_t frames = 0;
    for (size_t n = first; n < end; ++n) frames = std::max<int64_t>(frames, rows[n].frames);
    const auto enqueue = [&](int64_t step) {
      const ScopedRange range(step == 0 ? RangeName::decode_init : RangeName::decode_step, step);
      if (step == 0) {
        launch(PassingPhase::begin, static_cast<int64_t>(first), stream);
      } else if (form_.replay) {
        frame_.launch(stream);
      } else {
        launch_frame(stream);
      }
    };
    Steps steps{enqueue,
                batch,
                static_cast<PassingTrace*>(history_.mutable_data_ptr()),
                static_cast<unsigned long long*>(traces_used_.mutable_data_ptr()),
                stream,
                form_.double_buffer ? copies_ : stream,
                searched_,
                copied_,
                reads,
                collected};
    search_steps(steps, 1 + frames, form_.double_buffer);
    launch(PassingPhase::finish, 0, stream);
  }
}

namespace {

constexpr int64_t kFirstLinks = int64_t{1} << 20;

/// Returns a copy on the GPU, undefined if there are no values. Does not wait.
template <class T>
at::Tensor uploaded(const PassingMemory& memory, const std::vector<T>& values) {
  if (values.empty()) return {};
  return memory.upload(values.data(), static_cast<int64_t>(sizeof(T) * values.size()))
      .view(c10::CppTypeToScalarType<T>::value);
}

constexpr int64_t kFirstEntries = 16, kFirstTokens = 4096;
constexpr size_t kRowsOfAThread = 32;  // fewer are not worth another thread

}  // namespace

Description CtcWfst::describe() const {
  return {"ctc_wfst",           Head::ctc, Description::Exactness::approximate, {"ctc"}, "logprob",
          /*streams=*/true,
          /*has_own_rule=*/true};
}

void CtcWfst::prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) {
  require_model_kind(describe(), *model);
  if (!model->device.is_cuda())
    throw UserError("ctc_wfst", "needs a GPU", "use ctc_wfst_cpu, or --device cuda");
  const c10::cuda::CUDAGuard guard(model->device);
  const WfstGraph graph = load_graph(options_, *model);
  model_ = with_blank_penalty(std::move(model), options_.blank_penalty);
  memory_ = std::make_shared<PassingMemory>(graph, options_.graph.string(), model_->device);
  memory_->make_workspaces(std::max<int64_t>(1, limits.max_batch));
  phased_.reset();
  if (options_.loop != "persistent") {
    phased_.emplace(*memory_, PhasedSearch::Form{options_.loop == "replay", options_.double_buffer,
                                                 options_.nbest > 1});
    phased_->prepare();
  }
  boosting_ = WordBoosting(options_.boost, graph);
  word_costs_ = uploaded(*memory_, boosting_.costs());
}

Hypotheses CtcWfst::decode(const EncodedBatch& batch) {
  const c10::cuda::CUDAGuard guard(model_->device);
  reads_.reset();
  at::Tensor lp, nan;
  {
    const ScopedRange range(RangeName::decode_project, batch.frames.size(0));
    lp = scaled_log_probs(*model_, batch.frames, options_.acoustic_scale);
    // A NaN or +infinity among the logits makes the whole frame NaN.
    nan = rows_with_nan(lp.narrow(2, 0, 1), batch.lengths);
  }
  const ScopedRange range(RangeName::decode_loop, batch.frames.size(0));
  std::vector<std::vector<WfstPath>> lists;
  const auto paths =
      search(lp, batch.lengths_host, batch.biases, options_.nbest > 1 ? &lists : nullptr);
  nan = reads_.values(nan);
  counters_["host_reads"] = reads_.count();
  counters_["not_final"] = count_not_final(paths);
  const ScopedRange trace_back(RangeName::decode_trace_back);
  return wfst_hypotheses(paths, nan, word_text(memory_->graph()), lists);
}

std::unique_ptr<Streams> CtcWfst::streams(const StreamLimits&) {
  StreamLists lists;
  if (options_.nbest > 1) {
    lists.search = [this](const at::Tensor& lp, const std::shared_ptr<const CompiledBias>& bias) {
      const c10::cuda::CUDAGuard guard(memory_->device());
      std::vector<std::vector<WfstPath>> found;
      search(lp.unsqueeze(0), {lp.size(0)}, {bias}, &found);
      return std::move(found.front());
    };
    lists.no_frames = at::empty({0, memory_->graph().view().columns},
                                at::TensorOptions(at::kFloat).device(memory_->device()));
  }
  return std::make_unique<WfstStreams>(
      std::make_unique<GpuStreams>(memory_, static_cast<float>(options_.beam), options_.max_active,
                                   word_costs_),
      [this](const at::Tensor& frames) {
        return scaled_log_probs(*model_, frames, options_.acoustic_scale);
      },
      word_text(memory_->graph()), boosting_, std::move(lists));
}

/// Returns the word costs of a row with this bias, [W + 1] float32. They are undefined if no word
/// is boosted. Does not wait.
at::Tensor CtcWfst::row_word_costs(const CompiledBias& bias) const {
  std::vector<int64_t> words;
  std::vector<float> costs;
  for (const auto& [word, cost] : word_costs_of(bias)) {
    words.push_back(word);
    costs.push_back(cost);
  }
  if (words.empty()) return word_costs_;
  const at::Tensor table = word_costs_.defined()
                               ? word_costs_.clone()
                               : at::zeros({memory_->graph().words() + 1},
                                           at::TensorOptions(at::kFloat).device(memory_->device()));
  return table.index_copy_(0, uploaded(*memory_, words), uploaded(*memory_, costs));
}

std::vector<WfstPath> CtcWfst::search(const at::Tensor& lp, const std::vector<int64_t>& lengths,
                                      const RowBiases& biases,
                                      std::vector<std::vector<WfstPath>>* lists) {
  RTFX_CHECK(biases.empty() || biases.size() == lengths.size(), "biases of some rows alone");
  const GraphView& graph = memory_->graph().view();
  const int64_t count = lp.size(0), frames = lp.size(1);
  if (phased_) phased_->reset_captures();
  memory_->make_workspaces(count);
  std::map<const CompiledBias*, at::Tensor> tables = {{nullptr, word_costs_}};
  for (const auto& bias : biases)
    if (!tables.contains(bias.get())) tables.emplace(bias.get(), row_word_costs(*bias));

  const std::vector<size_t> order = longest_first(lengths);
  std::vector<PassingRow> rows;
  for (const size_t b : order) {
    const at::Tensor& table = tables.at(biases.empty() ? nullptr : biases[b].get());
    PassingRow row;
    row.lp = data_of<float>(lp) + static_cast<int64_t>(b) * frames * graph.columns;
    row.word_costs = table.defined() ? static_cast<const float*>(table.const_data_ptr()) : nullptr;
    row.frames = static_cast<int32_t>(lengths[b]);
    rows.push_back(row);
  }
  // If the host has the history, the kernel does not write paths.
  const int64_t path_capacity = phased_ ? 0 : longest_path(graph, frames);
  const at::Tensor arcs = at::empty({count, path_capacity}, lp.options().dtype(at::kInt));
  PassingBatch batch;
  batch.beam = static_cast<float>(options_.beam);
  batch.max_active = options_.max_active;
  batch.path_arcs = arcs.mutable_data_ptr<int32_t>();
  batch.path_capacity = path_capacity;
  if (lists != nullptr) {
    batch.lattice_beam = static_cast<float>(options_.lattice_beam);
    if (!memory_->links().defined()) memory_->grow_links(kFirstLinks);
  }
  PassingRun ended = run(batch, rows);
  for (;;) {
    const bool more_traces = ended.traces_used > memory_->traces().size(0);
    const bool more_links = lists != nullptr && ended.links_used > memory_->links().size(0);
    if (!more_traces && !more_links) break;
    if (more_traces) memory_->grow_traces(ended.traces_used);
    if (more_links) memory_->grow_links(ended.links_used);
    ended = run(batch, rows);
  }
  std::vector<WfstPath> paths = read_paths(ended, order, arcs);
  if (lists != nullptr) read_lists(ended, order, paths, *lists);
  counters_ = {{"kept_tokens", ended.traces_used},
               {"workspaces", std::min(count, memory_->workspaces())}};
  if (options_.loop == "replay") counters_["graph_captures"] = phased_->captures();
  return paths;
}

PassingRun CtcWfst::run(const PassingBatch& batch, const std::vector<PassingRow>& rows) {
  return phased_ ? phased_->run(batch, rows, reads_) : memory_->run(batch, rows, reads_);
}

/// Returns the path of each row. `order` has the numbers of the rows in the order of the search.
/// `arcs` holds PassingBatch::path_arcs for the rows in that order.
std::vector<WfstPath> CtcWfst::read_paths(const PassingRun& run, const std::vector<size_t>& order,
                                          const at::Tensor& arcs) {
  const GraphView& graph = memory_->graph().view();
  std::vector<WfstPath> paths(order.size());
  if (phased_) {
    for (size_t n = 0; n < order.size(); ++n) {
      const PassingEnd& end = run.ends[n];
      paths[order[n]] = passing_path(graph, end, true, path_arcs(phased_->history(), end, true));
    }
    return paths;
  }
  int32_t longest = 0;
  for (const PassingEnd& end : run.ends) longest = std::max(longest, end.arcs);
  const at::Tensor tails =
      reads_.values(arcs.narrow(1, arcs.size(1) - longest, longest).contiguous());
  for (size_t n = 0; n < order.size(); ++n) {
    const auto length = static_cast<size_t>(run.ends[n].arcs);
    const int32_t* tail_end = data_of<int32_t>(tails) + (n + 1) * static_cast<size_t>(longest);
    paths[order[n]] = passing_path(graph, run.ends[n], true, {tail_end - length, length});
  }
  return paths;
}

/// Fills `lists`. `order` has the numbers of the rows in the order of the search.
void CtcWfst::read_lists(const PassingRun& run, const std::vector<size_t>& order,
                         const std::vector<WfstPath>& paths,
                         std::vector<std::vector<WfstPath>>& lists) {
  const at::Tensor host = reads_.values(memory_->links().narrow(0, 0, run.links_used));
  const auto [lattice, ends] = passing_lattice(
      {static_cast<const PassingLink*>(host.const_data_ptr()), static_cast<size_t>(run.links_used)},
      run.traces_used, static_cast<int64_t>(order.size()),
      static_cast<float>(options_.lattice_beam));
  lists.resize(order.size());
  const auto some = [&, &lattice = lattice, &ends = ends](int64_t begin, int64_t end) {
    for (auto n = static_cast<size_t>(begin); n < static_cast<size_t>(end); ++n) {
      const WfstPath& best = paths[order[n]];
      if (!best.alive) continue;
      lists[order[n]] = best_paths(memory_->graph().view(), lattice, ends[n], best, options_.nbest);
    }
  };
  parallel_ranges(std::ssize(order), some);
}

GpuStreams::GpuStreams(std::shared_ptr<PassingMemory> memory, float beam, int64_t max_active,
                       at::Tensor word_costs)
    : memory_(std::move(memory)),
      beam_(beam),
      max_active_(max_active),
      word_costs_(std::move(word_costs)) {
  make_entries(kFirstEntries, std::min<int64_t>(kFirstTokens, memory_->graph().view().states));
}

/// Makes room for `entries` streams of up to `capacity` tokens each. Keeps the content of the
/// present entries.
void GpuStreams::make_entries(int64_t entries, int64_t capacity) {
  const int64_t before = store_state_.defined() ? store_state_.size(0) : 0;
  const auto grown = [&](const at::Tensor& old, at::ScalarType type) {
    at::Tensor made =
        at::empty({entries, capacity}, at::TensorOptions(type).device(memory_->device()));
    if (before > 0) made.narrow(0, 0, before).narrow(1, 0, old.size(1)).copy_(old);
    return made;
  };
  // If there is no memory for the second tensor, both members stay as they were.
  at::Tensor states = grown(store_state_, at::kInt), costs = grown(store_cost_, at::kFloat);
  store_state_ = std::move(states);
  store_cost_ = std::move(costs);
  for (int64_t entry = entries; entry-- > before;)
    free_entries_.push_back(static_cast<int32_t>(entry));
}

int64_t GpuStreams::open(std::optional<std::vector<float>> word_costs) {
  const c10::cuda::CUDAGuard guard(memory_->device());
  if (free_entries_.empty()) make_entries(2 * store_state_.size(0), store_state_.size(1));
  at::Tensor costs = on_device(word_costs);
  const int32_t entry = free_entries_.back();
  free_entries_.pop_back();
  return streams_.add({entry, std::move(costs), {}});
}

at::Tensor GpuStreams::on_device(const std::optional<std::vector<float>>& word_costs) const {
  return word_costs ? uploaded(*memory_, *word_costs) : word_costs_;
}

void GpuStreams::set_word_costs(int64_t number, std::optional<std::vector<float>> word_costs) {
  const c10::cuda::CUDAGuard guard(memory_->device());
  Stream& stream = streams_.at(number);
  stream.word_costs = on_device(word_costs);
  if (!stream.has_frames) stream.history = {};  // The search begins anew.
}

void GpuStreams::close(int64_t stream) { free_entries_.push_back(streams_.remove(stream).entry); }

void GpuStreams::advance(std::span<const WfstPiece> pieces) {
  const c10::cuda::CUDAGuard guard(memory_->device());
  const std::vector<Stream*> streams = streams_.find_all(piece_streams(pieces));
  const auto frames = piece_frames(pieces, memory_->graph().view().columns, memory_->device());
  memory_->make_workspaces(static_cast<int64_t>(pieces.size()));
  for (size_t i = 0; i < pieces.size(); ++i) streams[i]->has_frames |= frames[i] > 0;
  for (std::vector<size_t> open = longest_first(frames); !open.empty();)
    search(pieces, streams, open);
}

void GpuStreams::search(std::span<const WfstPiece> pieces, const std::vector<Stream*>& streams,
                        std::vector<size_t>& open) {
  std::vector<PassingRow> rows;
  for (const size_t i : open) {
    const at::Tensor &lp = pieces[i].lp, &costs = streams[i]->word_costs;
    PassingRow row = streams[i]->history.next_row();
    row.lp = data_of<float>(lp);
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

namespace {

const RegisterSkipping<CtcWfst> registered{"ctc_wfst",
                                           "CTC beam search (Viterbi) over a decoding graph of a "
                                           "lexicon and a word language model, on a GPU",
                                           kNeedsGpu};

}  // namespace

}  // namespace rtfx
