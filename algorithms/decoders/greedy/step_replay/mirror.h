// Tensors that exist twice, on the host and on the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "algorithms/gpu/host_read.h"

namespace rtfx::step_replay {

/// Each side is one block of memory whose address stays: what a recorded graph needs on the device,
/// and what makes one transfer of several tensors. The host's block is pinned where the device is a
/// GPU. On a CPU there are two blocks as well, so that the same transfers take place.
class Mirror {
 public:
  /// A tensor of `sizes`. Its slices along the first dimension are the pieces of upload_pieces().
  struct Shape {
    std::vector<int64_t> sizes;
    at::ScalarType dtype;
  };

  /// Zeros on both sides.
  Mirror(const std::vector<Shape>& shapes, at::Device device);

  /// One contiguous tensor per shape, in their order.
  const std::vector<at::Tensor>& host() const { return host_; }
  const std::vector<at::Tensor>& device() const { return device_; }

  /// Host to device, all at once. Does not wait: the host's side must not change before the current
  /// stream was waited for. Returns the number of transfers: 1.
  int64_t upload() const;
  /// Host to device, part by part; waits for each. Returns the number of transfers.
  int64_t upload_pieces() const;
  /// Device to host, all at once; waits.
  void download(HostReads& reads) const;

 private:
  struct Part {
    at::Tensor host, device;
  };
  at::Tensor host_block_, device_block_;
  std::vector<at::Tensor> host_, device_;
  std::vector<Part> parts_;
};

/// Row `row` of the second dimension, between two contiguous host tensors of the same shape and
/// type.
void copy_row(const at::Tensor& from, const at::Tensor& to, int64_t row);

}  // namespace rtfx::step_replay
