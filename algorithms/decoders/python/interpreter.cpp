#include "algorithms/decoders/python/interpreter.h"

#include <ATen/DLConvertor.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "algorithms/decoders/python/host_source.h"
#include "algorithms/foreign_code.h"
#include "base/error.h"
#include "base/json.h"

namespace rtfx {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kWhere = "python";

// The functions of the stable ABI that are called. PyObject is opaque here, so a pointer to it is
// void*.
using Object = void*;
struct Api {
  int (*Py_IsInitialized)();
  void (*Py_SetProgramName)(const wchar_t*);
  wchar_t* (*Py_DecodeLocale)(const char*, size_t*);
  void (*Py_InitializeEx)(int);
  void* (*PyEval_SaveThread)();
  int (*PyGILState_Ensure)();
  void (*PyGILState_Release)(int);
  Object (*Py_CompileString)(const char*, const char*, int);
  Object (*PyImport_ExecCodeModule)(const char*, Object);
  Object (*PyObject_GetAttrString)(Object, const char*);
  Object (*PyObject_CallObject)(Object, Object);
  Object (*PyTuple_New)(ssize_t);
  int (*PyTuple_SetItem)(Object, ssize_t, Object);
  ssize_t (*PyTuple_Size)(Object);
  Object (*PyTuple_GetItem)(Object, ssize_t);
  Object (*PyUnicode_FromStringAndSize)(const char*, ssize_t);
  const char* (*PyUnicode_AsUTF8AndSize)(Object, ssize_t*);
  Object (*PyCapsule_New)(void*, const char*, void (*)(Object));
  void* (*PyCapsule_GetPointer)(Object, const char*);
  int (*PyCapsule_SetName)(Object, const char*);
  void (*Py_DecRef)(Object);
  void (*PyErr_Print)();
};
Api api;

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) {
    throw UserError(kWhere, fmt::format("the Python library has no {}", name),
                    "Python 3.10 to 3.14 are known");
  }
}

void find_all(void* library) {
#define RTFX_FIND(name) find(library, #name, api.name)
  RTFX_FIND(Py_IsInitialized);
  RTFX_FIND(Py_SetProgramName);
  RTFX_FIND(Py_DecodeLocale);
  RTFX_FIND(Py_InitializeEx);
  RTFX_FIND(PyEval_SaveThread);
  RTFX_FIND(PyGILState_Ensure);
  RTFX_FIND(PyGILState_Release);
  RTFX_FIND(Py_CompileString);
  RTFX_FIND(PyImport_ExecCodeModule);
  RTFX_FIND(PyObject_GetAttrString);
  RTFX_FIND(PyObject_CallObject);
  RTFX_FIND(PyTuple_New);
  RTFX_FIND(PyTuple_SetItem);
  RTFX_FIND(PyTuple_Size);
  RTFX_FIND(PyTuple_GetItem);
  RTFX_FIND(PyUnicode_FromStringAndSize);
  RTFX_FIND(PyUnicode_AsUTF8AndSize);
  RTFX_FIND(PyCapsule_New);
  RTFX_FIND(PyCapsule_GetPointer);
  RTFX_FIND(PyCapsule_SetName);
  RTFX_FIND(Py_DecRef);
  RTFX_FIND(PyErr_Print);
#undef RTFX_FIND
}

class Gil {
 public:
  Gil() : state_(api.PyGILState_Ensure()) {}
  ~Gil() { api.PyGILState_Release(state_); }
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  int state_;
};

/// A reference that the destructor gives back. The caller must hold the lock.
class Owned {
 public:
  explicit Owned(Object object) : object_(object) {}
  ~Owned() {
    if (object_ != nullptr) api.Py_DecRef(object_);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  Object get() const { return object_; }

 private:
  Object object_;
};

/// Returns `object`, and throws UserError if it is null. host.py catches all exceptions of
/// decoders, so one that comes out of Python is a defect of host.py.
Object well(Object object) {
  if (object == nullptr) {
    api.PyErr_Print();
    throw UserError(kWhere, "Python's own part of the program failed", "see the traceback above");
  }
  return object;
}

constexpr const char* kCapsule = "dltensor";  // DLPack's names
constexpr const char* kUsedCapsule = "used_dltensor";

Object to_capsule(const at::Tensor& tensor) {
  return well(api.PyCapsule_New(at::toDLPack(tensor), kCapsule, nullptr));
}

at::Tensor from_capsule(Object capsule) {
  auto* managed = static_cast<DLManagedTensor*>(well(api.PyCapsule_GetPointer(capsule, kCapsule)));
  api.PyCapsule_SetName(capsule, kUsedCapsule);  // the tensor is ours to free
  return at::fromDLPack(managed);
}

json text_of(Object text) {
  ssize_t size = 0;
  const char* begin = api.PyUnicode_AsUTF8AndSize(text, &size);
  well(const_cast<char*>(begin));
  return json::parse(begin, begin + size);
}

/// Returns the folder that holds lib/libtorch_cpu.so of this process.
fs::path loaded_torch() {
  Dl_info info{};
  RTFX_CHECK(dladdr(reinterpret_cast<void*>(&at::get_num_threads), &info) != 0, "no LibTorch");
  return fs::canonical(info.dli_fname).parent_path().parent_path();
}

/// Returns the Python that shares its torch with the program. Scripts that draw pages need no
/// torch, so harness/report/python_script.cpp chooses theirs, by RTFX_PYTHON first as well.
std::string choose(const std::string& executable) {
  if (!executable.empty()) return executable;
  if (const char* chosen = std::getenv("RTFX_PYTHON")) return chosen;
  // ENVIRONMENT/lib/python3.x/site-packages/torch
  const fs::path own = loaded_torch() / "../../../../bin/python3";
  return fs::exists(own) ? own.lexically_normal().string() : "python3";
}

/// Asks the Python program for its version and paths, without importing torch.
json ask(const std::string& executable) {
  constexpr const char* kQuestion =
      "import importlib.util as u, json, sys, sysconfig as s; v = s.get_config_var; "
      "t = u.find_spec(\"torch\"); n = [v(\"INSTSONAME\") or \"\", v(\"LDLIBRARY\") or \"\"]; "
      "d = [v(\"LIBDIR\"), v(\"LIBPL\"), sys.base_prefix + \"/lib\"]; "
      "print(json.dumps({\"executable\": sys.executable, \"version\": sys.version.split()[0], "
      "\"libraries\": [f\"{a}/{b}\" for b in n for a in d if \".so\" in b] + n[:1], "
      "\"torch\": t and t.submodule_search_locations[0]}))";
  std::string quoted = "'";
  for (const char c : executable) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  const std::string command = fmt::format("{}' -c '{}'", quoted, kQuestion);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), &pclose);
  std::string text;
  std::array<char, 4096> part{};
  while (pipe && std::fgets(part.data(), part.size(), pipe.get()) != nullptr) text += part.data();
  const json answer = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object()) {
    throw UserError(kWhere, fmt::format("'{}' is no Python that can be started", executable),
                    "give its path as RTFX_PYTHON or as the option `python`");
  }
  return answer;
}

void require_same_torch(const json& python) {
  const fs::path ours = loaded_torch();
  const json& theirs = python["torch"];
  if (theirs.is_string() && fs::weakly_canonical(theirs.get<std::string>()) == ours) return;
  throw UserError(
      kWhere,
      fmt::format("{} has {}, the program runs with the LibTorch in {}",
                  python["executable"].get<std::string>(),
                  theirs.is_string() ? "torch in " + theirs.get<std::string>() : "no torch",
                  ours.string()),
      "tensors are shared, so both must be one: name the Python of that LibTorch's environment "
      "(RTFX_PYTHON), or give the program that torch (--libtorch of `make dist`, "
      "make LIBTORCH=DIR)");
}

void* load_library(const json& python) {
  // A process that Python started has these functions already.
  if (dlsym(RTLD_DEFAULT, "Py_IsInitialized") != nullptr) return dlopen(nullptr, RTLD_NOW);
  std::vector<std::string> names;
  if (const char* given = std::getenv("RTFX_LIBPYTHON")) {
    names = {given};
  } else {
    names = python["libraries"].get<std::vector<std::string>>();
  }
  // RTLD_GLOBAL is needed because extension modules look for Python's functions among those of the
  // whole process.
  for (const std::string& name : names) {
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL)) return library;
  }
  throw UserError(
      kWhere,
      fmt::format("{} (Python {}) has no shared library", python["executable"].get<std::string>(),
                  python["version"].get<std::string>()),
      "install the package libpython3, or name libpython3.x.so as RTFX_LIBPYTHON");
}

}  // namespace

const Interpreter& Interpreter::get(const std::string& executable) {
  const fs::path wanted = choose(executable);
  static const Interpreter interpreter(wanted);
  if (interpreter.executable_ != wanted) {
    throw UserError(kWhere,
                    fmt::format("'{}' is wanted, but '{}' has been started in this process",
                                wanted.string(), interpreter.executable_.string()),
                    "one process has one Python: set \"isolate\": true, or choose one for all");
  }
  return interpreter;
}

Interpreter::Interpreter(const fs::path& executable) : executable_(executable) {
  const json python = ask(executable.string());
  require_same_torch(python);
  find_all(load_library(python));
  if (api.Py_IsInitialized() == 0) {
    // Python finds its environment by the name of its program. The string is never freed.
    api.Py_SetProgramName(
        api.Py_DecodeLocale(python["executable"].get<std::string>().c_str(), nullptr));
    api.Py_InitializeEx(/*signal handlers=*/0);
    api.PyEval_SaveThread();  // each call takes the lock for itself
  }
  const Gil gil;
  constexpr int kFile = 257;  // Py_file_input
  const Owned code(well(api.Py_CompileString(kHostSource, "rtfx/host.py", kFile)));
  host_ = well(api.PyImport_ExecCodeModule("rtfx_host", code.get()));
}

Interpreter::Answer Interpreter::call(const char* function, const json& about,
                                      const std::vector<at::Tensor>& tensors,
                                      const std::string& where) const {
  const Gil gil;
  const Owned callable(well(api.PyObject_GetAttrString(host_, function)));
  const Owned arguments(well(api.PyTuple_New(static_cast<ssize_t>(1 + tensors.size()))));
  // to_text() writes valid UTF-8, although a piece of the vocabulary may be only a part of a
  // character.
  const std::string text = to_text(about);
  api.PyTuple_SetItem(  // which takes the reference over
      arguments.get(), 0,
      well(api.PyUnicode_FromStringAndSize(text.data(), static_cast<ssize_t>(text.size()))));
  for (size_t i = 0; i < tensors.size(); ++i)
    api.PyTuple_SetItem(arguments.get(), static_cast<ssize_t>(1 + i), to_capsule(tensors[i]));
  const ForkGuard fork_guard;
  const Owned result(well(api.PyObject_CallObject(callable.get(), arguments.get())));

  Answer answer{text_of(api.PyTuple_GetItem(result.get(), 0)), {}};
  if (answer.about.is_object() && answer.about.contains("error")) {
    const std::string problem = answer.about["error"];
    if (!answer.about["row"].is_null()) throw WrongResult(answer.about["row"], problem);
    throw UserError(where, problem);
  }
  for (ssize_t i = 1; i < api.PyTuple_Size(result.get()); ++i)
    answer.tensors.push_back(from_capsule(api.PyTuple_GetItem(result.get(), i)));
  return answer;
}

}  // namespace rtfx
