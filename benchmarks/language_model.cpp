// Times a 4-gram model of tokens: the scores of all tokens for each row, and the states behind one
// token for each row. The rates are rows/s, and bytes/s of the scores that are written.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>

#include "algorithms/shared/ngram_lm/load_ngram_lm.h"
#include "benchmarks/microbench.h"

namespace rtfx::microbench {
namespace {

constexpr size_t kOrder = 4;

/// Writes an ARPA file of all n-grams of a random text in which few tokens are frequent.
void write_arpa(const std::filesystem::path& path) {
  constexpr int kTokens = 100'000;
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<int> text(kTokens);
  for (int& token : text)
    token = static_cast<int>(kVocabulary * uniform(random) * uniform(random) * uniform(random));
  std::ofstream file(path);
  file << "\\data\\\n";
  std::vector<std::set<std::vector<int>>> ngrams(kOrder);
  for (size_t n = 1; n <= kOrder; ++n) {
    for (size_t i = 0; i + n <= text.size(); ++i)
      ngrams[n - 1].emplace(text.begin() + static_cast<ptrdiff_t>(i),
                            text.begin() + static_cast<ptrdiff_t>(i + n));
    file << "ngram " << n << "=" << ngrams[n - 1].size() + (n == 1 ? 2 : 0) << "\n";
  }
  for (size_t n = 1; n <= kOrder; ++n) {
    file << "\n\\" << n << "-grams:\n";
    if (n == 1) file << "-5\t<unk>\n-99\t<s>\t-0.3\n";
    for (const std::vector<int>& ngram : ngrams[n - 1]) {
      file << fmt::format("{:.3f}\t", -0.1 - 4 * uniform(random));
      for (size_t i = 0; i < n; ++i) file << (i > 0 ? " " : "") << ngram[i];
      file << (n < kOrder ? "\t-0.3\n" : "\n");
    }
  }
  file << "\n\\end\\\n";
}

const NgramLm& model(at::Device device) {
  static const NgramLm on_host = [] {
    const auto path =
        std::filesystem::temp_directory_path() / fmt::format("rtfx_microbench_{}.arpa", ::getpid());
    write_arpa(path);
    NgramLm lm = load_ngram_lm(path, kVocabulary, {});
    std::filesystem::remove(path);
    return lm;
  }();
  static std::map<bool, NgramLm> models;
  return models.try_emplace(device.is_cuda(), on_host.to(device)).first->second;
}

/// Returns states with contexts of different lengths: each row has walked up to 8 tokens.
at::Tensor walked_states(const NgramLm& lm, int64_t rows) {
  at::manual_seed(4);
  at::Tensor states = lm.initial_states(rows);
  for (int step = 0; step < 8; ++step)
    states = lm.next_states(states, at::randint(0, 64, {rows}, at::kLong).to(lm.device()));
  return states;
}

void scores(benchmark::State& state, at::Device device, int64_t rows) {
  const NgramLm& lm = model(device);
  const at::Tensor states = walked_states(lm, rows);
  measure(state, device, [&] { benchmark::DoNotOptimize(lm.scores(states).const_data_ptr()); });
  rate(state, "rows/s", static_cast<double>(rows));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * rows * kVocabulary * 4);
}

void next_states(benchmark::State& state, at::Device device, int64_t rows) {
  const NgramLm& lm = model(device);
  const at::Tensor states = walked_states(lm, rows);
  const at::Tensor labels = at::randint(0, 64, {rows}, at::kLong).to(device);
  measure(state, device,
          [&] { benchmark::DoNotOptimize(lm.next_states(states, labels).const_data_ptr()); });
  rate(state, "rows/s", static_cast<double>(rows));
}

}  // namespace

void add_language_model() {
  for (const Place& place : places()) {
    const char* const where = place.device.is_cuda() ? "cuda" : "cpu";
    for (const auto& [name, function] :
         {std::pair("scores", &scores), std::pair("next_states", &next_states)}) {
      for (const int64_t batch : kBatches) {
        add(fmt::format("language_model/{}/{}/batch{}", name, where, batch),
            [device = place.device, batch, f = function](benchmark::State& s) {
              f(s, device, batch);
            });
      }
    }
  }
}

}  // namespace rtfx::microbench
