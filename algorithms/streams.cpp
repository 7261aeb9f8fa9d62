#include "algorithms/streams.h"

#include <ATen/ATen.h>

#include "base/error.h"

namespace rtfx {

void Streams::set_bias(int64_t, std::shared_ptr<const CompiledBias>) {
  throw UserError("a stream", "of this decoder has no phrases or allowed characters of its own",
                  "choose a decoder that has the option \"allowed\"");
}

void StateTransfer::operator()(at::Tensor& tensor, int64_t dimension, int64_t per_row) {
  if (!tensor.defined()) return;
  const at::Tensor by_row = tensor.unflatten(dimension, {tensor.size(dimension) / per_row, per_row})
                                .movedim(dimension, 0);
  if (from_ != nullptr) {
    by_row.copy_((*from_)[next_++]);
  } else {
    to_->push_back(by_row.clone(at::MemoryFormat::Contiguous));
  }
}

void StateTransfer::or_zeros(at::Tensor& tensor, const at::Tensor& rows, int64_t per_row) {
  if (tensor.defined()) {
    (*this)(tensor, 0, per_row);
  } else if (loads()) {
    ++next_;
  } else {
    to_->push_back(at::zeros({rows.size(0), per_row}, rows.options().dtype(at::kInt)));
  }
}

}  // namespace rtfx
