#include "datasets/container.h"

#include <fmt/format.h>
#include <ogg/ogg.h>

#include <charconv>
#include <cstdint>
#include <fstream>
#include <memory>
#include <regex>

#include "base/error.h"

namespace rtfx {

std::string ogg_problem(const std::filesystem::path& path) {
  constexpr long kBlock = 65536;
  ogg_sync_state state;
  ogg_sync_init(&state);
  const std::unique_ptr<ogg_sync_state, decltype(&ogg_sync_clear)> clear(&state, &ogg_sync_clear);
  std::ifstream in(path, std::ios::binary);
  int64_t at = 0;        // bytes up to the end of the last page
  bool content = false;  // behind the first pages, one of each stream
  bool ended = false;
  for (;;) {
    ogg_page page;
    const long found = ogg_sync_pageseek(&state, &page);
    if (found > 0) {
      const bool begins = ogg_page_bos(&page) != 0;
      if (begins && content) return "holds several streams, one after the other";
      content = content || !begins;
      ended = ogg_page_eos(&page) != 0;
      at += found;
    } else if (found < 0) {
      // Bytes that are no page; behind the end of the stream they do no harm.
      return ended ? "" : fmt::format("damaged at byte {}", at);
    } else {
      char* block = ogg_sync_buffer(&state, kBlock);
      RTFX_CHECK(block != nullptr, "libogg has no memory");
      const auto bytes = static_cast<long>(in.read(block, kBlock).gcount());
      if (bytes == 0) break;
      ogg_sync_wrote(&state, bytes);
    }
  }
  return ended ? ""
               : fmt::format("truncated after byte {}, which is not the end of the stream", at);
}

bool promises_more(const std::string& log) {
  // Lines of their own ("data : 128000 (should be 63978)"), not what a comment in the file says;
  // the frames of RF64's own chunk; VOC has no sizes to name.
  static const std::regex kSize(
      R"((?:^|\n)\s*(?:data|SSND|riff|Data Size)\s*: (\d+) \(should be (\d+)\))");
  static const std::regex kOther(
      R"(Calculated frame count \d+ does not match value from 'ds64' chunk|truncated file)");
  if (std::regex_search(log, kOther)) return true;
  constexpr uint64_t kUnknown = 0x7ffff000;
  for (auto it = std::sregex_iterator(log.begin(), log.end(), kSize); it != std::sregex_iterator();
       ++it) {
    const auto number = [&](size_t group) {
      const std::string text = (*it)[group];
      uint64_t value = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      return error == std::errc() ? value : UINT64_MAX;  // more than 64 bits
    };
    const uint64_t promised = number(1), there = number(2);
    if (promised > there && promised < kUnknown) return true;
  }
  return false;
}

}  // namespace rtfx
