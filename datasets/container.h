// Checks whether the container of an audio file is complete. libsndfile reads what is there. It
// mentions in its log at most that a file was cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "datasets/byte_range.h"

namespace rtfx {

/// Describes the damage of an Ogg file. The text is empty if the file is complete. The last page
/// may be missing or cut, and bytes between pages may be damaged. Several streams that follow each
/// other count as damage unless they are allowed, since libsndfile reads only the first. ID3v2 tags
/// before the first page are skipped. Reads the file once.
std::string ogg_problem(const std::filesystem::path& path, bool may_be_several = false);

/// Returns the bytes, from byte `begin` on, with which libsndfile must read the begin of a file to
/// get all of its audio. The text is empty if the file's own bytes will do. Four kinds of files
/// need others:
///   - FLAC: STREAMINFO declares one sample more, so that audio after the declared end shows.
///   - WAV whose data chunk has the size 0 and is followed by samples, which a crashed recorder
///     leaves. Its size becomes unknown. An empty data chunk before another chunk is skipped.
///   - RF64 whose chunk "ds64" has the data size 0, or the greatest number, which ffmpeg leaves in
///     pipes. Its sizes become those up to the end of the file.
///   - BW64: it becomes RF64, which has the same form.
std::string mended_header(const std::filesystem::path& path, size_t begin);

/// Returns whether a complete header of a WAV file names a codec that libsndfile does not read,
/// such as G.722.
bool is_wav_of_other_codec(const std::filesystem::path& path);

/// Returns the frames of a WAV file that holds MPEG audio (MP3), by its header. `end` may lie
/// beyond the end of the file. Returns nothing for any other file. The WAV file begins at byte
/// `begin`. libsndfile reads such a file only up to a length that it estimates.
std::optional<ByteRange> mpeg_in_wav(const std::filesystem::path& path, size_t begin);

/// Returns whether another WAV file follows the WAV file that begins at byte `begin`.
bool holds_several_wavs(const std::filesystem::path& path, size_t begin);

/// The header of a WAV file.
struct WavHeader {
  uint32_t codec = 0;  // 1: PCM, 3: floating point, 6: A-law, 7: mu-law; that of an extensible form
  int channels = 0, sample_rate = 0, bits = 0;  // Hz; bits of a sample
  uint64_t bytes = 0;                           // bytes of samples; UINT64_MAX = up to the end
};

/// Reads the header of a WAV file from a pipe, so that the samples come next. read(count) returns
/// the next bytes, and fewer only at the end. Skips ID3v2 tags. Returns nothing where no WAV file
/// comes.
std::optional<WavHeader> read_wav_header(const std::function<std::string(size_t)>& read);

/// Returns whether `head` begins with the name of a chunk: four printable characters.
bool begins_chunk(std::string_view head);

/// Returns whether a file in RIFF, such as AVI, or in CAF is shorter than its header says.
bool is_cut(const std::filesystem::path& path);

/// Returns whether a WAV, RF64, AIFF, AU or CAF file ends before the samples that its header
/// declares. The file begins at byte `begin`. Returns false for other files, and where the header
/// declares no size.
bool ends_within_samples(const std::filesystem::path& path, size_t begin);

/// Returns whether a WAV, RF64, AIFF, CAF or AU file goes on after the samples that its header
/// declares. The file begins at byte `begin`. Zeros that follow the samples, which some recorders
/// write, do not count as audio. Neither do chunks, tags (begins_tag() in mp3.h), and up to three
/// bytes. Returns false for other files, and where the header declares no size.
bool goes_on_behind_samples(const std::filesystem::path& path, size_t begin);

/// Returns the bytes of the ID3v1 and APE tags at the end of a file, in any order.
size_t tag_bytes_at_end(const std::filesystem::path& path);

/// Returns whether a FLAC file has been joined to another one. Reads the file once.
bool holds_several_flacs(const std::filesystem::path& path);

/// Returns whether the header of a WAV, RF64, W64, AIFF, AU, CAF or VOC file declares more bytes
/// than follow. `log` is libsndfile's log of the open file (SFC_GET_LOG_INFO). It holds 2 KiB,
/// which texts before the samples may fill, so that ends_within_samples() must be asked too.
/// Returns false where the writer could not know the size, and left a mark such as 0xffffffff.
bool declares_more(const std::string& log);

}  // namespace rtfx
