#include "harness/profile/operator_log.h"

#include <ATen/record_function.h>

#include <vector>

#include "base/error.h"

namespace rtfx {
namespace {

/// The state of an operator that is running.
struct UnderWay : at::ObserverContext {
  std::vector<at::Tensor> inputs;  // which are gone at its end
  bool calls_others = false;
  bool is_matrix = false;
  bool is_part = false;  // of a product or convolution, which is counted as a whole
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
      auto* outer = static_cast<UnderWay*>(current->stack.back());
      outer->calls_others = true;
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
    if (under_way->calls_others && !under_way->is_matrix) return;
    std::vector<at::Tensor> outputs;
    for (const c10::IValue& value : function.outputs()) add_tensors(value, outputs);
    OperatorCount& count = current->operators[function.name()];
    ++count.calls;
    count.cost += operator_cost(function.name(), under_way->inputs, outputs);
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
