#include "harness/profile/operator_cost.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace rtfx {

namespace {

/// Returns the bytes of a tensor's elements in memory. An expanded tensor has fewer than its shape
/// shows.
double tensor_bytes(const at::Tensor& tensor) {
  const auto shown = static_cast<double>(tensor.numel()) * static_cast<double>(tensor.itemsize());
  return std::min(shown, static_cast<double>(tensor.storage().nbytes()));
}

bool is_alias(const at::Tensor& one, const at::Tensor& other) {
  return one.has_storage() && other.has_storage() &&
         one.storage().unsafeGetStorageImpl() == other.storage().unsafeGetStorageImpl();
}

bool is_among(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

/// Returns whether the operator, such as "aten::addmm" or "aten::addmm_", is a product of its last
/// two inputs.
bool is_product(std::string_view name) {
  constexpr std::string_view kProducts[] = {"aten::mm",     "aten::bmm",     "aten::addmm",
                                            "aten::addbmm", "aten::baddbmm", "aten::mv",
                                            "aten::addmv"};
  while (name.ends_with('_')) name.remove_suffix(1);
  return is_among(name, kProducts);
}

/// Returns whether the operator changes a tensor's shape or place in memory and none of its
/// elements.
bool changes_shape_alone(std::string_view name) {
  constexpr std::string_view kNames[] = {"aten::as_strided_", "aten::detach_",   "aten::resize_",
                                         "aten::resize_as_",  "aten::set_",      "aten::squeeze_",
                                         "aten::swapaxes_",   "aten::swapdims_", "aten::t_",
                                         "aten::transpose_",  "aten::unsqueeze_"};
  return is_among(name, kNames);
}

/// Returns whether the operator reads elements of its first input that the other inputs choose.
bool is_look_up(std::string_view name) {
  constexpr std::string_view kNames[] = {"aten::embedding", "aten::gather", "aten::index",
                                         "aten::index_select", "aten::take"};
  return is_among(name, kNames);
}

double product_flop(std::span<const at::Tensor> inputs, const at::Tensor& output) {
  // Each element of the result is a sum over the left factor's columns.
  const at::Tensor& left = inputs[inputs.size() - 2];
  const bool bias = inputs.size() > 2;
  return static_cast<double>(output.numel()) *
         (2 * static_cast<double>(left.size(-1)) + (bias ? 1 : 0));
}

double convolution_flop(std::span<const at::Tensor> inputs, const at::Tensor& output) {
  const at::Tensor& weight = inputs[1];  // [channels out, channels in of the group, kernel...]
  const auto of_channel = static_cast<double>(weight.numel()) / static_cast<double>(weight.size(0));
  return 2 * static_cast<double>(output.numel()) * of_channel;
}

}  // namespace

bool is_matrix_operator(std::string_view name) {
  return is_product(name) || name.find("convolution") != name.npos;
}

OperatorCost& OperatorCost::operator+=(const OperatorCost& other) {
  flop += other.flop;
  bytes += other.bytes;
  matrix = matrix || other.matrix;
  return *this;
}

OperatorCost operator_cost(std::string_view name, std::span<const at::Tensor> inputs,
                           std::span<const at::Tensor> outputs) {
  OperatorCost cost;
  if (outputs.empty()) return cost;
  const at::Tensor& output = outputs.front();
  const bool in_place = name.ends_with('_');
  // at::mm_out() is recorded as "aten::mm", with its results behind its inputs.
  const auto is_output = [&](const at::Tensor& tensor) {
    return std::ranges::any_of(outputs, [&](const at::Tensor& out) { return out.is_same(tensor); });
  };
  bool given = false;
  while (!in_place && inputs.size() > 1 && is_output(inputs.back())) {
    given = true;
    inputs = inputs.first(inputs.size() - 1);
  }
  const bool view = !in_place && !given && std::ranges::any_of(inputs, [&](const at::Tensor& t) {
    return is_alias(t, output);
  });
  if (view || output.numel() == 0 || name.starts_with("aten::empty") || changes_shape_alone(name))
    return cost;
  for (const at::Tensor& tensor : inputs) cost.bytes += tensor_bytes(tensor);
  for (const at::Tensor& tensor : outputs) cost.bytes += tensor_bytes(tensor);
  const bool look_up = is_look_up(name) && !inputs.empty();
  if (look_up) {
    const double table = tensor_bytes(inputs.front());
    cost.bytes -= table - std::min(table, tensor_bytes(output));
  }
  if (is_product(name) && inputs.size() >= 2) {
    cost.matrix = true;
    cost.flop = product_flop(inputs, output);
  } else if (is_matrix_operator(name) && inputs.size() >= 2) {
    cost.matrix = true;
    cost.flop = convolution_flop(inputs, output);
  } else {
    double most = 0;  // a sum has one for each of its terms
    for (const at::Tensor& tensor : inputs)
      most = std::max(most, static_cast<double>(tensor.numel()));
    const bool computes = (output.is_floating_point() || output.is_complex()) && !look_up;
    cost.flop = computes ? std::max(most, static_cast<double>(output.numel())) : 0;
  }
  return cost;
}

namespace {

/// Returns the cost of an operator without that of the operators that it calls.
OperatorCost without(OperatorCost cost, const OperatorCost& called) {
  cost.flop = std::max(0.0, cost.flop - called.flop);
  cost.bytes = std::max(0.0, cost.bytes - called.bytes);
  return cost;
}

/// The state of a running operator.
struct UnderWay : at::ObserverContext {
  std::vector<at::Tensor> inputs;  // they no longer exist at its end
  OperatorCost called;             // sum over all operators that it has called
  bool is_matrix = false;
  bool is_part = false;  // part of a product or convolution, which counts as a whole
};

void add_tensors(const c10::IValue& value, std::vector<at::Tensor>& tensors) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) tensors.push_back(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(tensor);
  }
}

}  // namespace

struct OperatorLog::State {
  RangeName region;
  bool inside = false;
  std::map<std::string, OperatorCount> operators;
  std::vector<at::ObserverContext*> stack;
  at::CallbackHandle handle = 0;

  // Callbacks have no room for a pointer to their owner.
  static thread_local State* current;

  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
    auto context = std::make_unique<UnderWay>();
    if (current == nullptr) return context;
    if (!current->stack.empty()) {
      const auto* outer = static_cast<UnderWay*>(current->stack.back());
      context->is_part = outer->is_part || outer->is_matrix;
    }
    context->is_matrix = is_matrix_operator(function.name());
    current->stack.push_back(context.get());
    if (current->inside)
      for (const c10::IValue& value : function.inputs()) add_tensors(value, context->inputs);
    return context;
  }

  static void end(const at::RecordFunction& function, at::ObserverContext* context) {
    if (current == nullptr || current->stack.empty()) return;
    current->stack.pop_back();
    const auto* under_way = static_cast<UnderWay*>(context);
    if (!current->inside || under_way->is_part) return;
    std::vector<at::Tensor> outputs;
    for (const c10::IValue& value : function.outputs()) add_tensors(value, outputs);
    const OperatorCost own =
        without(operator_cost(function.name(), under_way->inputs, outputs), under_way->called);
    if (!current->stack.empty()) {
      OperatorCost& of_caller = static_cast<UnderWay*>(current->stack.back())->called;
      of_caller += under_way->called;
      of_caller += own;
    }
    if (own.bytes == 0 && own.flop == 0) return;
    OperatorCount& count = current->operators[function.name()];
    ++count.calls;
    count.cost += own;
  }
};

thread_local OperatorLog::State* OperatorLog::State::current = nullptr;

OperatorLog::OperatorLog(RangeName region) : state_(std::make_unique<State>()) {
  RTFX_CHECK(State::current == nullptr, "one log at a time");
  state_->region = region;
  State::current = state_.get();
  state_->handle = at::addThreadLocalCallback(at::RecordFunctionCallback(State::begin, State::end)
                                                  .needsInputs(true)
                                                  .needsOutputs(true)
                                                  .scopes({at::RecordScope::FUNCTION}));
  range_listener.store(this, std::memory_order_release);
}

OperatorLog::~OperatorLog() {
  range_listener.store(nullptr, std::memory_order_release);
  at::removeCallback(state_->handle);
  State::current = nullptr;
}

void OperatorLog::opened(RangeName name) noexcept {
  if (name == state_->region && State::current == state_.get()) state_->inside = true;
}

void OperatorLog::closed(RangeName name) noexcept {
  if (name == state_->region && State::current == state_.get()) state_->inside = false;
}

const std::map<std::string, OperatorCount>& OperatorLog::operators() const {
  return state_->operators;
}

}  // namespace rtfx
