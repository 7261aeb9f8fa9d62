#include <ATen/DLConvertor.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/decoders/python/host_source.h"
#include "algorithms/foreign_code.h"
#include "algorithms/hypotheses.h"
#include "algorithms/option_help.h"
#include "base/error.h"
#include "base/json.h"
#include "base/nvtx.h"
#include "models/acoustic_model.h"

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

// A decoder written in Python, which the same driver runs as all others. A class of the user's
// module gets the model and then batches, and returns tokens, frames and scores. host.py calls this
// class, and docs/own_decoder.md describes it.

namespace {

using nlohmann::json;

struct Options {
  std::filesystem::path file, path;
  std::string module, name = "Decoder", python;
  json options = json::object();
  std::string head = "transducer", exactness = "approximate", score_kind = "none";
  int64_t max_symbols = 10;

  static const OptionTable<Options>& table();
};

OptionField<Options> file_option() {
  auto field =
      option("file", &Options::file,
             "Python file (.py) with the class of the decoder. Give either this or `module`.");
  field.is_required = false;  // `module` may be given in its place
  field.default_text = "none";
  return field;
}

OptionField<Options> arguments_option() {
  return detail::field(
      "options", &Options::options,
      "Keyword arguments of the class. A list of values makes one decoder of each value.",
      "an object", [](const JsonView& v) {
        if (!v.value().is_object()) v.fail("an object");
        return v.value();
      });
}

const OptionTable<Options>& Options::table() {
  static const OptionTable<Options> table{{
      file_option(),
      text_option("module", &Options::module,
                  "Dotted name of the Python module with the class of the decoder. Give either "
                  "this or `file`."),
      text_option("class", &Options::name, "Name of the class."),
      arguments_option(),
      text_option("path", &Options::path,
                  "Folder that Python searches first for imports. The path is relative to the "
                  "folder of `file`.",
                  "a folder"),
      option("head", &Options::head,
             "Head of the model that the class decodes. The decoder is compared with others of "
             "this head.",
             {"transducer", "ctc"}),
      option("exactness", &Options::exactness,
             "`exact`: the results must agree with those of the baseline. `approximate`: the "
             "comparison is only reported.",
             {"exact", "approximate"}),
      option("score_kind", &Options::score_kind,
             "Kind of score that the class returns. `logit`, `logprob`: a sum over tokens. "
             "`text_logprob`: the log-probability of the text. `none`: no score. Scores are "
             "compared only with a baseline of the same kind.",
             {"none", "logit", "logprob", "text_logprob"}),
      option("max_symbols", &Options::max_symbols,
             "Largest number of tokens that can be emitted at one encoder frame. The class reads "
             "it as `model.max_symbols`.",
             1, 1000)
          .by_default(kMaxSymbolsDefault),
      text_option("python", &Options::python, "Python program whose environment runs the class.")
          .by_default("RTFX_PYTHON, else the Python of LibTorch's environment, else python3"),
  }};
  return table;
}

std::string kind_of(const PredictionConfig& prediction) {
  return prediction.kind == PredictionConfig::Kind::lstm ? "lstm" : "stateless";
}

class PythonDecoder : public DecoderBase<Options> {
 public:
  explicit PythonDecoder(Options options) : DecoderBase(std::move(options)) {
    const std::string module = options_.file.empty() ? options_.module : options_.file.string();
    where_ = module + ", " + options_.name;
  }
  ~PythonDecoder() override {
    if (python_ == nullptr) return;
    try {
      python_->call("release", arm_, {}, where_);
    } catch (...) {
      // A class may fail in its __del__(). The results are complete by then, and host.py has put
      // back what the class changed.
    }
  }

  Description describe() const override {
    const bool ctc = options_.head == "ctc";
    return {"python", ctc ? Head::ctc : Head::transducer,
            options_.exactness == "exact" ? Description::Exactness::exact
                                          : Description::Exactness::approximate,
            ctc ? std::vector<std::string>{"ctc"} : std::vector<std::string>{"rnnt", "tdt"},
            options_.score_kind == "none" ? "" : options_.score_kind};
  }

  /// Returns the options. Once prepare() knows them, the versions of the Python environment are
  /// added.
  json options() const override {
    json all = DecoderBase::options();
    if (!versions_.is_null()) all["versions"] = versions_;
    return all;
  }
  Counters counters() const override { return counters_; }
  std::vector<std::string> boosted_words() const override { return boosted_words_; }

  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override {
    require_model_kind(describe(), *model);
    model_ = std::move(model);
    const std::map<std::string, at::Tensor> weights = head_weights(*model_);
    json names = json::array();
    std::vector<at::Tensor> tensors;
    for (const auto& [name, tensor] : weights) {
      names.push_back(name);
      tensors.push_back(tensor);
    }
    arm_ = reinterpret_cast<uintptr_t>(this);
    const Interpreter& python = Interpreter::get(options_.python);
    const json about = python
                           .call("prepare",
                                 {{"arm", arm_},
                                  {"file", options_.file.string()},
                                  {"module", options_.module},
                                  {"class", options_.name},
                                  {"path", options_.path.string()},
                                  {"options", options_.options},
                                  {"model", settings(limits)},
                                  {"tensors", names}},
                                 tensors, where_)
                           .about;
    python_ = &python;
    has_objects_ = about["objects"];
    boosted_words_ = about["boosted_words"];
    versions_ = about["versions"];
  }

  Hypotheses decode(const EncodedBatch& batch) override {
    python_->call("decode", arm_, {batch.frames, batch.lengths}, where_);
    counters_.clear();
    if (has_objects_) {
      const ScopedRange range(RangeName::decode_objects, batch.frames.size(0));
      const Timer timer(counters_["objects_us"]);
      python_->call("objects", arm_, {}, where_);
    }
    const ScopedRange range(RangeName::decode_results, batch.frames.size(0));
    const Timer timer(counters_["results_us"]);
    const Interpreter::Answer answer = python_->call("results", arm_, {}, where_);
    for (const auto& [name, count] : answer.about["counters"].items()) counters_[name] = count;
    return hypotheses(answer);
  }

 private:
  /// Adds the microseconds of its lifetime to a sum.
  class Timer {
   public:
    explicit Timer(int64_t& sum) : sum_(sum), begin_(std::chrono::steady_clock::now()) {}
    ~Timer() {
      sum_ +=
          std::chrono::round<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin_)
              .count();
    }
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;

   private:
    int64_t& sum_;
    std::chrono::steady_clock::time_point begin_;
  };

  /// Returns the members of the class Model of host.py.
  json settings(const Limits& limits) const {
    const ModelConfig& config = model_->config;
    json pieces = json::array();
    for (int32_t id = 0; model_->tokenizer && id < model_->tokenizer->size(); ++id)
      pieces.push_back(model_->tokenizer->piece(id));
    return {{"kind", config.kind()},
            {"vocabulary", config.vocabulary},
            {"blank", config.vocabulary},
            {"durations", config.durations},
            {"max_symbols", options_.max_symbols},
            {"limits", {{"max_batch", limits.max_batch}, {"max_frames", limits.max_frames}}},
            {"pieces", pieces},
            {"config",
             {{"frame_seconds", config.frame_seconds()},
              {"frame_width", config.encoder.frame_width()},
              {"joint_width", config.joint_width},
              {"joint_activation", config.joint_activation},
              {"prediction",
               {{"kind", kind_of(config.prediction)},
                {"width", config.prediction.width},
                {"layers", config.prediction.layers},
                {"context_size", config.prediction.context_size},
                {"layer_norm", config.prediction.layer_norm}}}}}};
  }

  static Hypotheses hypotheses(const Interpreter::Answer& answer) {
    std::map<std::string, at::Tensor> named;
    for (size_t i = 0; i < answer.tensors.size(); ++i)
      named[answer.about["names"][i]] = answer.tensors[i];
    Hypotheses h = {named["lengths"],   named["tokens"], named["frames"],
                    named["durations"], named["scores"], named["nan"]};
    if (!answer.about["nbest"]) return h;
    h.nbest = {h.lengths, h.tokens, h.frames, h.durations, h.scores};
    for (at::Tensor* t : {&h.lengths, &h.tokens, &h.frames, &h.durations, &h.scores}) {
      if (t->defined() && t->dim() > 1) *t = t->select(1, 0);
    }
    return h;
  }

  std::string where_;
  std::shared_ptr<const AcousticModel> model_;
  const Interpreter* python_ = nullptr;
  uintptr_t arm_ = 0;  // key of this decoder in host.py
  bool has_objects_ = false;
  std::vector<std::string> boosted_words_;
  json versions_;
  Counters counters_;
};

const RegisterDecoder registered{
    {"python",
     "A decoder that the user writes as a Python class on torch tensors",
     Options::table().info(),
     [](const json& given, std::string_view where) {
       Options options = Options::table().fill(given, where);
       if (!given.is_null() && options.file.empty() == options.module.empty()) {
         throw UserError(where, "exactly one of `file` and `module` is needed",
                         R"(for example "file": "my_decoder.py")");
       }
       return std::make_unique<PythonDecoder>(std::move(options));
     },
     /*needs_gpu=*/false,
     /*is_foreign=*/true,
     {"head", {"ctc", "rnnt", "tdt"}, "exactness"}}};

}  // namespace

}  // namespace rtfx
