#include "algorithms/shared/transducer/needed_rows.h"

#include <ATen/ATen.h>

#include "algorithms/gpu/host_read.h"
#include "base/error.h"

namespace rtfx {

void require_host_loop(const std::string& decoder, const std::string& loop) {
  if (loop == "host") return;
  throw UserError(decoder, R"("count_rows" needs a host that drives the loops)",
                  R"(set "loop": "host")");
}

void NeededRows::add(at::Tensor& sum, const at::Tensor& mask) {
  const at::Tensor rows = mask.sum();
  sum.defined() ? void(sum.add_(rows)) : void(sum = rows);
}

void NeededRows::add_to(Counters& counters) const {
  const AllowSync sums;
  const auto value = [](const at::Tensor& sum) {
    return sum.defined() ? sum.item<int64_t>() : int64_t{0};
  };
  counters["joint_rows_needed"] = value(joint_);
  counters["pred_rows_needed"] = value(prediction_);
}

}  // namespace rtfx
