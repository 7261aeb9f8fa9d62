#include "harness/results/comparable.h"

#include <fmt/format.h>

namespace rtfx {
namespace {

using nlohmann::json;

json at_pointer(const json& record, const std::string& pointer) {
  const json::json_pointer where(pointer);
  return record.contains(where) ? record.at(where) : json();
}

/// The entry of a list of provenance with this id.
json entry(const json& provenance, const char* list, const json& id) {
  for (const json& item : provenance.value(list, json::array())) {
    if (item.value("id", json()) == id) return item;
  }
  return nullptr;
}

/// Collects the differences between two results.
class ConditionComparison {
 public:
  ConditionComparison(const CaseResult& a, const CaseResult& b)
      : a_(a), b_(b), p_(a.provenance), q_(b.provenance) {}

  std::vector<ConditionDifference> differences() {
    for (const char* key :
         {"/device/type", "/device/name", "/cpu/threads", "/tf32", "/shards/count"})
      compare("", key + 1, at_pointer(p_, key), at_pointer(q_, key));
    // Journals of earlier releases do not say how the CPUs were shared.
    if (both_say("/cpu/wait_policy")) {
      for (const char* key : {"/cpu/wait_policy", "/cpu/affinity/cpus", "/cpu/group_limits/cpus"})
        compare("", key + 1, at_pointer(p_, key), at_pointer(q_, key));
    }
    compare_checksums();
    for (const char* key : {"id", "utterances", "audio_seconds"}) {
      const json &x = a_.summary.last.at("dataset"), &y = b_.summary.last.at("dataset");
      compare("", fmt::format("dataset {}", key), x.at(key), y.at(key));
    }
    compare("", "protocol.mode", a_.summary.last.value("pipeline", json("isolated")),
            b_.summary.last.value("pipeline", json("isolated")));
    compare("", "batch", a_.summary.last.at("batch"), b_.summary.last.at("batch"));
    compare_order();
    compare_decoders();
    compare_where_said("encoder", "encoder", "/config/encoder");
    compare_where_said("encoder", "encoder_graphs", "/config/encoder_graphs");
    for (const char* key : {"/libtorch", "/cuda_runtime", "/cudnn"})
      compare_where_said("libtorch", key + 1, key);
    compare_where_said("driver", "cuda_driver", "/cuda_driver");
    compare_scorers();
    compare_clocks();
    return std::move(found_);
  }

 private:
  void add(const char* kind, std::string text) { found_.push_back({kind, std::move(text)}); }

  void compare(const char* kind, const std::string& name, const json& x, const json& y) {
    if (x != y) add(kind, fmt::format("other {}: {}, now {}", name, x.dump(), y.dump()));
  }

  bool both_say(const char* pointer) const {
    return !at_pointer(p_, pointer).is_null() && !at_pointer(q_, pointer).is_null();
  }

  void compare_where_said(const char* kind, const std::string& name, const char* pointer) {
    if (both_say(pointer)) compare(kind, name, at_pointer(p_, pointer), at_pointer(q_, pointer));
  }

  void compare_checksums() {
    for (const auto& [list, key] :
         {std::pair("models", "model"), std::pair("datasets", "dataset")}) {
      const json x = entry(p_, list, a_.summary.last.at(key).at("id"));
      const json y = entry(q_, list, b_.summary.last.at(key).at("id"));
      if (x.is_null() || y.is_null()) continue;
      if (x.value("sha256", json()) != y.value("sha256", json()))
        add("", fmt::format("other {}: its checksum differs", key));
    }
    const auto context = [](const CaseResult& c) {
      const json config = c.provenance.value("config", json::object());
      const json model = entry(config, "models", c.summary.last.at("model").at("id"));
      return model.is_object() ? model.value("att_context_size", json()) : json();
    };
    if (!p_.contains("config") || !q_.contains("config")) return;
    compare("", "att_context_size", context(a_), context(b_));
  }

  void compare_order() {
    compare_where_said("", "sort", "/config/sort");
    if (at_pointer(p_, "/config/sort") == "shuffle")
      compare_where_said("", "protocol.seed", "/config/protocol/seed");
  }

  void compare_decoders() {
    const json &x = a_.summary.last.at("decoder"), &y = b_.summary.last.at("decoder");
    compare("", "decoder", x.at("name"), y.at("name"));
    compare_options("option ", x.value("options", json::object()),
                    y.value("options", json::object()));
  }

  /// Journals hold every option with its value, so one that is missing is of another release.
  void compare_options(const std::string& name, const json& x, const json& y) {
    if (!x.is_object() || !y.is_object()) {
      if (checksum(p_, x) != checksum(q_, y)) compare("", name, x, y);
      return;
    }
    const bool inner = name != "option ";
    for (const auto& [key, value] : x.items()) {
      if (y.contains(key)) compare_options(name + (inner ? "." : "") + key, value, y.at(key));
    }
  }

  /// The checksum of the file that an option names, which may lie elsewhere; else the value itself.
  static json checksum(const json& provenance, const json& value) {
    if (!value.is_string()) return value;
    return provenance.value("decoder_files", json::object()).value(value.get<std::string>(), value);
  }

  void compare_scorers() {
    const auto scorer = [](const CaseResult& c) {
      const json wer = c.rounds.empty() ? json() : c.rounds.front().value("wer", json());
      return wer.is_object() ? fmt::format("{} version {}", wer.value("normalizer", ""),
                                           wer.value("version", 0))
                             : std::string();
    };
    compare("scorer", "scorer", scorer(a_), scorer(b_));
  }

  /// Journals of earlier releases began the clock behind the padding.
  void compare_clocks() {
    const auto padding = [](const CaseResult& c) {
      return !c.rounds.empty() && c.rounds.front().at("regions").contains("pad");
    };
    if (padding(a_) != padding(b_))
      add("", "only one of both counts padding as time: measure the baseline again");
  }

  const CaseResult &a_, &b_;
  const json &p_, &q_;
  std::vector<ConditionDifference> found_;
};

}  // namespace

const std::vector<std::string>& allowable_differences() {
  static const std::vector<std::string> kinds = {"libtorch", "driver", "encoder", "scorer"};
  return kinds;
}

std::vector<ConditionDifference> condition_differences(const CaseResult& a, const CaseResult& b) {
  return ConditionComparison(a, b).differences();
}

}  // namespace rtfx
