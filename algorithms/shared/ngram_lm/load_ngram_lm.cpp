#include "algorithms/shared/ngram_lm/load_ngram_lm.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>

#include "algorithms/shared/ngram_lm/binary_lm.h"
#include "algorithms/shared/ngram_lm/ngram_builder.h"
#include "base/error.h"
#include "base/sha256.h"

namespace rtfx {
namespace {

void notice(const std::string& text) { fmt::print(stderr, "rtfx: notice: {}\n", text); }

NgramLm read_through_cache(const std::filesystem::path& path, int64_t vocabulary,
                           int64_t memory_limit) {
  const std::filesystem::path copy = binary_copy_of(path);
  const std::string checksum = sha256_file(path);
  std::string unusable;
  std::error_code error;
  if (std::filesystem::exists(copy, error)) {
    try {
      return read_binary_lm(copy, vocabulary, checksum, memory_limit);
    } catch (const UserError& e) {
      unusable = e.what();
    }
  }
  // First, for it may find the fault in the ARPA file: then the copy stays as it is.
  NgramLm lm = build_from_arpa(path, vocabulary, memory_limit);
  if (!unusable.empty())
    notice(fmt::format("the copy of {} is made again: {}", path.string(), unusable));
  try {
    write_binary_lm(lm, copy, checksum);
  } catch (const UserError& e) {
    notice(e.what());
  }
  return lm;
}

}  // namespace

NgramLm load_ngram_lm(const std::filesystem::path& path, int64_t vocabulary,
                      const LoadLmOptions& options) {
  const int64_t limit = options.memory_limit;
  NgramLm lm = is_binary_lm(path) ? read_binary_lm(path, vocabulary, "", limit)
               : options.cache    ? read_through_cache(path, vocabulary, limit)
                                  : build_from_arpa(path, vocabulary, limit);
  const int64_t unknown = lm.unknown_tokens();
  if (options.normalize_unk && unknown > 1) {
    const at::Tensor weights = lm.arrays().arc_weight.narrow(0, 0, vocabulary);
    const at::Tensor is_unknown = lm.arrays().arc_to.narrow(0, 0, vocabulary) == 0;
    weights.sub_(is_unknown * static_cast<float>(std::log(static_cast<double>(unknown))));
  }
  return lm;
}

}  // namespace rtfx
