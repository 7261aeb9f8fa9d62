// This plugin is for the tests that decoders cannot harm the program. It returns empty results,
// until it breaks its contract in the way that its option names.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <unistd.h>

#include <cfenv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <thread>

#include "algorithms/decoder.h"
#include "models/acoustic_model.h"

namespace rtfx {
namespace {

/// Returns the mark, a file that makes the next process end when it loads the plug-in. Returns null
/// if no mark is named.
const char* mark_of_end() { return std::getenv("RTFX_TEST_ENDS_AT_LOAD"); }

/// Returns whether another process of rtfx has started this one.
bool is_child() {
  std::ifstream file("/proc/self/cmdline");
  const std::string words(std::istreambuf_iterator<char>(file), {});
  return words.find("--child") != std::string::npos;
}

[[maybe_unused]] const bool loaded = [] {
  if (std::getenv("RTFX_TEST_ENDS_CHILDREN") != nullptr && is_child()) std::raise(SIGKILL);
  if (mark_of_end() != nullptr && std::remove(mark_of_end()) == 0) std::raise(SIGKILL);
  return true;
}();

struct FaultyDecoderOptions {
  std::string fault = "signal";
  int64_t signal = SIGKILL;
  int64_t decodes = 0;

  static const OptionTable<FaultyDecoderOptions>& table() {
    using O = FaultyDecoderOptions;
    static const OptionTable<O> table{{
        option("fault", &O::fault, "how it misbehaves",
               {"none",         "signal",         "exit",       "_exit",
                "quick_exit",   "abort",          "hang",       "slow",
                "throw_int",    "throw_error",    "throw_c10",  "fewer_rows",
                "no_rows",      "more_rows",      "length",     "negative_length",
                "nan_score",    "infinite_score", "list_score", "frame_before",
                "frame_behind", "decreasing",     "durations",  "blank",
                "token",        "dtype",          "shape",      "strides",
                "undefined",    "device",         "weights",    "frames",
                "lengths",      "threads",        "autocast",   "rounding",
                "forks"}),
        option("signal", &O::signal, "which ends the process", 1, 64),
        option("decodes", &O::decodes, "calls of decode() that go well before it", 0),
    }};
    return table;
  }
};

/// Returns two tokens for each row.
Hypotheses two_tokens(int64_t rows) {
  Hypotheses h = Hypotheses::one_block(rows, /*entries=*/1, /*capacity=*/4,
                                       /*with_durations=*/false, at::kCPU);
  h.nbest = {};
  h.lengths.fill_(2);
  h.tokens.fill_(1);
  h.frames.fill_(3);
  h.scores.fill_(-1);
  h.nan.fill_(false);
  return h;
}

class FaultyDecoder : public DecoderBase<FaultyDecoderOptions> {
 public:
  using DecoderBase::DecoderBase;

  Description describe() const override {
    return {"faulty", Head::none, Description::Exactness::approximate, {}, ""};
  }
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override {
    blank_ = model->config.vocabulary;
    model_ = std::move(model);
  }
  Hypotheses decode(const EncodedBatch& batch) override {
    const int64_t rows = batch.frames.size(0);
    if (calls_++ < options_.decodes) return Hypotheses::empty(rows, at::kCPU);
    end_process();
    raise();
    trespass(batch);
    return wrong_result(rows);
  }

 private:
  bool is(const char* fault) const { return options_.fault == fault; }

  void end_process() const {
    if (mark_of_end() != nullptr) std::ofstream(mark_of_end()).put('x');
    if (is("signal")) std::raise(static_cast<int>(options_.signal));
    if (is("exit")) std::exit(0);
    if (is("_exit")) ::_exit(0);
    if (is("quick_exit")) std::quick_exit(0);
    if (is("abort")) std::abort();
    while (is("hang")) std::this_thread::sleep_for(std::chrono::seconds(1));
    if (is("slow")) std::this_thread::sleep_for(std::chrono::seconds(1));
  }

  void raise() const {
    if (is("throw_int")) throw 1;
    if (is("throw_error")) throw std::runtime_error("of its own");
    if (is("throw_c10")) at::zeros({2}).view({3});
  }

  /// Changes state that other decoders use.
  void trespass(const EncodedBatch& batch) const {
    if (is("weights")) model_->joint->output().weight.zero_();
    if (is("frames")) batch.frames.zero_();
    if (is("lengths")) batch.lengths.fill_(1);
    if (is("threads")) at::set_num_threads(at::get_num_threads() + 1);
    if (is("autocast")) at::autocast::set_autocast_enabled(at::kCPU, true);
    if (is("rounding")) std::fesetround(FE_UPWARD);
    if (is("forks") && fork() == 0) setpgid(0, 0);
  }

  /// Returns a result whose last row has the fault.
  Hypotheses wrong_result(int64_t rows) const {
    if (is("fewer_rows")) return two_tokens(rows - 1);
    if (is("no_rows")) return two_tokens(0);
    if (is("more_rows")) return two_tokens(rows + 1);
    Hypotheses h = two_tokens(rows);
    const auto put = [&](const at::Tensor& values, int64_t slot, int64_t value) {
      values[rows - 1][slot].fill_(value);
    };
    const auto infinity = std::numeric_limits<float>::infinity();
    if (is("length")) h.lengths[rows - 1].fill_(1 << 30);
    if (is("negative_length")) h.lengths[rows - 1].fill_(-1);
    if (is("nan_score")) h.scores[rows - 1].fill_(std::numeric_limits<float>::quiet_NaN());
    if (is("infinite_score")) h.scores[rows - 1].fill_(infinity);
    if (is("list_score")) {
      const auto twice = [](const at::Tensor& t) { return at::stack({t, t}, 1); };
      h.nbest = {twice(h.lengths), twice(h.tokens), twice(h.frames), {}, twice(h.scores)};
      h.nbest.scores[rows - 1][1].fill_(std::numeric_limits<float>::quiet_NaN());
    }
    if (is("frame_before")) put(h.frames, 0, -100);
    if (is("frame_behind")) put(h.frames, 1, 1 << 30);
    if (is("decreasing")) put(h.frames, 1, 2);
    if (is("durations")) h.durations = h.frames.clone();
    if (is("blank")) put(h.tokens, 1, blank_);
    if (is("token")) put(h.tokens, 1, -7);
    if (is("dtype")) h.tokens = h.tokens.to(at::kLong);
    if (is("shape")) h.frames = h.frames.narrow(1, 0, 2);
    if (is("strides")) h.tokens = h.tokens.t().contiguous().t();
    if (is("undefined")) h.scores = at::Tensor();
    if (is("device")) h.lengths = h.lengths.to(at::kMeta);
    return h;
  }

  std::shared_ptr<const AcousticModel> model_;
  int64_t blank_ = 0, calls_ = 0;
};

const Register<FaultyDecoder> registered{"faulty", "breaks its contract"};

}  // namespace
}  // namespace rtfx
