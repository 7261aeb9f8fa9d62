#include "algorithms/shared/biasing/device_bias.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "models/parallel.h"

namespace rtfx {

namespace {

at::Tensor repeated_rows(const at::Tensor& rows, int64_t times) {
  if (!rows.defined()) return rows;
  std::vector<int64_t> sizes = rows.sizes().vec();
  sizes.insert(sizes.begin() + 1, times);
  return rows.unsqueeze(1).expand(sizes).flatten(0, 1).contiguous();
}

}  // namespace

at::Tensor DeviceBias::initial_states() const { return at::zeros_like(roots); }

at::Tensor DeviceBias::scores(const at::Tensor& states) const {
  return models->scores(roots + states);
}

at::Tensor DeviceBias::final_scores(const at::Tensor& states) const {
  return models->final_scores(roots + states);
}

at::Tensor DeviceBias::next_states(const at::Tensor& states, const at::Tensor& labels) const {
  const at::Tensor next = models->next_states(roots + states, labels);
  return (next - roots).masked_fill_(next == 0, 0);
}

DeviceBias DeviceBias::repeated(int64_t times) const {
  return {models, repeated_rows(roots, times), repeated_rows(blank_weights, times),
          repeated_rows(forbidden, times)};
}

namespace {

/// Values for a table on the device, in memory that an asynchronous copy can read.
template <class T>
class Staged {
 public:
  Staged(const at::Tensor& table, int64_t size)
      : table_(table),
        values_(at::empty(
            {size}, table.options().device(at::kCPU).pinned_memory(table.is_cuda() && size > 0))) {}

  T* at(int64_t index) { return values_.mutable_data_ptr<T>() + index; }

  void copy_to(int64_t at) const {
    if (values_.size(0) > 0)
      table_.narrow(0, at, values_.size(0)).copy_(values_, /*non_blocking=*/true);
  }

 private:
  at::Tensor table_, values_;
};

template <class T>
void put(const at::Tensor& table, const std::vector<T>& values) {
  Staged<T> staged(table, std::ssize(values));
  std::ranges::copy(values, staged.at(0));
  staged.copy_to(0);
}

}  // namespace

bool has_tree(const std::shared_ptr<const CompiledBias>& bias) { return bias && bias->tree; }

void DeviceBiasTables::allocate(int64_t states, int64_t arcs) {
  RTFX_CHECK(std::max(states, arcs) < std::numeric_limits<int32_t>::max(),
             "phrases of too many tokens");
  const auto ints = at::TensorOptions(at::kInt).device(device_);
  const auto floats = ints.dtype(at::kFloat);
  // Every token of state 0 leads back to it.
  NgramArrays arrays{at::zeros({arcs}, ints),     at::zeros({arcs}, ints),
                     at::zeros({arcs}, floats),   at::zeros({states, 2}, ints),
                     at::zeros({states}, ints),   at::zeros({states}, floats),
                     at::zeros({states}, floats), at::zeros({states}, ints)};
  arrays.arc_label.narrow(0, 0, vocabulary_).copy_(at::arange(vocabulary_, ints));
  arrays.state_arcs.select(0, 0).select(0, 1).fill_(vocabulary_);
  constexpr int64_t kSteps = 3;  // from a state to its root, and to state 0
  models_ = std::make_shared<const NgramLm>(std::move(arrays), vocabulary_, kSteps);
}

/// Appends trees behind those in the tables. Several threads lay them out, and each array is copied
/// once.
void DeviceBiasTables::append(std::map<const CompiledBias*, Place>& places) {
  struct Share {
    const PhraseTree& tree;
    int64_t state, arc;  // its first state and arc among the new ones
  };
  std::vector<Share> shares;
  int64_t states = 0, arcs = 0;
  for (auto& [key, place] : places) {
    const PhraseTree& tree = *place.bias->tree;
    place.root = static_cast<int32_t>(states_ + states);
    shares.push_back({tree, states, arcs});
    states += tree.states();
    arcs += std::ssize(tree.arc_to);
  }
  const NgramArrays& arrays = models_->arrays();
  Staged<int32_t> to(arrays.arc_to, arcs), label(arrays.arc_label, arcs),
      bounds(arrays.state_arcs.view({-1}), 2 * states), back(arrays.backoff_to, states);
  Staged<float> score(arrays.arc_weight, arcs), weight(arrays.backoff_weight, states),
      end(arrays.final_weight, states);
  const auto lay_out = [&](const Share& share) {
    const auto& [tree, state, arc] = share;
    const auto root = static_cast<int32_t>(states_ + state);
    const auto first = static_cast<int32_t>(arcs_ + arc);
    std::ranges::transform(tree.arc_to, to.at(arc), [root](int32_t next) { return root + next; });
    std::ranges::copy(tree.arc_token, label.at(arc));
    std::ranges::copy(tree.arc_score, score.at(arc));
    int32_t* const of_states = bounds.at(2 * state);
    for (size_t i = 0; i < tree.end.size(); ++i) {
      of_states[2 * i] = first + tree.first_arc[i];
      of_states[2 * i + 1] = first + tree.first_arc[i + 1];
    }
    std::fill_n(back.at(state), tree.end.size(), root);
    *back.at(state) = 0;  // back-off of the root
    std::ranges::copy(tree.to_root, weight.at(state));
    std::ranges::copy(tree.end, end.at(state));
  };
  parallel_ranges(std::ssize(shares), [&](int64_t begin, int64_t end_of_range) {
    for (int64_t i = begin; i < end_of_range; ++i) lay_out(shares[static_cast<size_t>(i)]);
  });
  to.copy_to(arcs_);
  label.copy_to(arcs_);
  score.copy_to(arcs_);
  bounds.copy_to(2 * states_);
  back.copy_to(states_);
  weight.copy_to(states_);
  end.copy_to(states_);
  states_ += states;
  arcs_ += arcs;
  places_.merge(places);
}

/// Places the trees of the rows in the tables. Returns true where the tables have moved.
bool DeviceBiasTables::place(const std::vector<std::shared_ptr<const CompiledBias>>& rows) {
  std::map<const CompiledBias*, Place> missing, wanted;
  int64_t states = 0, arcs = 0, all_states = 1, all_arcs = vocabulary_;
  for (const auto& bias : rows) {
    if (!has_tree(bias) || !wanted.try_emplace(bias.get(), Place{bias}).second) continue;
    const int64_t of_states = bias->tree->states();
    const auto of_arcs = static_cast<int64_t>(bias->tree->arc_to.size());
    all_states += of_states;
    all_arcs += of_arcs;
    if (places_.contains(bias.get()) || !missing.try_emplace(bias.get(), Place{bias}).second)
      continue;
    states += of_states;
    arcs += of_arcs;
  }
  if (missing.empty()) return false;
  const auto room = [&](int64_t more_states, int64_t more_arcs) {
    return models_ && more_states <= models_->arrays().backoff_to.size(0) &&
           more_arcs <= models_->arrays().arc_to.size(0);
  };
  bool moved = false;
  if (!room(states_ + states, arcs_ + arcs)) {
    if (!room(all_states, all_arcs)) {
      constexpr int64_t kLeastStates = 4096, kLeastArcs = 8192;
      allocate(std::max(2 * all_states, kLeastStates),
               vocabulary_ + std::max(2 * all_arcs, kLeastArcs));
      // The new tables may have fewer states, so old roots of rows behind this batch could lie
      // outside.
      roots_.zero_();
      moved = true;
    }
    places_.clear();
    states_ = 1;
    arcs_ = vocabulary_;
    missing = std::move(wanted);
  }
  append(missing);
  return moved;
}

bool DeviceBiasTables::reserve_rows(int64_t rows) {
  if (roots_.defined() && roots_.size(0) >= rows) return false;
  const auto ints = at::TensorOptions(at::kInt).device(device_);
  // All memory is allocated before any is replaced. If some is lacking, all have as many rows as
  // before.
  at::Tensor roots = at::zeros({rows}, ints), blank_weights, forbidden;
  if (blank_weights_.defined()) blank_weights = at::zeros({rows}, ints.dtype(at::kFloat));
  if (forbidden_.defined()) forbidden = at::zeros({rows, vocabulary_}, ints.dtype(at::kBool));
  roots_ = std::move(roots);
  blank_weights_ = std::move(blank_weights);
  forbidden_ = std::move(forbidden);
  loaded_.clear();
  return true;
}

bool DeviceBiasTables::load(const std::vector<std::shared_ptr<const CompiledBias>>& rows) {
  const auto count = static_cast<int64_t>(rows.size());
  bool moved = reserve_rows(count);
  const auto weighs_blank = [](const auto& bias) { return bias && bias->blank_weight != 0; };
  if (!blank_weights_.defined() && std::ranges::any_of(rows, weighs_blank)) {
    blank_weights_ = at::zeros({roots_.size(0)}, roots_.options().dtype(at::kFloat));
    moved = true;
    loaded_.clear();
  }
  const auto is_masked = [](const auto& bias) { return bias && bias->forbidden.defined(); };
  if (!forbidden_.defined() && std::ranges::any_of(rows, is_masked)) {
    forbidden_ = at::zeros({roots_.size(0), vocabulary_}, roots_.options().dtype(at::kBool));
    moved = true;
    loaded_.clear();
  }
  // Nothing has changed if these rows have the same biases as the first rows of the last batch.
  if (loaded_.size() >= rows.size() && std::equal(rows.begin(), rows.end(), loaded_.begin()))
    return moved;
  loaded_.clear();  // if this fails, the device has parts of both batches
  moved = place(rows) || moved;
  std::vector<int32_t> roots;
  for (const auto& bias : rows) roots.push_back(has_tree(bias) ? places_.at(bias.get()).root : 0);
  put(roots_, roots);
  if (blank_weights_.defined()) {
    std::vector<float> weights;
    for (const auto& bias : rows) weights.push_back(bias ? bias->blank_weight : 0);
    put(blank_weights_, weights);
  }
  if (forbidden_.defined()) {
    at::Tensor masks = at::zeros({count, vocabulary_},
                                 at::TensorOptions(at::kBool).pinned_memory(device_.is_cuda()));
    for (int64_t row = 0; row < count; ++row) {
      const auto& bias = rows[static_cast<size_t>(row)];
      if (is_masked(bias)) masks.select(0, row).copy_(bias->forbidden);
    }
    forbidden_.narrow(0, 0, count).copy_(masks, /*non_blocking=*/true);
  }
  loaded_ = rows;
  return moved;
}

DeviceBias DeviceBiasTables::rows(int64_t count) const {
  if (!models_ && !forbidden_.defined()) return {};
  const auto first_rows = [count](const at::Tensor& all) {
    return all.defined() ? all.narrow(0, 0, count) : all;
  };
  return {models_, first_rows(roots_), first_rows(blank_weights_), first_rows(forbidden_)};
}

}  // namespace rtfx
