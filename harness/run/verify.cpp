#include "harness/run/verify.h"

#include <c10/cuda/CUDAFunctions.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "algorithms/decoder.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "harness/config/document.h"
#include "harness/config/plan.h"
#include "harness/results/claims.h"
#include "harness/results/compare.h"
#include "harness/results/journal.h"
#include "harness/run/caching_audit.h"
#include "harness/run/isolated_run.h"
#include "harness/run/run.h"
#include "harness/scoring/normalize.h"
#include "models/formats/hub.h"
#include "speech/runtime/stages.h"

namespace rtfx {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

using Claims = std::vector<const CaseResult*>;

/// Returns why the case cannot be run again in one process; empty if it can.
std::string not_repeatable(const CaseResult& claim) {
  if (claim.summary.failure) return "failed: " + *claim.summary.failure;
  const record::Provenance& provenance = claim.provenance();
  if (!provenance.config) return "the journal does not hold its configuration";
  const auto& shards = provenance.shards;
  if (shards && shards->count.value_or(1) > 1)
    return fmt::format("measured by {} processes together", *shards->count);
  return "";
}

/// Returns the id of the decoder that the case is compared with; empty if there is none.
std::string baseline_of(const CaseResult& claim) {
  const record::Exactness* exactness = claim.summary.last_exactness();
  return exactness == nullptr ? "" : std::string(exactness->baseline);
}

/// The configuration of one invocation that wrote the journal, with the overrides of this
/// invocation. Paths in it are relative to the working folder.
class ClaimedConfig {
 public:
  ClaimedConfig(const fs::path& journal, const record::Provenance& provenance,
                const VerifyOptions& options)
      : journal_(journal),
        provenance_(provenance),
        options_(options),
        // Journals of earlier versions hold "" and [], which the reader of configurations refuses.
        document_(detail::without_empty(provenance.config->value()), journal.filename(),
                  options.overrides) {
    const std::string measured_on = provenance.device.value_or(record::Device()).type.value_or("");
    json& device = document_.value["device"];
    const auto is_device = [](const std::string& text) { return text.starts_with("device="); };
    if (!options.device.empty()) {
      device = options.device;
    } else if (!measured_on.empty() && std::ranges::none_of(options.overrides, is_device)) {
      device = measured_on;  // "auto" may be another device here
    }
    // The paths among the options of a plug-in's decoder are known once it is loaded.
    for (const json& plugin : list_of("plugins"))
      if (plugin.is_string() && fs::exists(plugin.get<std::string>())) load_plugin(plugin);
    // A child process reads the configuration from a file in another folder.
    for_each_path_of_document(config_keys().info(), "", document_.value,
                              [](const std::string&, json& path) {
                                const auto text = path.get<std::string>();
                                if (fs::exists(text)) path = fs::absolute(text).string();
                              });
  }

  /// Returns the configuration of claims that share model, dataset, batches and dtype. Throws
  /// UserError.
  Config of(const Claims& claims) const {
    return parse_config(Document(value_of(claims, true), document_.origins.file()));
  }

  /// Leaves out datasets that have no batch sizes in the run, and so no case. Journals of earlier
  /// versions may hold some, and a plan refuses them.
  static void drop_unmeasured(json& value) {
    const json sizes = value.value("batch_sizes", json());
    if (!sizes.is_array() || !value.value("datasets", json()).is_array()) return;
    json measured = json::array();
    for (const json& dataset : value["datasets"]) {
      const json own = dataset.is_object() ? dataset.value("batch_sizes", json()) : json();
      const auto is_run = [&](const json& size) {
        return std::ranges::find(sizes, size) != sizes.end();
      };
      if (!own.is_array() || own.empty() || std::ranges::any_of(own, is_run))
        measured.push_back(dataset);
    }
    value["datasets"] = std::move(measured);
  }

  /// Returns the names of all cases of the configuration. Throws UserError.
  std::vector<std::string> cases(const ResultSet& journal) const {
    json value = document_.value;
    value.erase("stream");  // not part of the plan
    drop_unmeasured(value);
    const Config config = parse_config(Document(std::move(value), document_.origins.file()));
    std::vector<ModelKinds> kinds;
    for (const ModelSource& model : config.models) {
      kinds.push_back({"ctc"});  // a head that the records of other decoders do not name
      for (const CaseResult& c : journal.cases) {
        const record::Model& other = c.about().model;
        if (other.id == model.id && other.kind) kinds.back().emplace_back(*other.kind);
      }
    }
    std::vector<std::string> names;
    for (const CaseGroup& group : make_plan(config, kinds)) {
      for (const PlannedDecoder& decoder : group.decoders) names.push_back(decoder.case_name);
    }
    return names;
  }

  /// Also writes the configuration to a file, for child processes. Without baselines, it has only
  /// the decoders of the claims.
  Config in_file(const Claims& claims, bool with_baselines, const fs::path& file) const {
    write_file(file, to_text(value_of(claims, with_baselines), 2) + "\n");
    return parse_config(read_document(file));
  }

  /// Returns whether all files that the claim needs exist. Adds an error for each missing file,
  /// once.
  bool has_files(const CaseResult& claim, ErrorList& errors) const {
    bool all = true;
    const record::Case& about = claim.about();
    std::vector<std::string> needed = {"/plugins"};
    for (const auto& [list, ids] : std::map<std::string, std::set<std::string>>{
             {"models", {about.model.id}},
             {"datasets", {about.dataset.id}},
             {"decoders", {claim.decoder(), baseline_of(claim)}}}) {
      for (size_t i = 0; i < list_of(list).size(); ++i)
        if (ids.contains(text_in(list_of(list)[i], "id")))
          needed.push_back(fmt::format("/{}/{}", list, i));
    }
    json value = document_.value;
    const std::string root = journal_.string() + "#";
    for_each_path_of_document(
        config_keys().info(), root, value, [&](const std::string& where, const json& path) {
          const std::string pointer = where.substr(root.size());
          const bool is_needed = std::ranges::any_of(needed, [&](const std::string& part) {
            return pointer == part || pointer.starts_with(part + "/");
          });
          if (is_needed) all = has_file(where, pointer, path.get<std::string>(), errors) && all;
        });
    return all;
  }

  /// Throws UserError if the journal was measured on a GPU and this machine has none.
  void require_device() const {
    if (!text_in(document_.value, "device").starts_with("cuda") || c10::cuda::device_count() > 0)
      return;
    const record::Device device = provenance_.device.value_or(record::Device());
    throw UserError(journal_.string(),
                    fmt::format("was measured on {}, and this machine has no GPU",
                                printable(device.name.value_or("a GPU"))),
                    "verify it on a machine with one; --device cpu compares the words alone");
  }

 private:
  json value_of(const Claims& claims, bool with_baselines) const {
    const record::Case& about = claims.front()->about();
    json value = document_.value;
    std::set<std::string> decoders;
    for (const CaseResult* claim : claims) {
      decoders.insert(claim->decoder());
      if (with_baselines) decoders.insert(baseline_of(*claim));
    }
    keep(value, "models", {std::string(about.model.id)});
    keep(value, "datasets", {std::string(about.dataset.id)});
    keep(value, "decoders", decoders);
    for (json& dataset : value["datasets"]) dataset.erase("batch_sizes");
    for (json& decoder : value["decoders"]) {
      for (const char* key : {"models", "datasets"}) decoder.erase(key);
      if (!decoders.contains(text_in(decoder, "baseline"))) decoder.erase("baseline");
    }
    if (!decoders.contains(text_in(value, "baseline"))) value.erase("baseline");
    for (const char* key : {"batch_sizes", "batch_seconds", "tune", "stream"}) value.erase(key);
    const double size = about.batch.size;
    if (about.batch.by == "seconds") {
      value["batch_seconds"] = {size};
    } else {
      value["batch_sizes"] = {static_cast<int64_t>(size)};
    }
    value["dtypes"] = {std::string(about.dtype)};
    value["name"] = "verify";
    value["output"] = fs::absolute(options_.output).string();
    value["sync_debug"] = false;
    json& protocol = value["protocol"];
    if (!protocol.is_object()) protocol = json::object();
    protocol["measured_rounds"] = options_.rounds;
    protocol["precision"] = protocol["budget_seconds"] = protocol["energy_seconds"] = 0;
    protocol["aa_control"] = false;
    return value;
  }

  const json& list_of(const std::string& key) const {
    static const json kNone = json::array();
    const auto found = document_.value.find(key);
    return found != document_.value.end() && found->is_array() ? *found : kNone;
  }

  /// Keeps only the entries of a list that have one of the ids.
  void keep(json& value, const char* key, const std::set<std::string>& ids) const {
    json kept = json::array();
    for (const json& entry : list_of(key))
      if (ids.contains(text_in(entry, "id"))) kept.push_back(entry);
    if (kept.empty()) {
      throw UserError(fmt::format("{}#/{}", journal_.string(), key),
                      fmt::format("has no entry '{}'", fmt::join(ids, "', '")),
                      "an override must keep the \"id\" of the journal");
    }
    value[key] = std::move(kept);
  }

  bool has_file(const std::string& where, const std::string& pointer, const std::string& path,
                ErrorList& errors) const {
    bool exists = fs::exists(path);
    if (!exists && pointer.starts_with("/models/"))
      // it may be a name of Hugging Face
      errors.run([&] { exists = fs::exists(find_checkpoint(path)); });
    const bool is_known = std::ranges::any_of(
        errors.all(), [&](const UserError& e) { return e.where() == where || e.where() == path; });
    if (exists || is_known) return exists;
    std::string dotted = pointer.substr(1);
    std::ranges::replace(dotted, '/', '.');
    const std::string sum = checksum(pointer, path);
    errors.add({where, fmt::format("no such file here: {}", path),
                fmt::format("--set {}=FILE names it{}", dotted,
                            sum.empty() ? "" : fmt::format("; its SHA-256 is {}", sum))});
    return false;
  }

  /// Returns the checksum that the journal has for a file; empty if it has none.
  std::string checksum(const std::string& pointer, const std::string& path) const {
    const auto of = [&](const auto& list) -> std::string {
      if (!list) return "";
      for (const auto& file : *list)
        if (file.path == path) return file.sha256.value_or("");
      return "";
    };
    if (pointer.starts_with("/models/")) return of(provenance_.models);
    if (pointer.starts_with("/datasets/")) return of(provenance_.datasets);
    if (!provenance_.decoder_files) return "";
    const auto found = provenance_.decoder_files->find(path);
    return found == provenance_.decoder_files->end() ? "" : found->second;
  }

  const fs::path& journal_;
  const record::Provenance& provenance_;
  const VerifyOptions& options_;
  Document document_;
};

/// Returns the parts that need a GPU, if the device is a CPU; empty if there are none.
std::string lack_of_gpu(const Config& config) {
  try {
    require_fitting_device(config);
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

/// Returns the rerun of a claim under the claim's name. The names differ if the batch size was
/// searched for.
CaseResult rerun_of(const CaseResult& claim, const ResultSet& rerun) {
  const record::Case& about = claim.about();
  const auto found = std::ranges::find_if(rerun.cases, [&](const CaseResult& now) {
    const record::Case& other = now.about();
    return other.model.id == about.model.id && other.dataset.id == about.dataset.id &&
           now.decoder() == claim.decoder() && other.dtype == about.dtype &&
           other.batch.by == about.batch.by && other.batch.size == about.batch.size;
  });
  RTFX_CHECK(found != rerun.cases.end(), "the rerun lacks a case that it was asked for");
  CaseResult now = *found;
  const auto rename = [&](record::Case& fields) {
    fields.case_name = about.case_name;
    fields.batch = about.batch;
  };
  std::visit([&](record::Case& fields) { rename(fields); }, now.summary.last);
  for (record::Round& round : now.summary.rounds)
    std::visit([&](record::Case& fields) { rename(fields); }, round);
  return now;
}

/// The words of this share of utterances may differ between the rerun and the audit, which encodes
/// region by region.
constexpr double kOtherWords = 0.1;

GateRow caching_row(const CaseResult& claim, const CachingAudit& audit, const ResultSet& rerun,
                    const CaseResult& now, const Normalizer& normalizer) {
  GateRow row{claim.name(), "caching", {}, {}, {}, {}, {}, Verdict::invalid, ""};
  if (!audit.failure.empty()) {
    row.reason = "fails in the audit: " + audit.failure;
    return row;
  }
  // `again` shows whether the decoder remembers what it has decoded. `known` shows whether it knows
  // the utterances of the dataset.
  std::vector<double> unseen = audit.unseen;
  for (size_t i = 0; i < unseen.size(); ++i) unseen[i] /= audit.more_steps[i];
  const Interval again = paired_ratio(audit.again, audit.unseen),
                 known = paired_ratio(audit.seen, unseen);
  row.change = graver_ratio(again, known);
  const auto [verdict, reason] = judge_caching(*row.change);
  row.verdict = verdict;
  row.reason = reason;
  std::map<std::string, std::vector<std::string>> texts;
  for (const UtteranceText& text :
       read_hypotheses(rerun, now).value_or(std::vector<UtteranceText>()))
    texts[text.id] = normalizer.words(text.text);
  const auto differs = [&](const auto& decoded) {
    const auto found = texts.find(decoded.first);
    return found != texts.end() && found->second != decoded.second;
  };
  const auto other = std::ranges::count_if(audit.words, differs);
  if (static_cast<double>(other) > kOtherWords * static_cast<double>(audit.words.size())) {
    row.verdict = Verdict::correctness;
    row.reason = fmt::format(
        "behind other speech of the same length, {} of {} results have other "
        "words than in the rerun",
        other, audit.words.size());
  }
  return row;
}

class Verifier {
 public:
  Verifier(const ResultSet& journal, const VerifyOptions& options)
      : journal_(journal), options_(options) {
    found_.journal = journal.journal;
    found_.cases = journal.cases.size();
    found_.seed = options.seed.value_or(std::random_device()());
  }

  Verification run() {
    check_own_records();
    check_completeness();
    ResultSet rerun;
    std::optional<Journal> lock;  // covers the rerun and the audits after it
    try {
      draw();
      lock.emplace(options_.output, Journal::Mode::force);
      rerun = run_again();
    } catch (const UserError&) {
      found_.not_repeated = std::current_exception();
      found_.sampled.clear();
      sort_rows();
      return std::move(found_);
    }
    ResultSet claims, now;
    for (const CaseResult* claim : drawn_) {
      claims.cases.push_back(*claim);
      now.cases.push_back(rerun_of(*claim, rerun));
    }
    std::ranges::move(compare_claims(claims, now), std::back_inserter(found_.rows));
    for (size_t i = 0; i < drawn_.size(); ++i) audit(*drawn_[i], rerun, now.cases[i]);
    sort_rows();
    return std::move(found_);
  }

 private:
  void check_own_records() {
    found_.rows = check_records(journal_);
    std::set<std::string> wrong;
    for (const GateRow& row : found_.rows) wrong.insert(row.case_name);
    found_.checked = static_cast<size_t>(std::ranges::count_if(
        journal_.cases, [](const CaseResult& c) { return !c.summary.failure; }));
    found_.consistent = found_.checked - wrong.size();
  }

  const ClaimedConfig& config_of(const CaseResult& claim) {
    const record::Provenance* provenance = &claim.provenance();
    return configs_.try_emplace(provenance, journal_.journal, *provenance, options_).first->second;
  }

  /// Returns whether `rtfx stream` wrote the journal. All of its cases may have failed.
  bool is_of_streams() const {
    return !journal_.streams.empty() ||
           std::ranges::any_of(journal_.cases, [](const CaseResult& c) {
             const auto* failure = std::get_if<record::Failure>(&c.summary.last);
             return failure != nullptr && failure->stage == "stream";
           });
  }

  /// Names the cases of the configurations that the journal lacks.
  void check_completeness() {
    if (is_of_streams()) {
      found_.left_out.emplace_back("the list of all cases",
                                   "`rtfx stream` has a case for each number of streams");
      return;
    }
    std::set<std::string> missing;
    std::set<const record::Provenance*> invocations;
    // with `isolate`, the process of each batch size repeats the same configuration
    ErrorList unreadable;
    for (const CaseResult& c : journal_.cases) {
      if (!c.provenance().config || !invocations.insert(&c.provenance()).second) continue;
      try {
        for (const std::string& name : config_of(c).cases(journal_))
          if (journal_.find(name) == nullptr) missing.insert(name);
      } catch (const UserError& error) {  // such as a decoder of a missing plug-in
        unreadable.add(error);
      }
    }
    std::set<std::string> reasons;
    for (const UserError& error : unreadable.all()) reasons.insert(error.what());
    for (const std::string& reason : reasons)
      found_.left_out.emplace_back("the list of all cases", reason);
    for (const std::string& name : missing) {
      const char* const why = "the configuration has this case, and the journal does not";
      found_.rows.push_back({name, "case", {}, {}, {}, {}, {}, Verdict::invalid, why});
    }
  }

  /// Draws cases at random until there are as many as wanted.
  void draw() {
    Claims candidates;
    for (const CaseResult& c : journal_.cases) {
      if (!c.control_of().empty()) continue;
      if (c.name().find(options_.only) == std::string_view::npos) continue;
      if (const std::string why = not_repeatable(c); why.empty()) {
        candidates.push_back(&c);
      } else {
        found_.left_out.emplace_back(c.name(), why);
      }
    }
    std::mt19937_64 random(static_cast<uint64_t>(found_.seed));
    for (size_t i = candidates.size(); i > 1; --i)
      std::swap(candidates[i - 1], candidates[random() % i]);
    ErrorList missing;
    for (const CaseResult* claim : candidates) {
      if (std::ssize(drawn_) == options_.sample) break;
      const ClaimedConfig& config = config_of(*claim);
      config.require_device();
      if (config.has_files(*claim, missing)) {
        if (const std::string why = lack_of_gpu(config.of({claim})); !why.empty()) {
          found_.left_out.emplace_back(claim->name(), why);
          continue;
        }
      }
      drawn_.push_back(claim);
    }
    missing.throw_any();
    if (drawn_.empty()) {
      throw UserError(journal_.journal.string(), "has no case that can be run again here",
                      found_.left_out.empty()
                          ? fmt::format("none has '{}' in its name: check --only", options_.only)
                          : fmt::format("the first one: {}: {}", found_.left_out.front().first,
                                        found_.left_out.front().second));
    }
    std::ranges::sort(drawn_);  // pointers into one vector, so this is the journal's order
    for (const CaseResult* claim : drawn_) found_.sampled.emplace_back(claim->name());
  }

  /// Runs the drawn cases into one journal, which this process has locked. Cases that share encoder
  /// passes run together.
  ResultSet run_again() {
    std::map<std::pair<std::string, std::string>, Claims> groups;
    for (const CaseResult* claim : drawn_) {
      const std::string invocation = claim->provenance().provenance_id.value_or("");
      groups[{invocation, claim->group()}].push_back(claim);
    }
    for (const auto& [key, claims] : groups) {
      const Config config = config_of(*claims.front()).in_file(claims, true, next_file());
      const bool whole =
          config.isolate ? measure_isolated(config, Journal::Mode::child) : measure(config);
      if (!whole) throw Interrupted();
    }
    return read_results(options_.output);
  }

  void audit(const CaseResult& claim, const ResultSet& rerun, const CaseResult& now) {
    if (now.summary.failure || now.about().decoder.head == "none") return;
    const Config config = config_of(claim).in_file({&claim}, false, next_file());
    print_message("rtfx: audit for caching: {}\n", printable(claim.name()));
    const Normalizer& normalizer = find_normalizer(config.scorer, claim.name());
    const auto audited = [&](int64_t seed) {
      const CachingAudit audit = audit_in_child(config, seed);
      return std::pair(caching_row(claim, audit, rerun, now, normalizer), audit.failure.empty());
    };
    auto [row, ended] = audited(found_.seed);
    if (ended && row.verdict == Verdict::invalid) {
      // Work of other programs may fall on the unseen batches alone. So a single audit accuses
      // nobody.
      GateRow second = audited(found_.seed + 1).first;
      if (second.verdict == Verdict::pass || second.verdict == Verdict::inconclusive) {
        second.verdict = Verdict::inconclusive;
        second.reason =
            "one of two audits found that it remembers: verify again on a quiet machine";
      }
      row = std::move(second);
    }
    found_.rows.push_back(std::move(row));
  }

  /// Returns the file of the next configuration, beside the journal of the rerun.
  fs::path next_file() { return options_.output / "configs" / fmt::format("{}.json", ++files_); }

  /// Sorts the rows: all rows of a case together, and cases in the journal's order.
  void sort_rows() {
    std::map<std::string, size_t> place;
    for (const CaseResult& c : journal_.cases) place.emplace(c.name(), place.size());
    std::ranges::stable_sort(found_.rows, {},
                             [&](const GateRow& row) { return place[row.case_name]; });
  }

  const ResultSet& journal_;
  const VerifyOptions& options_;
  std::map<const record::Provenance*, ClaimedConfig> configs_;
  Claims drawn_;
  int64_t files_ = 0;
  Verification found_;
};

}  // namespace

Verification verify(const fs::path& journal, const VerifyOptions& options) {
  const ResultSet results = read_results(journal);
  results.require_cases();
  // A name without a folder has an empty parent path, which is not the working folder.
  if (fs::weakly_canonical(fs::absolute(options.output)) ==
      fs::weakly_canonical(fs::absolute(results.journal).parent_path())) {
    throw UserError(options.output.string(), "holds the journal that is to be verified",
                    "choose another --output");
  }
  return Verifier(results, options).run();
}

void print_verification(const Verification& verification) {
  fmt::print("journal  {}: {}\n", printable(verification.journal.string()),
             counted(static_cast<int64_t>(verification.cases), "case"));
  fmt::print("records  no fault in {} of {}\n", verification.consistent,
             counted(static_cast<int64_t>(verification.checked), "case"));
  if (verification.not_repeated)
    fmt::print("sample   none: nothing was repeated, and only the records were checked\n");
  else
    fmt::print("sample   {} of them, --seed {}\n", verification.sampled.size(), verification.seed);
  for (const auto& [name, why] : verification.left_out)
    fmt::print("left out {}: {}\n", printable(name), printable(why));
  print_gate(verification.rows);
  std::vector<std::string> agree;
  for (const char* what :
       {"results", "grade", "wer", "cer", "rtfx.total", "rtfx.decode", "caching"}) {
    // A speed without a tolerance is not judged.
    const auto is_kind = [&](const GateRow& row) {
      return row.what == what && (row.tolerance || !row.what.starts_with("rtfx."));
    };
    const auto all = std::ranges::count_if(verification.rows, is_kind);
    const auto good = std::ranges::count_if(verification.rows, [&](const GateRow& row) {
      return is_kind(row) && row.verdict == Verdict::pass;
    });
    if (all > 0) agree.push_back(fmt::format("{} {} of {}", what, good, all));
  }
  if (!agree.empty()) fmt::print("\nagree    {}\n", fmt::join(agree, ", "));
}

}  // namespace rtfx
