#include "algorithms/gpu/loop_driver.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <fmt/format.h>

#include <algorithm>

#include "algorithms/batched_hypotheses.h"
#include "algorithms/gpu/condition.h"
#include "algorithms/gpu/graph.h"
#include "algorithms/gpu/host_read.h"
#include "base/error.h"
#include "base/gpu/rounding.h"
#include "base/nvtx.h"
#include "base/terminal.h"
#include "models/checkpoint/tensor_data.h"

namespace rtfx {

namespace {

/// Recordings have a multiple of this number of encoder frames, so that batches of similar length
/// share one.
constexpr int64_t kEncoderFrameStep = 64;

/// Records loops as while nodes of one graph.
class GraphLoops : public Loops {
 public:
  explicit GraphLoops(GraphRecorder& recorder) : recorder_(recorder) {}

  void segment(RangeName name, const std::function<void()>& work) override {
    const ScopedRange range(name);
    work();
  }

  void while_any(const at::Tensor& flags, const std::function<void()>& body) override {
    const cudaGraphConditionalHandle condition = recorder_.condition();
    const auto test = [&] {
      const at::Tensor any = flags.numel() == 1 ? flags : flags.any();
      set_condition(condition, data_of<bool>(any), recorder_.stream());
    };
    test();
    recorder_.while_node(condition, [&] {
      body();
      test();
    });
  }

 private:
  GraphRecorder& recorder_;
};

/// A part of a search that the host replays: a segment, or a loop over such parts.
struct Step {
  RangeName name{};         // name of the segment
  Graph graph;              // the recorded segment; empty for a loop
  at::Tensor flags;         // a loop goes on while any of these is set
  std::vector<Step> steps;  // body of the loop
};

/// Records each segment as a graph of its own.
class ReplayLoops : public Loops {
 public:
  explicit ReplayLoops(std::vector<Step>& steps) : steps_(&steps) {}

  void segment(RangeName name, const std::function<void()>& work) override {
    const ScopedRange range(name);
    steps_->push_back({name, Graph::record([&](GraphRecorder&) { work(); }), {}, {}});
  }

  void while_any(const at::Tensor& flags, const std::function<void()>& body) override {
    Step loop{{}, {}, flags, {}};
    std::vector<Step>* outer = steps_;
    steps_ = &loop.steps;
    body();
    steps_ = outer;
    steps_->push_back(std::move(loop));
  }

 private:
  std::vector<Step>* steps_;
};

/// Launches the steps in order. `segments` counts the launched segments, to number their ranges.
void replay(const std::vector<Step>& steps, HostReads& reads, cudaStream_t stream,
            int64_t& segments) {
  for (const Step& step : steps) {
    if (step.graph) {
      const ScopedRange range(step.name, segments++);
      step.graph.launch(stream);
    } else {
      while (reads.any(step.flags)) replay(step.steps, reads, stream, segments);
    }
  }
}

}  // namespace

std::string available_loop(const std::string& loop, at::Device device, const std::string& decoder) {
  if (loop == "host") return loop;
  if (!device.is_cuda()) {
    throw UserError(decoder, fmt::format("\"loop\": \"{}\" needs a GPU", loop),
                    "use \"loop\": \"host\", or --device cuda");
  }
  const c10::cuda::CUDAGuard guard(device);
  const std::string missing = loop == "graph" ? conditional_nodes_missing() : "";
  if (missing.empty()) return loop;
  print_message("rtfx: {}: {}; the host drives its loops\n", decoder, missing);
  return "host";
}

struct RecordedSearch::Recording {
  EncodedBatch input;  // the graphs read it at a fixed address
  Hypotheses result;   // the graphs write it at a fixed address
  Graph graph;
  std::vector<Step> steps;
};

RecordedSearch::RecordedSearch(std::string loop, Search search)
    : loop_(std::move(loop)), search_(std::move(search)) {}
RecordedSearch::~RecordedSearch() = default;

void RecordedSearch::prepare(const Limits& limits, const at::Tensor& like) {
  if (limits.max_batch > 0 && limits.max_frames > 0)
    record(limits.max_batch, limits.max_frames, like);
}

void RecordedSearch::record(int64_t rows, int64_t frames, const at::Tensor& like) {
  const AllowSync allow;
  stale_ = true;  // if this fails, memory that the old recording reads may have moved
  auto recording = std::make_unique<Recording>();
  Recording& r = *recording;
  frames = round_up(frames, kEncoderFrameStep);
  r.input.frames = at::zeros({rows, frames, like.size(-1)}, like.options());
  r.input.lengths = at::zeros({rows}, like.options().dtype(at::kLong));
  {
    // Searches once without recording, so that libraries can do the setup of their first call.
    HostReads reads;
    HostLoops loops(reads);
    search_({r.input.frames, r.input.lengths.add(1), {}}, loops);
  }
  recording_.reset();
  retry_out_of_memory([&] {
    if (loop_ == "graph") {
      r.graph = Graph::record([&](GraphRecorder& recorder) {
        GraphLoops loops(recorder);
        r.result = search_(r.input, loops);
      });
    } else {
      r.steps.clear();
      ReplayLoops loops(r.steps);
      r.result = search_(r.input, loops);
    }
  });
  ++captures_;
  stale_ = false;
  recording_ = std::move(recording);
}

Hypotheses RecordedSearch::run(const EncodedBatch& batch, HostReads& reads) {
  const int64_t rows = batch.frames.size(0), frames = batch.frames.size(1);
  const int64_t most_rows = recording_ ? recording_->input.frames.size(0) : 0,
                most_frames = recording_ ? recording_->input.frames.size(1) : 0;
  if (!recording_ || stale_ || rows > most_rows || frames > most_frames) {
    record(std::max({rows, most_rows, int64_t{1}}), std::max({frames, most_frames, int64_t{1}}),
           batch.frames);
  }
  Recording& r = *recording_;
  // The frames were projected to another tensor, and are copied here. To project them directly into
  // the graph's input, a matrix product of its size would be needed, which is larger than most
  // batches. The copy costs one read and one write of the frames.
  r.input.frames.narrow(0, 0, rows).narrow(1, 0, frames).copy_(batch.frames);
  r.input.lengths.zero_();
  r.input.lengths.narrow(0, 0, rows).copy_(batch.lengths);
  const auto stream = c10::cuda::getCurrentCUDAStream(batch.frames.device().index()).stream();
  if (loop_ == "graph") {
    const ScopedRange range(RangeName::decode_graph, 0);
    r.graph.launch(stream);
  } else {
    int64_t segments = 0;
    replay(r.steps, reads, stream, segments);
  }
  return r.result.each([&](const at::Tensor& t) { return t.narrow(0, 0, rows); }).clone();
}

std::string LoopDriver::prepare(const std::string& loop, const std::string& decoder,
                                const Limits& limits, const at::Tensor& like, Project project,
                                Search search) {
  const std::string form = available_loop(loop, like.device(), decoder);
  project_ = std::move(project);
  search_ = std::move(search);
  {
    HostLoops loops(reads_);
    search_({like, at::zeros({1}, like.options().dtype(at::kLong)), {0}}, loops);
  }
  if (form != "host") {
    recorded_.emplace(form, search_);
    recorded_->prepare(limits, like);
  }
  return form;
}

void LoopDriver::reset_counts() {
  reads_.reset();
  if (recorded_) recorded_->reset_captures();
}

Hypotheses LoopDriver::decode(const EncodedBatch& batch) {
  reset_counts();
  return project_and_search(batch);
}

Hypotheses LoopDriver::decode_one_by_one(const EncodedBatch& batch) {
  reset_counts();
  std::vector<Hypotheses> rows;
  for (int64_t b = 0; b < batch.frames.size(0); ++b) {
    const int64_t length = batch.lengths_host[static_cast<size_t>(b)];
    rows.push_back(project_and_search({batch.frames.narrow(0, b, 1).narrow(1, 0, length),
                                       batch.lengths.narrow(0, b, 1),
                                       {length}}));
  }
  return concatenate(rows);
}

Hypotheses LoopDriver::project_and_search(const EncodedBatch& batch) {
  EncodedBatch projected = batch;
  {
    const ScopedRange range(RangeName::decode_project, batch.frames.size(0));
    projected.frames = project_(batch.frames);
  }
  const ScopedRange range(RangeName::decode_loop, batch.frames.size(0));
  if (recorded_) return recorded_->run(projected, reads_);
  HostLoops loops(reads_);
  return search_(projected, loops);
}

Counters LoopDriver::counters(Counters counts) const {
  if (recorded_) return {{"host_reads", reads_.count()}, {"graph_captures", recorded_->captures()}};
  counts["host_reads"] = reads_.count();
  return counts;
}

}  // namespace rtfx
