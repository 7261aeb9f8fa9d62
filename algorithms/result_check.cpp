#include "algorithms/result_check.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

namespace rtfx {
namespace {

using Sizes = std::vector<int64_t>;

/// Checks the tensors of one result.
class Layout {
 public:
  explicit Layout(const EncodedBatch& batch)
      : batch_(batch.frames.size(0)), batch_device_(batch.frames.device()) {}

  int64_t batch() const { return batch_; }

  /// Checks one tensor. The first tensor must be on the batch's device or on the host, and all
  /// others on the device of the first.
  void tensor(const at::Tensor& t, std::string_view name, at::ScalarType dtype,
              const Sizes& sizes) {
    if (!t.defined()) fail(name, "is not there");
    if (t.layout() != at::kStrided) fail(name, "is no dense tensor");
    if (t.scalar_type() != dtype)
      fail(name,
           fmt::format("is {}, not {}", c10::toString(t.scalar_type()), c10::toString(dtype)));
    if (t.sizes() != sizes)
      fail(name,
           fmt::format("is [{}], not [{}]", fmt::join(t.sizes(), ", "), fmt::join(sizes, ", ")));
    if (!first_) {
      if (!t.is_cpu() && t.device() != batch_device_)
        fail(name, fmt::format("is on {}, the batch on {}", t.device().str(), batch_device_.str()));
      first_ = {std::string(name), t.device()};
    }
    if (t.device() != first_->device)
      fail(name, fmt::format("is on {}, `{}` on {}", t.device().str(), first_->name,
                             first_->device.str()));
  }

  /// Checks a tensor with a slot for each token; the slots lie side by side.
  void slots(const at::Tensor& t, std::string_view name, const Sizes& sizes) {
    tensor(t, name, at::kInt, sizes);
    if (sizes.back() > 1 && t.stride(-1) != 1) fail(name, "has gaps between its slots");
  }

  /// Checks the tensors of a batch's results or of its n-best lists, whose sizes begin with `rows`.
  template <class Results>
  void results(const Results& r, const std::string& name, Sizes rows, bool with_durations) {
    tensor(r.lengths, name + "lengths", at::kInt, rows);
    tensor(r.scores, name + "scores", at::kFloat, rows);
    if (!r.tokens.defined()) fail(name + "tokens", "is not there");
    rows.push_back(r.tokens.dim() == 0 ? 0 : r.tokens.size(-1));
    slots(r.tokens, name + "tokens", rows);
    slots(r.frames, name + "frames", rows);
    if (with_durations) slots(r.durations, name + "durations", rows);
    if (!with_durations && r.durations.defined())
      fail(name + "durations", "is there, though the model or its head has none");
  }

 private:
  [[noreturn]] static void fail(std::string_view name, const std::string& problem) {
    throw WrongResult(-1, fmt::format("`{}` {}", name, problem));
  }

  struct Place {
    std::string name;
    at::Device device;
  };

  int64_t batch_;
  at::Device batch_device_;
  std::optional<Place> first_;  // place of the first tensor
};

void check_slot(int64_t row, const char* entry, size_t i, const Hypothesis& h, int64_t frames,
                const ResultRules& rules) {
  const auto fail = [&](const std::string& problem) {
    throw WrongResult(row, fmt::format("{}token {} {}", entry, i, problem));
  };
  if (h.tokens[i] < 0 || h.tokens[i] >= rules.vocabulary)
    fail(fmt::format("is {}, allowed are 0 to {}", h.tokens[i], rules.vocabulary - 1));
  if (h.frames[i] < 0 || h.frames[i] >= frames)
    fail(fmt::format("is at frame {} of {}", h.frames[i], frames));
  if (i > 0 && h.frames[i] < h.frames[i - 1])
    fail(fmt::format("is at frame {}, the one before at {}", h.frames[i], h.frames[i - 1]));
  if (rules.durations.empty()) return;
  if (!std::ranges::count(rules.durations, h.durations[i])) {
    fail(fmt::format("has the duration {}, allowed are {}", h.durations[i],
                     fmt::join(rules.durations, ", ")));
  }
}

void check_hypothesis(int64_t row, const char* entry, const Hypothesis& h, int64_t frames,
                      const ResultRules& rules) {
  if (!std::isfinite(h.score))
    throw WrongResult(row, fmt::format("{}its score is {}", entry, h.score));
  for (size_t i = 0; i < h.tokens.size(); ++i) check_slot(row, entry, i, h, frames, rules);
  if (rules.is_ctc && std::ssize(h.tokens) > frames) {
    throw WrongResult(row, fmt::format("{}{} tokens in {} frames, of a CTC head", entry,
                                       h.tokens.size(), frames));
  }
  const auto most = static_cast<size_t>(rules.max_symbols);
  for (size_t i = most; most > 0 && i < h.frames.size(); ++i) {
    if (h.frames[i] != h.frames[i - most]) continue;
    throw WrongResult(row, fmt::format("{}token {} is the {}th at frame {}, max_symbols is {}",
                                       entry, i, most + 1, h.frames[i], most));
  }
}

}  // namespace

ResultRules::ResultRules(const Description& decoder, const ModelConfig& model,
                         const nlohmann::json& options)
    : vocabulary(model.vocabulary), is_ctc(decoder.head == Head::ctc) {
  if (decoder.head != Head::transducer) return;
  if (model.is_tdt()) durations = model.durations;
  // Such a search moves one frame after a token of the duration 0.
  const bool moves = decoder.score_kind == kMonotonicBeamScore;
  if (moves && std::ranges::count(durations, 0) > 0 && std::ranges::count(durations, 1) == 0)
    durations.push_back(1);
  // A plug-in may use this name for an option of another type.
  if (!options.is_object()) return;
  const auto found = options.find("max_symbols");
  if (found != options.end() && found->is_number_integer()) max_symbols = found->get<int64_t>();
}

void check_layout(const Hypotheses& result, const EncodedBatch& batch, const ResultRules& rules) {
  Layout layout(batch);
  const Sizes rows = {layout.batch()};
  const bool with_durations = !rules.durations.empty();
  layout.tensor(result.nan, "nan", at::kBool, rows);
  layout.results(result, "", rows, with_durations);
  const NBest& list = result.nbest;
  if (!list.defined()) return;
  const int64_t entries = list.lengths.dim() == 2 ? list.lengths.size(1) : 0;
  layout.results(list, "nbest.", {layout.batch(), std::max<int64_t>(1, entries)}, with_durations);
}

void check_values(const std::vector<Hypothesis>& rows, const EncodedBatch& batch,
                  const ResultRules& rules) {
  for (size_t b = 0; b < rows.size(); ++b) {
    if (rows[b].nan) continue;
    const auto row = static_cast<int64_t>(b);
    check_hypothesis(row, "", rows[b], batch.lengths_host[b], rules);
    for (const Hypothesis& entry : rows[b].nbest)
      check_hypothesis(row, "n-best list: ", entry, batch.lengths_host[b], rules);
  }
}

}  // namespace rtfx
