// Calls Python inside the program.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace rtfx {

/// CPython in the program's own process. The program does not link it, but loads it when a decoder
/// first asks for it. Only functions of Python's stable ABI are called, and they are found by name.
/// So one build serves every Python from 3.10 on whose torch is the LibTorch that the program runs
/// with.
class Interpreter {
 public:
  /// The answer of a function of host.py.
  struct Answer {
    nlohmann::json about;             // null if the function returns none
    std::vector<at::Tensor> tensors;  // share their memory with Python's
  };

  /// Starts Python at the first call, for the life of the process, and imports torch. The Python
  /// program is `executable`, else the environment variable RTFX_PYTHON, else that of LibTorch's
  /// environment, else python3 of PATH. Throws UserError if there is no such program, or if it has
  /// no shared library (RTFX_LIBPYTHON may name one). Also throws UserError if its torch is not
  /// that of the program, or if another Python was started before.
  static const Interpreter& get(const std::string& executable);

  /// Calls a function of host.py with `about` as JSON and with tensors, whose memory it shares. Any
  /// thread may call this. If the function raises for a row of the batch, throws WrongResult. If it
  /// raises otherwise, throws UserError with `where`, the exception and the place where it was
  /// raised.
  Answer call(const char* function, const nlohmann::json& about,
              const std::vector<at::Tensor>& tensors, const std::string& where) const;

 private:
  explicit Interpreter(const std::filesystem::path& executable);

  std::filesystem::path executable_;
  void* host_ = nullptr;  // the module
};

}  // namespace rtfx
