#include "algorithms/gpu/recorded_search.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <fmt/format.h>

#include <algorithm>

#include "algorithms/gpu/condition.h"
#include "algorithms/gpu/graph.h"
#include "algorithms/gpu/rounding.h"
#include "algorithms/gpu/sync_debug.h"
#include "base/error.h"

namespace rtfx {
namespace {

constexpr int64_t kEncoderFrameStep = 64;  // batches of similar length share a recording

/// Loops as while nodes of the graph that is being recorded.
class GraphLoops : public Loops {
 public:
  explicit GraphLoops(GraphRecorder& recorder) : recorder_(recorder) {}

  void piece(const std::function<void()>& work) override { work(); }

  void while_any(const at::Tensor& flags, const std::function<void()>& body) override {
    const cudaGraphConditionalHandle condition = recorder_.condition();
    const auto test = [&] {
      const at::Tensor any = flags.numel() == 1 ? flags : flags.any();
      set_condition(condition, any.const_data_ptr<bool>(), recorder_.stream());
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

/// A search as graphs that the host launches one by one.
struct Step {
  Graph graph;              // a piece, or
  at::Tensor flags;         // a loop over
  std::vector<Step> steps;  // these
};

/// Records each piece as a graph of its own.
class ReplayLoops : public Loops {
 public:
  explicit ReplayLoops(std::vector<Step>& steps) : steps_(&steps) {}

  void piece(const std::function<void()>& work) override {
    steps_->push_back({Graph::record([&](GraphRecorder&) { work(); }), {}, {}});
  }

  void while_any(const at::Tensor& flags, const std::function<void()>& body) override {
    Step loop{{}, flags, {}};
    std::vector<Step>* outer = steps_;
    steps_ = &loop.steps;
    body();
    steps_ = outer;
    steps_->push_back(std::move(loop));
  }

 private:
  std::vector<Step>* steps_;
};

void replay(const std::vector<Step>& steps, HostReads& reads, cudaStream_t stream) {
  for (const Step& step : steps) {
    if (step.graph) {
      step.graph.launch(stream);
    } else {
      while (reads.any(step.flags)) replay(step.steps, reads, stream);
    }
  }
}

}  // namespace

std::string GraphForm::available(const std::string& graphs, at::Device device,
                                 const std::string& decoder) {
  if (graphs == "none") return graphs;
  if (!device.is_cuda()) {
    throw UserError(decoder, fmt::format("\"graphs\": \"{}\" needs a GPU", graphs),
                    "use \"graphs\": \"none\", or --device cuda");
  }
  const c10::cuda::CUDAGuard guard(device);
  const std::string missing = graphs == "conditional" ? conditional_nodes_missing() : "";
  if (missing.empty()) return graphs;
  fmt::print(stderr, "rtfx: {}: {}; the host drives its loops\n", decoder, missing);
  return "none";
}

struct RecordedSearch::Recording {
  at::Tensor encoded, lengths;  // inputs at a fixed address
  Hypotheses result;            // outputs too
  Graph graph;
  std::vector<Step> steps;
};

RecordedSearch::RecordedSearch(std::string graphs, Search search)
    : graphs_(std::move(graphs)), search_(std::move(search)) {}
RecordedSearch::~RecordedSearch() = default;

void RecordedSearch::prepare(const Limits& limits, const at::Tensor& like) {
  if (limits.max_batch > 0 && limits.max_frames > 0)
    record(limits.max_batch, limits.max_frames, like);
}

void RecordedSearch::record(int64_t rows, int64_t frames, const at::Tensor& like) {
  const AllowSync allow;
  auto recording = std::make_unique<Recording>();
  Recording& r = *recording;
  frames = round_up(frames, kEncoderFrameStep);
  r.encoded = at::zeros({rows, frames, like.size(-1)}, like.options());
  r.lengths = at::zeros({rows}, like.options().dtype(at::kLong));
  {
    // Once for real, so that libraries make what they make at the first call.
    HostReads reads;
    HostLoops loops(reads);
    search_(r.encoded, r.lengths.add(1), loops);
  }
  recording_.reset();
  retry_out_of_memory([&] {
    if (graphs_ == "conditional") {
      r.graph = Graph::record([&](GraphRecorder& recorder) {
        GraphLoops loops(recorder);
        r.result = search_(r.encoded, r.lengths, loops);
      });
    } else {
      r.steps.clear();
      ReplayLoops loops(r.steps);
      r.result = search_(r.encoded, r.lengths, loops);
    }
  });
  ++captures_;
  recording_ = std::move(recording);
}

Hypotheses RecordedSearch::run(const at::Tensor& encoded, const at::Tensor& lengths,
                               HostReads& reads) {
  const int64_t rows = encoded.size(0), frames = encoded.size(1);
  const bool fits =
      recording_ && rows <= recording_->encoded.size(0) && frames <= recording_->encoded.size(1);
  if (!fits) {
    const int64_t most_rows = recording_ ? recording_->encoded.size(0) : 1,
                  most_frames = recording_ ? recording_->encoded.size(1) : 1;
    record(std::max(rows, most_rows), std::max(frames, most_frames), encoded);
  }
  Recording& r = *recording_;
  r.encoded.narrow(0, 0, rows).narrow(1, 0, frames).copy_(encoded);
  r.lengths.zero_();
  r.lengths.narrow(0, 0, rows).copy_(lengths);
  const auto stream = c10::cuda::getCurrentCUDAStream(encoded.device().index()).stream();
  if (graphs_ == "conditional") {
    r.graph.launch(stream);
  } else {
    replay(r.steps, reads, stream);
  }
  return r.result.each([&](const at::Tensor& t) { return t.narrow(0, 0, rows).clone(); });
}

}  // namespace rtfx
