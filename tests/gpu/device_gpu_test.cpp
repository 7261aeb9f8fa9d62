// Tests that the harness reports a GPU's memory and energy.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>

#include "algorithms/gpu/graph.h"
#include "harness/machine/conditions.h"
#include "harness/machine/device_memory.h"
#include "speech/runtime/device.h"

namespace rtfx {
namespace {

const at::Device device(at::kCUDA, 0);
const auto bytes = at::TensorOptions(at::kByte).device(device);
constexpr int64_t kMiB = 1 << 20;

at::Tensor product() {
  const at::Tensor a = at::ones({256, 256}, at::TensorOptions(at::kFloat).device(device));
  return at::mm(a, a);
}

TEST(DeviceGpu, TheMostOfAllocationsIsWatched) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
  at::empty({9 * kMiB}, bytes);  // freed before the watch begins
  const at::Tensor old = at::empty({kMiB}, bytes);
  const PeakMemory peak(device);
  EXPECT_EQ(peak.bytes(), 0);
  const at::Tensor kept = at::empty({2 * kMiB}, bytes);
  at::empty({4 * kMiB}, bytes);
  EXPECT_EQ(peak.bytes(), 6 * kMiB);
}

TEST(DeviceGpu, WhatCublasWorksInIsNobodys) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
  at::cuda::clearCublasWorkspaces();
  const PeakMemory peak(device);
  product();
  EXPECT_LT(peak.bytes(), 2 * kMiB);  // cuBLAS's workspace would add 32 MiB or more

  // A workspace for another stream does not count either, and stays allocated.
  const int64_t before = kept_memory(device);
  {
    const c10::cuda::CUDAStreamGuard other(c10::cuda::getStreamFromPool());
    product();
    EXPECT_EQ(kept_memory(device), before);
    const PeakMemory again(device);
    product();
    EXPECT_LT(again.bytes(), 2 * kMiB);
  }
  at::Tensor out;
  const Graph graph = Graph::record([&](GraphRecorder&) { out = product(); });
  const int64_t kept = kept_memory(device) - before;
  EXPECT_GT(kept, 0);
  EXPECT_GE(kept, out.nbytes());
}

TEST(DeviceGpu, KeptMemoryIsOfTensorsAndOfGraphsThatLive) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
  const int64_t before = kept_memory(device);
  {
    const at::Tensor tensor = at::empty({3 * kMiB}, bytes);
    EXPECT_EQ(kept_memory(device) - before, 3 * kMiB);
    // The graph works in 64 MiB that no tensor holds afterwards.
    const Graph graph = Graph::record([&](GraphRecorder&) {
      at::Tensor work = at::zeros({64 * kMiB}, bytes);
      tensor.zero_();
    });
    EXPECT_GE(kept_memory(device) - before, 67 * kMiB);
  }
  EXPECT_EQ(kept_memory(device), before);
}

TEST(DeviceGpu, EnergyOfWorkIsBetweenIdleAndTheBoard) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
  std::string problem;
  const auto nvml = Nvml::open(pci_bus_id(device), problem);
  if (nvml == nullptr || !nvml->energy()) GTEST_SKIP() << "no counter of energy " << problem;
  const at::Tensor a = at::ones({4096, 4096}, at::TensorOptions(at::kFloat).device(device));
  EnergyMeter meter([&] { return nvml->energy(); });
  const auto begin = std::chrono::steady_clock::now();
  double shown = 0;
  int64_t readings = 0;
  while (std::chrono::steady_clock::now() - begin < std::chrono::seconds(3)) {
    for (int i = 0; i < 20; ++i) at::mm(a, a);
    at::cuda::getCurrentCUDAStream().synchronize();
    shown += nvml->state().power_w.value();
    ++readings;
  }
  const auto power = meter.end();
  ASSERT_TRUE(power);
  EXPECT_GT(power->watts, 20);
  EXPECT_LT(power->watts, 2000);
  // On some GPUs, NVML's power is a mean over the last second.
  EXPECT_NEAR(power->watts, shown / static_cast<double>(readings), 0.35 * power->watts);
}

TEST(DeviceGpu, AWaitForTheDeviceWaitsForTheRecordingOfAnotherThread) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "no GPU";
  const at::Tensor sum = at::zeros({1}, at::TensorOptions(at::kFloat).device(device));
  sum.add_(1);  // a recording must not load the kernel
  std::promise<void> recording;
  auto waited = std::async(std::launch::async, [&] {
    recording.get_future().wait_for(std::chrono::seconds(10));
    synchronize(device);  // would fail, and make the recording fail
    return true;
  });
  const Graph graph = Graph::record([&](GraphRecorder&) {
    recording.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    sum.add_(1);
  });
  EXPECT_TRUE(waited.get());
  graph.launch(c10::cuda::getCurrentCUDAStream().stream());
  EXPECT_EQ(sum.item<float>(), 2);
}

}  // namespace
}  // namespace rtfx
