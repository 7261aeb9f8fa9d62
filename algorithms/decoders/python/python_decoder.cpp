// A decoder written in Python, under the same driver as all others: a class of the user's module
// gets the model, then batches, and returns tokens, frames and scores. docs/own_decoder.md says
// how such a class looks, host.py calls it.
#include <c10/util/Exception.h>

#include <chrono>
#include <filesystem>

#include "algorithms/decoder_base.h"
#include "algorithms/decoders/python/interpreter.h"
#include "base/error.h"
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
  auto field = option("file", &Options::file, "the decoder's .py file");
  field.is_required = false;  // where `module` is given
  field.default_text = "none";
  return field;
}

OptionField<Options> arguments_option() {
  return detail::field("options", &Options::options, "keyword arguments of the class", "an object",
                       [](const JsonView& v) {
                         if (!v.value().is_object()) v.fail("an object");
                         return v.value();
                       });
}

const OptionTable<Options>& Options::table() {
  static const OptionTable<Options> table{{
      file_option(),
      text_option("module", &Options::module, "in place of a file: a module by its dotted name"),
      text_option("class", &Options::name, "the class in it"),
      arguments_option(),
      text_option("path", &Options::path,
                  "where its imports are looked for first, relative to the file", "a folder"),
      option("head", &Options::head, "what it decodes by", {"transducer", "ctc"}),
      option("exactness", &Options::exactness, "exact: it must agree with the baseline",
             {"exact", "approximate"}),
      option("score_kind", &Options::score_kind,
             "what its scores sum; those of other kinds than the baseline's are not compared",
             {"none", "logit", "logprob", "text_logprob"}),
      option("max_symbols", &Options::max_symbols, "tokens per frame, told to the class", 1, 1000)
          .by_default("the model's"),
      text_option("python", &Options::python, "the Python program of its environment")
          .by_default("RTFX_PYTHON, else that of LibTorch's environment, else python3"),
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
    if (python_ != nullptr) python_->call("release", arm_, {}, where_);
  }

  Description describe() const override {
    const bool ctc = options_.head == "ctc";
    return {"python", ctc ? Head::ctc : Head::transducer,
            options_.exactness == "exact" ? Description::Exactness::exact
                                          : Description::Exactness::approximate,
            ctc ? std::vector<std::string>{"ctc"} : std::vector<std::string>{"rnnt", "tdt"},
            options_.score_kind == "none" ? "" : options_.score_kind};
  }

  /// With the versions of what it runs on, once these are known.
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
    const std::map<std::string, at::Tensor> weights = weights_of(*model_);
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
  /// Adds microseconds.
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

  /// The heads' weights by the names of expected_tensors() (models/checkpoint/checkpoint.h).
  static std::map<std::string, at::Tensor> weights_of(const AcousticModel& model) {
    std::map<std::string, at::Tensor> weights;
    const auto add = [&](const std::string& name, const at::Tensor& weight,
                         const at::Tensor& bias) {
      weights[name + ".weight"] = weight;
      weights[name + ".bias"] = bias;
    };
    if (model.ctc_head) add("ctc", model.ctc_head->weight(), model.ctc_head->bias());
    if (!model.prediction) return weights;
    add("joint.enc", model.joint->encoder().weight, model.joint->encoder().bias);
    add("joint.pred", model.joint->prediction().weight, model.joint->prediction().bias);
    add("joint.joint_net", model.joint->output().weight, model.joint->output().bias);
    const bool lstm = model.prediction->config().kind == PredictionConfig::Kind::lstm;
    const auto& tables = model.prediction->embeddings();
    for (size_t i = 0; i < tables.size(); ++i) {
      weights["decoder.prediction." + (lstm ? "embed" : "embeds." + std::to_string(i)) +
              ".weight"] = tables[i];
    }
    const auto& layers = model.prediction->layers();
    for (size_t i = 0; i < layers.size(); ++i) {
      const std::string lstm_name = "decoder.prediction.dec_rnn.lstm.",
                        end = "_l" + std::to_string(i);
      weights[lstm_name + "weight_ih" + end] = layers[i].w_ih;
      weights[lstm_name + "weight_hh" + end] = layers[i].w_hh;
      weights[lstm_name + "bias_ih" + end] = layers[i].b_ih;
      weights[lstm_name + "bias_hh" + end] = layers[i].b_hh;
    }
    return weights;
  }

  /// Members of host.py's Model.
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
  uintptr_t arm_ = 0;  // by which host.py knows it
  bool has_objects_ = false;
  std::vector<std::string> boosted_words_;
  json versions_;
  Counters counters_;
};

const RegisterDecoder registered{
    {"python", "a class of one's own, in Python, on torch tensors", Options::table().info(),
     [](const json& given, std::string_view where) {
       Options options = Options::table().fill(given, where);
       if (!given.is_null() && options.file.empty() == options.module.empty()) {
         throw UserError(where, "exactly one of `file` and `module` is needed",
                         R"(for example "file": "my_decoder.py")");
       }
       return std::make_unique<PythonDecoder>(std::move(options));
     }}};

}  // namespace
}  // namespace rtfx
