// Turns errors of the CUDA runtime into exceptions with the place of the call.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace rtfx {

inline void check_cuda(cudaError_t error, const char* call, const char* file, int line) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // clears it: otherwise the next caller to ask, LibTorch say, would report it
  throw std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": " + call + ": " +
                           cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")");
}

}  // namespace rtfx

#define RTFX_CUDA(call) ::rtfx::check_cuda((call), #call, __FILE__, __LINE__)
