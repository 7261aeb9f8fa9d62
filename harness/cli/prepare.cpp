#include "harness/cli/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "algorithms/shared/wfst/graph_builder.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "datasets/dataset.h"
#include "harness/cli/graph_files.h"
#include "harness/config/config.h"
#include "harness/results/journal.h"
#include "harness/run/loaded_inputs.h"
#include "harness/scoring/normalize.h"

namespace rtfx {
namespace {

namespace fs = std::filesystem;

class Preparer {
 public:
  explicit Preparer(const Document& document)
      : root_(document.value, document.origins.root()), origins_(document.origins) {}

  void run() const {
    const auto list = root_.find("prepare");
    if (!list) return;
    for (const JsonView& entry : list->elements()) {
      if (entry.find("graph")) {
        entry.check_keys({"graph", "lexicon", "lm", "topology"});
        make(entry, "graph", [&](const fs::path& to) { make_graph(entry, to); });
      } else {
        entry.check_keys({"words", "dataset", "lexicon", "said"});
        make(entry, "words", [&](const fs::path& to) { make_words(entry, to); });
      }
    }
  }

 private:
  fs::path path(const JsonView& value) const {
    return origins_.opened(value.where(), value.text());
  }

  template <class Make>
  void make(const JsonView& entry, const std::string& key, const Make& make_file) const {
    const fs::path to = path(entry.at(key));
    if (fs::exists(to)) return;
    if (to.has_parent_path()) fs::create_directories(to.parent_path());
    make_file(to);
    print_message("rtfx: notice: made {}\n", printable(to.string()));
  }

  /// Returns the file of `key`, from which `to` is made.
  fs::path source(const JsonView& entry, const std::string& key, const fs::path& to) const {
    const JsonView value = entry.at(key);
    const fs::path from = path(value);
    if (!fs::exists(from)) {
      throw UserError(from.string(),
                      fmt::format("no such file, and {} is made from it", to.string()),
                      fmt::format("put either there, or name another with --set {}.{}=FILE",
                                  place_of(entry), key));
    }
    return from;
  }

  /// Returns the place of an entry as overrides write it: "prepare.0", or "prepare" without a list.
  std::string place_of(const JsonView& entry) const {
    std::string place = entry.where().substr(root_.where().size() + 1);
    std::ranges::replace(place, '/', '.');
    return place;
  }

  void make_graph(const JsonView& entry, const fs::path& to) const {
    GraphSources sources{source(entry, "lexicon", to), source(entry, "lm", to)};
    if (const auto v = entry.find("topology"))
      sources.topology = parse_topology(v->text(), v->where());
    const fs::path model = tokenizer_file();
    require_stand_in(model);
    const auto tokenizer = load_tokenizer(model);
    build_graph(*tokenizer, sources).graph.write(to);
  }

  fs::path tokenizer_file() const {
    const JsonView model = root_.at("models").elements().front();
    return path(model.value().is_object() ? model.at("path") : model);
  }

  void make_words(const JsonView& entry, const fs::path& to) const {
    std::set<std::string> lexicon;
    TextLines lines(source(entry, "lexicon", to));
    for (std::string_view line; lines.next(line);) {
      const std::string word(line.substr(0, line.find_first_of(" \t")));
      if (!word.empty()) lexicon.insert(word);
    }
    const auto scorer = root_.find("scorer");
    const Normalizer& normalizer =
        find_normalizer(scorer ? scorer->text() : "basic_english", root_.where() + "/scorer");
    std::set<std::string> said;
    for (const Utterance& utterance : load_dataset(dataset(entry)).utterances) {
      if (!utterance.text) continue;
      for (const std::string& word : normalizer.words(*utterance.text))
        if (lexicon.contains(word)) said.insert(word);
    }
    const auto wanted = entry.find("said");
    std::string text;
    for (const std::string& word : wanted && !wanted->boolean() ? others(lexicon, said) : said)
      text += word + " 1\n";
    if (text.empty()) {
      throw UserError(entry.where(), "there is no such word",
                      "check the dataset's texts and the lexicon");
    }
    write_file(to, text);
  }

  /// Returns words of the lexicon that no reference holds. There are as many as were said, at even
  /// distances.
  static std::set<std::string> others(const std::set<std::string>& lexicon,
                                      const std::set<std::string>& said) {
    std::vector<std::string> rest;
    std::set_difference(lexicon.begin(), lexicon.end(), said.begin(), said.end(),
                        std::back_inserter(rest));
    const size_t count = std::min(said.size(), rest.size());
    std::set<std::string> taken;
    for (size_t i = 0; i < count; ++i) taken.insert(rest[i * rest.size() / count]);
    return taken;
  }

  /// Returns the dataset whose id the entry names, with the paths that this process must open.
  DatasetSource dataset(const JsonView& entry) const {
    const std::string id = entry.at("dataset").text();
    std::vector<std::string> ids;
    for (const JsonView& v : root_.at("datasets").elements()) {
      ids.push_back(v.at("id").text());
      if (ids.back() != id) continue;
      nlohmann::json value = v.value();
      for_each_path(dataset_keys().info(), v.where(), value,
                    [&](const std::string& where, nlohmann::json& file) {
                      file = origins_.opened(where, file.get<std::string>());
                    });
      return dataset_keys().fill(value, v.where());
    }
    throw unknown_name(entry.where() + "/dataset", "dataset id", id, ids);
  }

  JsonView root_;
  const Origins& origins_;
};

}  // namespace

void prepare_files(const Document& document) {
  document.origins.naming_overrides([&] { Preparer(document).run(); });
}

}  // namespace rtfx
