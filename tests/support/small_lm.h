// A small trigram model over tokens 0 and 1 as a file, and its score of a text.
#pragma once

#include <ATen/ATen.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/shared/ngram_lm/load_ngram_lm.h"

namespace rtfx::test {

class SmallLm {
 public:
  /// Without `has_unk`, the tokens beyond 0 and 1 are impossible.
  explicit SmallLm(int64_t vocabulary, bool has_unk = true)
      : path_(std::filesystem::temp_directory_path() /
              ((has_unk ? "rtfx_small_" : "rtfx_small_no_unk_") + std::to_string(::getpid()) +
               ".arpa")) {
    std::ofstream(path_) << "\\data\\\nngram 1=" << (has_unk ? 5 : 4)
                         << "\nngram 2=4\nngram 3=2\n\n\\1-grams:\n"
                         << (has_unk ? "-1.0\t<unk>\n" : "")
                         << "-99\t<s>\t-0.4\n-0.6\t</s>\n"
                            "-0.5\t0\t-0.3\n-0.7\t1\t-0.2\n\n"
                            "\\2-grams:\n-0.2\t<s> 0\t-0.1\n-0.4\t0 1\t-0.25\n-0.9\t1 1\n"
                            "-0.3\t1 </s>\n\n"
                            "\\3-grams:\n-0.15\t<s> 0 1\n-0.35\t0 1 1\n\n\\end\\\n";
    lm_.emplace(load_ngram_lm(path_, vocabulary, {}));
  }
  ~SmallLm() { std::filesystem::remove(path_); }
  SmallLm(const SmallLm&) = delete;
  SmallLm& operator=(const SmallLm&) = delete;

  std::string path() const { return path_.string(); }

  /// Returns ln p(token | text), where the start symbol precedes the text.
  double score(const std::vector<int32_t>& text, int32_t token) const {
    const NgramLm::Step step = lm_->lookup(state(text), at::full({1, 1}, token, at::kLong));
    return step.scores.item<double>();
  }
  /// Returns ln p(</s> | text).
  double end(const std::vector<int32_t>& text) const {
    return lm_->final_scores(state(text)).item<double>();
  }

 private:
  at::Tensor state(const std::vector<int32_t>& text) const {
    at::Tensor state = lm_->initial_states(1);
    for (const int32_t token : text)
      state = lm_->next_states(state, at::full({1}, token, at::kLong));
    return state;
  }

  std::filesystem::path path_;
  std::optional<NgramLm> lm_;
};

}  // namespace rtfx::test
