// Whether the container of an audio file is whole. libsndfile reads what is there and tells of a
// file that was cut in its log at most.
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

/// Describes the damage of an Ogg file; empty if it is whole. Its last page may be missing or cut,
/// and bytes between its pages may be damaged. Several streams that follow each other count as
/// damage unless they are allowed, since libsndfile reads the first alone. Passes over ID3v2 tags
/// before the first page. Reads the file once.
std::string ogg_problem(const std::filesystem::path& path, bool may_be_several = false);

/// The first bytes of a file as libsndfile must read them to get all of its audio, from byte
/// `begin` on; empty if they are good as they are.
/// - FLAC: one sample more than STREAMINFO declares, so that audio behind that end shows.
/// - WAV whose data chunk has the size 0 and is followed by samples, as a recorder leaves it that
///   crashed: a size that nobody knows. An empty data chunk before another chunk is passed over.
/// - BW64: RF64, which has the same form.
std::string mended_header(const std::filesystem::path& path, size_t begin);

/// Whether the whole header of a WAV file names a codec that libsndfile does not read, such as
/// G.722.
bool is_wav_of_other_codec(const std::filesystem::path& path);

/// The frames of a WAV file that holds MPEG audio (MP3), as its header tells: `end` may lie behind
/// the file's end. Nothing for any other file. The WAV file begins at byte `begin`. libsndfile
/// reads such a file up to a length that it estimates.
std::optional<ByteRange> mpeg_in_wav(const std::filesystem::path& path, size_t begin);

/// Whether another WAV file follows a WAV file that begins at byte `begin`.
bool holds_several_wavs(const std::filesystem::path& path, size_t begin);

/// The head of a WAV file.
struct WavHead {
  uint32_t codec = 0;  // 1: PCM, 3: floating point, 6: A-law, 7: mu-law; that of an extensible form
  int channels = 0, sample_rate = 0, bits = 0;  // Hz; bits of a sample
  uint64_t bytes = 0;                           // of samples; UINT64_MAX: up to the end
};

/// Reads the head of a WAV file from a pipe, so that the samples come next. read(count) gives the
/// next bytes, fewer only at the end. Passes over ID3v2 tags. Nothing where no WAV file comes.
std::optional<WavHead> read_wav_head(const std::function<std::string(size_t)>& read);

/// Whether `head` begins with the name of a chunk: four printable characters.
bool begins_chunk(std::string_view head);

/// Whether `head` begins with a tag of ID3 or APE.
bool begins_tag(std::string_view head);

/// Whether a file in RIFF, such as AVI, or in CAF is shorter than its header says.
bool is_cut(const std::filesystem::path& path);

/// Whether a WAV, RF64, CAF or AU file, which begins at byte `begin`, goes on behind the samples
/// that its header declares. Zeros that follow the samples, as some recorders write, are no audio.
/// Neither are chunks, tags of ID3 and APE, and up to three bytes. False for other files, and where
/// the header declares no size.
bool goes_on_behind_samples(const std::filesystem::path& path, size_t begin);

/// Whether a FLAC file has been joined to another one. Reads the file once.
bool holds_several_flacs(const std::filesystem::path& path);

/// Whether the header of a WAV, RF64, W64, AIFF, AU, CAF or VOC file promises more bytes than
/// follow. `log` is libsndfile's log of the open file (SFC_GET_LOG_INFO). False where the writer
/// could not know the size: into a pipe, ffmpeg writes 0xffffffff and sox 0x7ffff000.
bool promises_more(const std::string& log);

}  // namespace rtfx
