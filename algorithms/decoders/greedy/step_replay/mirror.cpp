#include "algorithms/decoders/greedy/step_replay/mirror.h"

#include <ATen/ATen.h>

#include <cstring>

#include "algorithms/gpu/sync_debug.h"
#include "base/gpu/rounding.h"

namespace rtfx::step_replay {
namespace {

constexpr int64_t kAlignment = 256;  // bytes: what an allocation of its own would have

int64_t bytes_of(const Mirror::Shape& shape) {
  int64_t bytes = static_cast<int64_t>(c10::elementSize(shape.dtype));
  for (const int64_t size : shape.sizes) bytes *= size;
  return bytes;
}

}  // namespace

Mirror::Mirror(const std::vector<Shape>& shapes, at::Device device) {
  std::vector<int64_t> begins;
  int64_t bytes = 0;
  for (const Shape& shape : shapes) {
    begins.push_back(bytes);
    bytes += round_up(bytes_of(shape), kAlignment);
  }
  const at::TensorOptions options(at::kByte);
  device_block_ = at::zeros({bytes}, options.device(device));
  host_block_ = at::zeros({bytes}, options.pinned_memory(device.is_cuda()));
  for (size_t i = 0; i < shapes.size(); ++i) {
    const auto part = [&](const at::Tensor& block) {
      return block.narrow(0, begins[i], bytes_of(shapes[i]))
          .view(shapes[i].dtype)
          .view(shapes[i].sizes);
    };
    host_.push_back(part(host_block_));
    device_.push_back(part(device_block_));
    for (int64_t k = 0; k < shapes[i].sizes.front(); ++k)
      parts_.push_back({host_.back()[k], device_.back()[k]});
  }
}

int64_t Mirror::upload() const {
  device_block_.copy_(host_block_, /*non_blocking=*/true);
  return 1;
}

int64_t Mirror::upload_pieces() const {
  const AllowSync allow;
  for (const Part& part : parts_) part.device.copy_(part.host);
  return static_cast<int64_t>(parts_.size());
}

void Mirror::download(HostReads& reads) const { reads.copy(device_block_, host_block_); }

void copy_row(const at::Tensor& from, const at::Tensor& to, int64_t row) {
  const int64_t rows = from.size(0) * from.size(1);
  const size_t bytes = rows == 0 ? 0 : from.nbytes() / static_cast<size_t>(rows);
  const auto* source = static_cast<const char*>(from.const_data_ptr());
  auto* target = static_cast<char*>(to.mutable_data_ptr());
  for (int64_t i = row; i < rows; i += from.size(1)) {
    const size_t offset = static_cast<size_t>(i) * bytes;
    if (bytes > 0) std::memcpy(target + offset, source + offset, bytes);
  }
}

}  // namespace rtfx::step_replay
