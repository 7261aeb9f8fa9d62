// The phrase trees and token masks of the rows of a batch, on the device, at addresses that stay
// (so that recorded searches read them) as long as what comes fits.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <vector>

#include "algorithms/shared/biasing/compiled_bias.h"
#include "algorithms/shared/biasing/device_bias.h"

namespace rtfx {

class DeviceBiasTables {
 public:
  DeviceBiasTables() = default;
  DeviceBiasTables(int64_t vocabulary, at::Device device)
      : vocabulary_(vocabulary), device_(device) {}

  /// Loads the bias of each row of the next batch; null stands for none. Trees that are on the
  /// device already are not copied again. Trees that no row uses are removed once there is no room.
  /// Enqueues copies and does not wait. Returns true where a recorded search must be recorded
  /// again, because memory has moved or there are trees or masks for the first time.
  bool load(const std::vector<std::shared_ptr<const CompiledBias>>& rows);

  /// Room for so many rows, without anything. As load().
  bool reserve_rows(int64_t rows);

  /// Returns the bias of the first `count` rows of the last load(). Further rows have none.
  DeviceBias rows(int64_t count) const;

 private:
  struct Place {
    std::shared_ptr<const CompiledBias> bias;
    int32_t root = 0;
  };
  void allocate(int64_t states, int64_t arcs);
  void append(std::map<const CompiledBias*, Place>& places);
  bool place(const std::vector<std::shared_ptr<const CompiledBias>>& rows);

  int64_t vocabulary_ = 0;
  at::Device device_{at::kCPU};
  std::shared_ptr<const NgramLm> models_;
  int64_t states_ = 0, arcs_ = 0;  // that are taken; state 0 is nobody's
  std::map<const CompiledBias*, Place> places_;
  at::Tensor roots_;          // [most rows] int32
  at::Tensor blank_weights_;  // [most rows] float32; undefined until a row has one
  at::Tensor forbidden_;      // [most rows, V] bool; undefined until a row has a mask
  std::vector<std::shared_ptr<const CompiledBias>> loaded_;
};

}  // namespace rtfx
