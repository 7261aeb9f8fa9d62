// The FLOP and bytes of an operator of LibTorch, computed from the shapes of its tensors. No I/O,
// no clock, no CUDA.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string_view>

namespace rtfx {

struct OperatorCost {
  double flop =
      0;  // multiplications and additions; 1 for each element where nothing better is known
  double bytes = 0;     // every input read once, every output written once: at least that many
  bool matrix = false;  // products of matrices and convolutions, which matrix units compute
  OperatorCost& operator+=(const OperatorCost& other);
};

/// Whether it is a product of matrices or a convolution, by its name.
bool is_matrix_operator(std::string_view name);

/// `name`: "aten::addmm". Zero for a view, which shares its input's memory and computes nothing.
OperatorCost operator_cost(std::string_view name, std::span<const at::Tensor> inputs,
                           std::span<const at::Tensor> outputs);

}  // namespace rtfx
