// CPython in the program's own process, loaded when a decoder first asks for it: the program links
// none. Only functions of Python's stable ABI are called, found by name, so that one build serves
// every Python from 3.10 on whose torch is the LibTorch that the program runs with.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace rtfx {

class Interpreter {
 public:
  /// The answer of a function of host.py.
  struct Answer {
    nlohmann::json about;             // null where it says nothing
    std::vector<at::Tensor> tensors;  // share their memory with Python's
  };

  /// Starts Python at the first call, for the life of the process, and imports torch. Which Python:
  /// `executable`, else the environment variable RTFX_PYTHON, else that of the environment which
  /// LibTorch lies in, else python3 of PATH. Throws UserError where there is no such program, it
  /// has no shared library (RTFX_LIBPYTHON may name one), its torch is another than the program's,
  /// or another one was started before.
  static const Interpreter& get(const std::string& executable);

  /// Calls a function of host.py with what `about` says and with tensors, which it shares. From any
  /// thread. Where it raises, throws WrongResult if that concerns a row of the batch, else
  /// UserError with `where`, the exception and where it came from.
  Answer call(const char* function, const nlohmann::json& about,
              const std::vector<at::Tensor>& tensors, const std::string& where) const;

 private:
  explicit Interpreter(const std::filesystem::path& executable);

  std::filesystem::path executable_;
  void* host_ = nullptr;  // the module
};

}  // namespace rtfx
