// A decoder written in Python, which the same driver runs as all others. A class of the user's
// module gets the model and then batches, and returns tokens, frames and scores. host.py calls this
// class, and docs/own_decoder.md describes it.
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "algorithms/decoder.h"
#include "algorithms/decoders/python/interpreter.h"
#include "algorithms/hypotheses.h"
#include "algorithms/option_help.h"
#include "base/error.h"
#include "base/json.h"
#include "base/nvtx.h"
#include "models/acoustic_model.h"

namespace rtfx {

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
             "Kind of score that the class returns. `logit`, `logprob`: a sum over tokens. With "
             "the head `ctc`, `logprob` sums the log-probability of every frame's label, blanks "
             "included. `text_logprob`: the log-probability of the text. `none`: no score. Scores "
             "are compared only with a baseline of the same kind.",
             {"none", "logit", "logprob", "text_logprob"}),
      max_symbols_option(&Options::max_symbols,
                         "Largest number of tokens that can be emitted at one encoder frame. The "
                         "class reads it as `model.max_symbols`."),
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
