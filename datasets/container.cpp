#include "datasets/container.h"

#include <fmt/format.h>
#include <ogg/ogg.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <memory>
#include <regex>

#include "base/error.h"
#include "base/files.h"
#include "base/numbers.h"
#include "datasets/mp3.h"

namespace rtfx {
namespace {

/// Returns whether a 32-bit size is a mark for an unknown one. A program that writes into a pipe
/// cannot return to its header. Tried writers leave the marks below, or 0. WAV files of 2 to 4 GiB
/// are valid, so sizes between the marks count.
bool is_unknown(uint64_t size) {
  constexpr std::array<uint64_t, 4> kMarks = {
      0x7f000000,   // AIFF of sox
      0x7ffff000,   // WAV of sox and espeak-ng
      0x80000000,   // arecord; lame, opusdec and oggdec write 0x7fffffff
      0xffffffff};  // ffmpeg
  // Sizes of sox are whole blocks of samples, and sizes of RIFF and FORM include the header.
  constexpr uint64_t kTolerance = 4096;
  return std::ranges::any_of(kMarks, [&](uint64_t mark) {
    return size >= mark - kTolerance && size <= mark + kTolerance;
  });
}

constexpr size_t kHeaderBytes = 65536;

uint32_t little_endian(const std::string& bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 4; i-- > 0;) value = value << 8U | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

uint64_t little_endian_64(const std::string& bytes, size_t at) {
  return little_endian(bytes, at) | uint64_t{little_endian(bytes, at + 4)} << 32U;
}

uint64_t big_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (const char byte : bytes) value = value << 8U | static_cast<unsigned char>(byte);
  return value;
}

/// Returns the position of the first byte from `at` on that is not zero, else the end of the file.
uint64_t behind_zeros(std::ifstream& in, uint64_t at) {
  constexpr size_t kBlock = 65536;
  for (;; at += kBlock) {
    const std::string block = bytes_at(in, at, kBlock);
    const size_t first = block.find_first_not_of('\0');
    if (first != std::string::npos) return at + first;
    if (block.size() < kBlock) return at + block.size();
  }
}

/// Returns whether a tag begins at byte `at`, or too few bytes are left for the name of a chunk.
bool is_end_or_tag(std::ifstream& in, uint64_t at) {
  const std::string head = bytes_at(in, at, kTagBytes);
  return head.size() < 4 || begins_tag(head);
}

/// Returns the bytes of the ID3v1 or APE tag that ends at byte `end`; 0 if none does.
size_t bytes_of_tag_before(std::ifstream& in, size_t end) {
  constexpr size_t kId3v1 = 128, kApeFooter = 32;
  if (end >= kId3v1 && bytes_at(in, end - kId3v1, 3) == "TAG") return kId3v1;
  if (end < kApeFooter) return 0;
  const std::string footer = bytes_at(in, end - kApeFooter, kApeFooter);
  if (!footer.starts_with("APETAGEX")) return 0;
  constexpr uint32_t kHasHeader = 1U << 31U;
  const bool has_header = (little_endian(footer, 20) & kHasHeader) != 0;
  // The footer counts itself and the items, not the header.
  const size_t bytes = little_endian(footer, 12) + (has_header ? kApeFooter : 0);
  return bytes >= kApeFooter && bytes <= end ? bytes : 0;
}

struct Chunk {
  std::string name;
  uint64_t content = 0, bytes = 0;  // position of its content in the file, and its size

  uint64_t end() const { return bytes > UINT64_MAX - content ? UINT64_MAX : content + bytes; }
};

/// The layout of a file's chunks. Sizes in RIFF are little-endian with 32 bits, those in AIFF are
/// big-endian with 32 bits, and those in CAF are big-endian with 64 bits.
enum class Layout { riff, aiff, caf };

/// Returns the layout of the file that begins with these 12 bytes, if it has chunks.
std::optional<Layout> layout_of(std::string_view head) {
  if (head.starts_with("caff")) return Layout::caf;
  if (head.starts_with("RIFF") || head.starts_with("RF64") || head.starts_with("BW64"))
    return Layout::riff;
  if (head.starts_with("FORM") && (head.ends_with("AIFF") || head.ends_with("AIFC")))
    return Layout::aiff;
  return std::nullopt;
}

/// Returns the number of bytes between a chunk and the next one.
uint64_t padding_behind(const Chunk& chunk, Layout layout) {
  return layout == Layout::caf ? 0 : chunk.bytes % 2;
}

/// Returns the chunk at byte `at`, or nothing where no name of a chunk is there.
std::optional<Chunk> chunk_at(std::ifstream& in, uint64_t at, Layout layout) {
  const size_t size = layout == Layout::caf ? 12 : 8;
  const std::string head = bytes_at(in, at, size);
  if (head.size() < size || !begins_chunk(head)) return std::nullopt;
  return Chunk{head.substr(0, 4), at + size,
               layout == Layout::riff ? little_endian(head, 4) : big_endian(head.substr(4))};
}

/// Returns the samples of a WAV, RF64, AIFF, AU or CAF file that begins at byte `begin`, as its
/// header declares them. Returns nothing where the header declares no size, and for other files.
std::optional<Chunk> declared_samples(std::ifstream& in, size_t begin) {
  const std::string head = bytes_at(in, begin, 12);
  if (head.size() == 12 && head.starts_with(".snd")) {
    Chunk samples{"", begin + big_endian(head.substr(4, 4)), big_endian(head.substr(8))};
    return is_unknown(samples.bytes) ? std::nullopt : std::optional(std::move(samples));
  }
  const std::optional<Layout> layout = layout_of(head);
  if (!layout) return std::nullopt;
  const bool is_caf = layout == Layout::caf;
  const bool is_64 = head.starts_with("RF64") || head.starts_with("BW64");
  const std::string_view name = layout == Layout::aiff ? "SSND" : "data";
  uint64_t bytes_of_64 = 0;  // RF64 has the size in a chunk of its own
  for (uint64_t at = begin + (is_caf ? 8 : 12);;) {
    std::optional<Chunk> chunk = chunk_at(in, at, *layout);
    if (!chunk) return std::nullopt;
    if (is_64 && chunk->name == "ds64") {
      const std::string sizes = bytes_at(in, chunk->content, 16);
      if (sizes.size() < 16) return std::nullopt;
      bytes_of_64 = little_endian_64(sizes, 8);
    }
    if (chunk->name == name) {
      const bool is_elsewhere = is_64 && chunk->bytes == UINT32_MAX;
      if (is_elsewhere) chunk->bytes = bytes_of_64;
      if (!is_caf && !is_elsewhere && is_unknown(chunk->bytes)) return std::nullopt;
      // Either an empty chunk precedes the real one, or nobody wrote the size (mended_wav()).
      if (chunk->bytes > 0) return chunk->end() == UINT64_MAX ? std::nullopt : chunk;
    }
    if (chunk->end() == UINT64_MAX) return std::nullopt;
    at = chunk->end() + padding_behind(*chunk, *layout);
  }
}

bool begins_as_wav(std::ifstream& in, uint64_t at) {
  const std::string head = bytes_at(in, at, 12);
  return head.size() == 12 && head.starts_with("RIFF") && head.ends_with("WAVE");
}

std::string mended_flac(std::string header) {
  constexpr size_t kTotal = 21;  // byte whose lower half begins the 36 bits
  if (header.size() < kTotal + 5) return "";
  uint64_t total = 0;
  for (size_t i = 0; i < 5; ++i)
    total = total << 8U | static_cast<unsigned char>(header[kTotal + i]);
  if ((total & 0xfffffffffU) == 0) return "";  // the length is unknown
  ++total;
  for (size_t i = 5; i-- > 0; total >>= 8U) header[kTotal + i] = static_cast<char>(total);
  return header.substr(0, kTotal + 5);
}

/// Returns whether a whole chunk begins at byte `at` of a RIFF file of `size` bytes.
bool chunk_follows(const std::string& header, size_t at, size_t size) {
  return at + 8 <= header.size() && at + 8 + little_endian(header, at + 4) <= size &&
         begins_chunk(std::string_view(header).substr(at));
}

/// Writes sizes up to the end of the file into the chunk "ds64" of an RF64 file, where its writer
/// left 0 or the greatest number. `size` is the size of the file. Returns whether it did so. If
/// another chunk follows at once, the file has no samples.
bool mend_sizes_of_rf64(std::string& header, size_t size) {
  constexpr size_t kSizes = 24;  // bytes of three numbers: sizes of RIFF and data, frames
  size_t sizes = 0, block_align = 0;
  for (size_t at = 12; at + 8 <= header.size();) {
    const uint32_t bytes = little_endian(header, at + 4);
    const size_t content = at + 8;
    const bool is_whole = content + bytes <= header.size();
    if (header.compare(at, 4, "ds64") == 0 && is_whole && bytes >= kSizes) sizes = content;
    if (header.compare(at, 4, "fmt ") == 0 && is_whole && bytes >= 16)
      block_align = little_endian(header, content + 12) & 0xffffU;
    if (header.compare(at, 4, "data") == 0) {
      if (bytes != UINT32_MAX || sizes == 0 || block_align == 0 || content > size) return false;
      const uint64_t declared = little_endian_64(header, sizes + 8);
      if (declared != 0 && declared != UINT64_MAX) return false;
      const uint64_t sample_bytes = chunk_follows(header, content, size) ? 0 : size - content;
      const std::array<uint64_t, 3> numbers = {size - 8, sample_bytes, sample_bytes / block_align};
      for (size_t i = 0; i < kSizes; ++i)
        header[sizes + i] = static_cast<char>(numbers[i / 8] >> i % 8 * 8U);
      return true;
    }
    at = content + bytes + bytes % 2;
  }
  return false;
}

std::string mended_wav(std::string header, size_t size) {
  bool mended = header.starts_with("BW64");
  if (mended) header.replace(0, 4, little_endian(header, 4) == UINT32_MAX ? "RF64" : "RIFF");
  if (header.starts_with("RF64")) return mend_sizes_of_rf64(header, size) || mended ? header : "";
  for (size_t at = 12; at + 8 <= header.size();) {
    const uint32_t bytes = little_endian(header, at + 4);
    const size_t next = at + 8 + bytes + bytes % 2;
    if (header.compare(at, 4, "data") == 0) {
      if (bytes > 0 || next >= size) break;
      mended = true;
      if (!chunk_follows(header, next, size)) {
        header.replace(at + 4, 4, 4, '\xff');
        break;
      }
      header.replace(at, 4, "JUNK");
    }
    at = next;
  }
  return mended ? header : "";
}

}  // namespace

std::string mended_header(const std::filesystem::path& path, size_t begin) {
  std::string header = bytes_at(path, begin, kHeaderBytes);
  if (header.size() < 12) return "";
  if (header.starts_with("fLaC")) return mended_flac(std::move(header));
  const bool is_wav =
      header.starts_with("RIFF") || header.starts_with("RF64") || header.starts_with("BW64");
  return is_wav ? mended_wav(std::move(header), std::filesystem::file_size(path) - begin) : "";
}

bool is_wav_of_other_codec(const std::filesystem::path& path) {
  // These are PCM, Microsoft's ADPCM, floating point, A-law, mu-law, IMA ADPCM, GSM 6.10 and the
  // extensible form, which names one of these.
  constexpr std::array<uint32_t, 8> kRead = {1, 2, 3, 6, 7, 0x11, 0x31, 0xfffe};
  const std::string header = bytes_at(path, 0, kHeaderBytes);
  const size_t at = header.find("fmt ");
  if (!header.starts_with("RIFF") || at == std::string::npos || at + 12 > header.size())
    return false;
  const uint32_t codec = little_endian(header, at + 8) & 0xffffU;
  return std::ranges::find(kRead, codec) == kRead.end();
}

std::optional<ByteRange> mpeg_in_wav(const std::filesystem::path& path, size_t begin) {
  constexpr std::array<uint32_t, 2> kMpeg = {0x50, 0x55};  // layers I and II; layer III
  std::ifstream in(path, std::ios::binary);
  if (!begins_as_wav(in, begin)) return std::nullopt;
  bool is_mpeg = false;
  for (uint64_t at = begin + 12;;) {
    const std::optional<Chunk> chunk = chunk_at(in, at, Layout::riff);
    if (!chunk) return std::nullopt;
    if (chunk->name == "fmt ") {
      const std::string codec = bytes_at(in, chunk->content, 4);
      if (codec.size() < 4) return std::nullopt;
      is_mpeg = std::ranges::find(kMpeg, little_endian(codec, 0) & 0xffffU) != kMpeg.end();
    }
    if (chunk->name == "data") {
      if (!is_mpeg) return std::nullopt;
      const bool unknown = chunk->bytes == 0 || is_unknown(chunk->bytes);
      return ByteRange{chunk->content, unknown ? std::filesystem::file_size(path) : chunk->end()};
    }
    at = chunk->end() + padding_behind(*chunk, Layout::riff);
  }
}

bool holds_several_wavs(const std::filesystem::path& path, size_t begin) {
  std::ifstream in(path, std::ios::binary);
  return begins_as_wav(in, begin) &&
         begins_as_wav(in, begin + 8 + little_endian(bytes_at(in, begin + 4, 4), 0));
}

std::optional<WavHeader> read_wav_header(const std::function<std::string(size_t)>& read) {
  constexpr size_t kLargest = 1 << 20;  // bytes of a chunk before the samples, and of a tag
  std::string riff = read(10);
  while (riff.starts_with("ID3")) {
    const size_t bytes = id3v2_size(riff);
    if (bytes > kLargest) return std::nullopt;
    read(bytes);
    riff = read(10);
  }
  riff += read(2);
  const bool is_64 = riff.starts_with("RF64") || riff.starts_with("BW64");
  if (riff.size() < 12 || (!riff.starts_with("RIFF") && !is_64) || !riff.ends_with("WAVE"))
    return std::nullopt;
  WavHeader wav;
  for (;;) {
    const std::string head = read(8);
    if (head.size() < 8) return std::nullopt;
    const uint32_t bytes = little_endian(head, 4);
    if (head.starts_with("data")) {
      // A writer to a pipe cannot go back to its header, so it leaves 0 or a mark there.
      wav.bytes = bytes == 0 || is_unknown(bytes) ? UINT64_MAX : bytes;
      return wav.channels == 0 ? std::nullopt : std::optional(wav);
    }
    if (bytes > kLargest) return std::nullopt;
    const std::string content = read(bytes + bytes % 2);
    if (!head.starts_with("fmt ") || content.size() < 16) continue;
    constexpr uint32_t kExtensible = 0xfffe;
    wav.codec = little_endian(content, 0) & 0xffffU;
    wav.channels = static_cast<int>(little_endian(content, 0) >> 16U);
    wav.sample_rate = static_cast<int>(little_endian(content, 4) & 0x7fffffffU);
    wav.bits = static_cast<int>(little_endian(content, 12) >> 16U);
    if (wav.codec == kExtensible && content.size() >= 28)
      wav.codec = little_endian(content, 24) & 0xffffU;
  }
}

bool begins_chunk(std::string_view head) {
  return head.size() >= 4 &&
         std::ranges::all_of(head.substr(0, 4), [](char c) { return c >= ' ' && c <= '~'; });
}

bool is_cut(const std::filesystem::path& path) {
  const std::string head = bytes_at(path, 0, 12);
  if (head.starts_with("caff")) return ends_within_samples(path, 0);
  if (head.size() < 12 || !head.starts_with("RIFF")) return false;
  const uint32_t bytes = little_endian(head, 4);
  return !is_unknown(bytes) && bytes + uint64_t{8} > std::filesystem::file_size(path);
}

bool ends_within_samples(const std::filesystem::path& path, size_t begin) {
  std::ifstream in(path, std::ios::binary);
  const auto samples = declared_samples(in, begin);
  return samples && samples->end() > std::filesystem::file_size(path);
}

bool goes_on_behind_samples(const std::filesystem::path& path, size_t begin) {
  const uint64_t size = std::filesystem::file_size(path);
  std::ifstream in(path, std::ios::binary);
  const auto samples = declared_samples(in, begin);
  if (!samples) return false;
  const std::optional<Layout> layout = layout_of(bytes_at(in, begin, 12));  // AU has no chunks
  const auto is_chunk = [&](uint64_t at) {
    const auto chunk = layout ? chunk_at(in, at, *layout) : std::nullopt;
    return chunk && chunk->name != "RIFF" && chunk->name != "FORM" && chunk->end() <= size;
  };
  // RIFF and AIFF pad an odd size with a byte, which some writers omit.
  const uint64_t end = samples->end(),
                 padded = end + (layout ? padding_behind(*samples, *layout) : 0);
  const std::array places = {end, padded, behind_zeros(in, padded)};
  return std::ranges::none_of(places,
                              [&](uint64_t at) { return is_chunk(at) || is_end_or_tag(in, at); });
}

size_t tag_bytes_at_end(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const size_t size = std::filesystem::file_size(path);
  size_t end = size;
  while (const size_t bytes = bytes_of_tag_before(in, end)) end -= bytes;
  return size - end;
}

bool holds_several_flacs(const std::filesystem::path& path) {
  const std::string head = {'f', 'L', 'a', 'C', 0, 0, 0, 34};  // followed by the size of STREAMINFO
  std::ifstream in(path, std::ios::binary);
  std::string bytes(head.size(), '\0');
  size_t found = 0;
  std::string block(65536, '\0');
  while (in.read(block.data(), static_cast<std::streamsize>(block.size())).gcount() > 0) {
    bytes.erase(0, bytes.size() - (head.size() - 1));
    bytes.append(block, 0, static_cast<size_t>(in.gcount()));
    for (size_t at = bytes.find(head); at != std::string::npos; at = bytes.find(head, at + 1))
      ++found;
  }
  return found > 1;
}

std::string ogg_problem(const std::filesystem::path& path, bool may_be_several) {
  constexpr long kBlock = 65536;
  ogg_sync_state state;
  ogg_sync_init(&state);
  const std::unique_ptr<ogg_sync_state, decltype(&ogg_sync_clear)> clear(&state, &ogg_sync_clear);
  const size_t begin = id3v2_bytes(path);
  std::ifstream in(path, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(begin));
  auto at = static_cast<int64_t>(begin);  // bytes up to the end of the last page
  bool content = false;                   // after the first pages, one of each stream
  bool ended = false;
  for (;;) {
    ogg_page page;
    const long found = ogg_sync_pageseek(&state, &page);
    if (found > 0) {
      const bool begins = ogg_page_bos(&page) != 0;
      if (begins && content) {
        if (!may_be_several) return "holds several streams, one after the other";
        if (!ended) break;
      }
      content = !begins;
      ended = ogg_page_eos(&page) != 0;
      at += found;
    } else if (found < 0) {
      // These bytes are no page. After the end of the stream, they do no harm.
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

bool declares_more(const std::string& log) {
  // The messages are lines of their own ("data : 128000 (should be 63978)"), unlike comments in the
  // file. For RF64 they are the frames of its own chunk. VOC states no sizes.
  static const std::regex kSize(
      R"((?:^|\n)\s*(?:data|SSND|riff|Data Size)\s*: (\d+) \(should be (\d+)\))");
  static const std::regex kOther(
      R"(Calculated frame count \d+ does not match value from 'ds64' chunk|truncated file)");
  if (std::regex_search(log, kOther)) return true;
  for (auto it = std::sregex_iterator(log.begin(), log.end(), kSize); it != std::sregex_iterator();
       ++it) {
    const auto number = [&](size_t group) {
      // The number may have more than 64 bits.
      return parse_number<uint64_t>((*it)[group].str()).value_or(UINT64_MAX);
    };
    const uint64_t promised = number(1), there = number(2);
    if (promised > there && promised < UINT64_MAX && !is_unknown(promised)) return true;
  }
  return false;
}

}  // namespace rtfx
