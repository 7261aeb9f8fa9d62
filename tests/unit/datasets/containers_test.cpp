// Tests of audio files whose headers do not tell the truth. All of the audio is read, or the file
// is refused.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <random>
#include <thread>
#include <tuple>

#include "datasets/audio.h"
#include "datasets/media.h"
#include "datasets/parallel_audio.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using test::sine;
using test::user_error;

constexpr int kMp3 = SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III;
constexpr int kFlac = SF_FORMAT_FLAC | SF_FORMAT_PCM_16;

class ContainersTest : public test::TempFolder {
 protected:
  static std::string bytes_of(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::string whole_mp3(const std::vector<float>& wave, int sample_rate = 16000) const {
    return bytes_of(write_audio("whole.mp3", wave, kMp3, sample_rate));
  }

  static std::vector<float> noise(size_t samples) {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> value(-0.5F, 0.5F);
    std::vector<float> wave(samples);
    for (float& sample : wave) sample = value(random);
    return wave;
  }

  /// Makes the side information of a frame impossible.
  static void spoil_frame(std::string& mp3, int number) {
    size_t frame = 0;
    for (int i = 0; i < number; ++i) frame = mp3.find(mp3.substr(0, 2), frame + 4);
    mp3.replace(frame + 4, 9, 9, '\xff');
  }

  /// Returns the file without its first frame, in which the encoder says how many frames follow.
  static std::string without_length(const std::string& mp3) {
    return mp3.substr(mp3.find(mp3.substr(0, 2), 4));
  }

  size_t samples_in(const std::string& name, const std::string& bytes) const {
    const auto file = write(name, bytes);
    const size_t samples = read_audio(file).samples.size();
    EXPECT_NEAR(audio_seconds(file), static_cast<double>(samples) / 16000, 1e-6);
    return samples;
  }

  /// Returns what comes out of a pipe that these bytes go into.
  static Audio piped(const std::string& bytes, int flags = 0) {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe(ends.data()), 0);
    fcntl(ends[0], F_SETFL, flags);
    std::thread writer([&, to = ends[1]] {
      const size_t half = bytes.size() / 2;
      std::ignore = ::write(to, bytes.data(), half);
      if (flags != 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      std::ignore = ::write(to, bytes.data() + half, bytes.size() - half);
      close(to);
    });
    Audio audio{{}, 16000, {}};
    std::exception_ptr failure;
    try {
      AudioReader reader(ends[0], "standard input", /*raw_rate=*/0);
      for (auto block = reader.read(1000); !block.empty(); block = reader.read(1000))
        audio.samples.insert(audio.samples.end(), block.begin(), block.end());
      audio.notices = reader.notices();
    } catch (...) {
      failure = std::current_exception();
    }
    std::array<char, 4096> rest{};  // lets the writer come to its end
    while (::read(ends[0], rest.data(), rest.size()) > 0) {
    }
    writer.join();
    close(ends[0]);
    if (failure) std::rethrow_exception(failure);
    return audio;
  }

  std::string error_of(const std::string& name, const std::string& bytes) const {
    const auto file = write(name, bytes);
    return user_error([&] { read_audio(file); });
  }
};

std::string little_endian(uint32_t value) {
  std::string bytes;
  for (int i = 0; i < 4; ++i, value >>= 8U) bytes += static_cast<char>(value & 0xffU);
  return bytes;
}

/// Wraps MP3 as recorders and mail programs do, in RIFF whose "fmt " chunk has the codec 0x55.
std::string in_wav(const std::string& mp3, uint32_t size) {
  const std::string format("\x55\0\1\0\x80\x3e\0\0\0\0\0\0\1\0\0\0\0\0", 18);
  const std::string chunks = "WAVEfmt " + little_endian(18) + format + "fact" + little_endian(4) +
                             little_endian(16000) + "data" + little_endian(size) + mp3;
  return "RIFF" + little_endian(static_cast<uint32_t>(chunks.size())) + chunks;
}

/// Returns a burst of noise and then silence. At a variable bit rate, noise takes many bytes and
/// silence few.
std::vector<float> burst_and_silence() {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> noise(-0.5F, 0.5F);
  std::vector<float> wave(160000, 0.0F);
  for (size_t i = 0; i < 40000; ++i) wave[i] = noise(random);
  return wave;
}

TEST_F(ContainersTest, AnMp3WithoutALengthIsReadToItsEnd) {
  const auto wave = burst_and_silence();
  const std::string mp3 = whole_mp3(wave);
  const size_t samples = samples_in("a.mp3", mp3);
  EXPECT_GE(samples, wave.size());
  EXPECT_LT(samples, wave.size() + 5000);
  EXPECT_GE(samples_in("estimated.mp3", without_length(mp3)), samples);
}

TEST_F(ContainersTest, JoinedMp3sAreReadToTheEndOfTheLast) {
  const std::string mp3 = whole_mp3(sine(440, 16000, 48000));
  const size_t samples = samples_in("a.mp3", mp3);
  EXPECT_GE(samples_in("two.mp3", mp3 + mp3), 2 * samples);
  EXPECT_GE(samples_in("three.mp3", mp3 + mp3 + mp3), 3 * samples);
  const std::string tag = "ID3\x04" + std::string(2, '\0') + std::string(3, '\0') + '\x20';
  EXPECT_GE(samples_in("tagged.mp3",
                       tag + std::string(32, '\0') + mp3 + tag + std::string(32, '\0') + mp3),
            2 * samples);
}

TEST_F(ContainersTest, AnMp3InAWavIsReadToItsEnd) {
  const std::string mp3 = without_length(whole_mp3(burst_and_silence()));
  const auto size = static_cast<uint32_t>(mp3.size());
  const size_t samples = samples_in("a.mp3", mp3);
  EXPECT_EQ(samples_in("a.wav", in_wav(mp3, size)), samples);
  EXPECT_EQ(samples_in("unknown.wav", in_wav(mp3, 0xffffffff)), samples);
  EXPECT_EQ(samples_in("more.wav", in_wav(mp3, size) + "LIST" + little_endian(4) + "INFO"),
            samples);
  EXPECT_HAS(error_of("cut.wav", in_wav(mp3.substr(0, mp3.size() / 2), size)), "truncated");
  EXPECT_HAS(error_of("size.wav", in_wav(mp3, size + 2)), "truncated");
}

TEST_F(ContainersTest, FramesThatCannotBeDecodedAreTold) {
  std::string mp3 = whole_mp3(noise(48000));
  const auto whole = read_audio(write("whole.mp3", mp3));
  EXPECT_TRUE(whole.notices.empty());
  spoil_frame(mp3, 40);
  const auto damaged = read_audio(write("damaged.mp3", mp3));
  EXPECT_EQ(damaged.samples.size(), whole.samples.size());
  ASSERT_EQ(damaged.notices.size(), 1U);
  EXPECT_HAS(damaged.notices.front(), "s of damaged MPEG frames are silent, the first at 1.");
}

TEST_F(ContainersTest, FramesThatCannotBeDecodedAreToldOfALongFileToo) {
  std::string mp3 = whole_mp3(noise(48000));
  spoil_frame(mp3, 40);
  const auto file = write("damaged.mp3", mp3);
  ParallelAudio audio(file, 16000, 3);
  EXPECT_TRUE(audio.notices().empty());
  for (size_t first = 0; audio.read(first, 10000).size() == 10000;) first += 10000;
  EXPECT_EQ(audio.notices(), read_audio(file).notices);
  EXPECT_EQ(audio.notices().size(), 1U);
}

TEST_F(ContainersTest, TagsMayFollowEachOther) {
  const std::string mp3 = whole_mp3(sine(440, 16000, 48000));
  const std::string tag = "ID3\x03" + std::string(5, '\0') + '\x10' + std::string(16, 't');
  EXPECT_EQ(samples_in("tags.mp3", tag + tag + mp3), samples_in("a.mp3", mp3));
}

TEST_F(ContainersTest, WhatTaggersLeaveBehindAnMp3IsNoAudio) {
  const std::string mp3 = whole_mp3(sine(440, 16000, 48000));
  const size_t samples = samples_in("a.mp3", mp3);
  EXPECT_EQ(samples_in("tag.mp3", mp3 + "TAG" + std::string(125, 'x')), samples);
  EXPECT_EQ(samples_in("padded.mp3", mp3 + std::string(5000, '\0')), samples);
}

TEST_F(ContainersTest, ADamagedMp3IsRefused) {
  const std::string mp3 = whole_mp3(sine(440, 16000, 48000));
  std::string damaged = mp3;
  for (size_t i = mp3.size() / 2; i < mp3.size() / 2 + 600; ++i) damaged[i] ^= 0x5a;
  EXPECT_HAS(error_of("damaged.mp3", damaged), "corrupt at byte");
  EXPECT_HAS(error_of("cut.mp3", without_length(mp3).substr(0, mp3.size() - 700)), "truncated");
  EXPECT_HAS(error_of("rates.mp3", mp3 + whole_mp3(sine(440, 24000, 48000), 24000)),
             "changes from 16000 Hz to 24000 Hz after 3");
}

TEST_F(ContainersTest, AFlacThatGoesOnBehindItsEndIsRefused) {
  const auto file = write_audio("a.flac", sine(440, 16000, 32000), kFlac);
  const std::string flac = bytes_of(file);
  EXPECT_HAS(error_of("two.flac", flac + flac), "holds several FLAC files, the second behind");
  EXPECT_EQ(samples_in("tag.flac", flac + "TAG" + std::string(125, 'x')), 32000U);
  std::string less = flac;
  less.replace(24, 2, {"\x7c\xff", 2});  // 31999 of its 32000 samples
  EXPECT_HAS(error_of("less.flac", less), "goes on behind sample 31999, where its header ends it");
  EXPECT_DOUBLE_EQ(audio_seconds(file), 2.0);
}

/// libsndfile keeps 2 KiB of log. Long tags fill it before its decoder loses the frames.
TEST_F(ContainersTest, AFlacThatGoesOnBehindItsEndIsRefusedWhateverItsTagsAre) {
  const std::string flac = bytes_of(write_audio("a.flac", noise(32000), kFlac));
  const std::string text = "COMMENT=" + std::string(3000, 'x');
  const std::string tags = little_endian(0) + little_endian(1) +
                           little_endian(static_cast<uint32_t>(text.size())) + text;
  std::string head = flac.substr(0, 42);  // the mark and STREAMINFO, which must not be the last
  head[4] = 0;
  const std::string size = {0, static_cast<char>(tags.size() >> 8U),
                            static_cast<char>(tags.size())};
  const std::string tagged = head + '\4' + size + tags + flac.substr(42);
  ASSERT_EQ(samples_in("tagged.flac", tagged), 32000U);
  const auto two = write("two.flac", tagged + flac);
  const std::string problem = "holds several FLAC files, the second behind sample 32000";
  EXPECT_HAS(user_error([&] { read_audio(two); }), problem);
}

/// libFLAC may jump to a frame of the second file, whose number is right.
TEST_F(ContainersTest, JoinedFlacsAreRefusedAfterAJump) {
  constexpr size_t kSamples = 400000;
  const std::string first = bytes_of(write_audio("a.flac", noise(kSamples), kFlac)),
                    second = bytes_of(write_audio("b.flac", sine(440, 16000, kSamples), kFlac));
  for (const auto& both : {first + second, second + first, first + first}) {
    const auto file = write("both.flac", both);
    for (const size_t place : {kSamples / 4, kSamples / 2, kSamples * 3 / 4, kSamples - 1000}) {
      const std::string error = user_error([&] {
        AudioReader reader(file);
        reader.go_to(place);
        while (!reader.read(100000).empty()) {
        }
      });
      EXPECT_HAS(error, "both.flac: ") << place;
    }
  }
}

TEST_F(ContainersTest, AStreamedFlacThatIsDamagedIsRefused) {
  std::string flac = bytes_of(write_audio("a.flac", noise(32000), kFlac));
  const std::string with_length = flac;
  flac.replace(22, 4, std::string(4, '\0'));  // STREAMINFO's number of samples (36 bits)
  const auto whole = write("whole.flac", flac);
  ASSERT_EQ(read_audio(whole).samples.size(), 32000U);
  ASSERT_EQ(audio_seconds(whole), 0);
  std::string damaged = flac;
  damaged.replace(flac.size() / 2, 200, 200, '\0');
  EXPECT_HAS(error_of("damaged.flac", damaged), "truncated or corrupt after sample 12288;");
  EXPECT_HAS(error_of("cut.flac", flac.substr(0, flac.size() - 3000)),
             "truncated or corrupt after sample 28672;");
  EXPECT_HAS(error_of("two.flac", flac + with_length),
             "holds several FLAC files, the second behind sample 32000");

  // Tags at its end are no damage, and hide none.
  const std::string id3 = "TAG" + std::string(125, 'x'), item = "an item of the tag, 32 bytes long";
  const std::string ape_footer = "APETAGEX" + little_endian(2000) +
                                 little_endian(static_cast<uint32_t>(item.size()) + 32) +
                                 little_endian(1);
  const std::string ape = item + ape_footer + std::string(12, '\0');
  std::string ape_with_header = ape_footer + little_endian(0xa0000000) + std::string(8, '\0') +
                                item + ape_footer + little_endian(0x80000000) +
                                std::string(8, '\0');
  for (const std::string& tags : {id3, ape, ape_with_header, ape + id3, id3 + ape_with_header}) {
    EXPECT_EQ(read_audio(write("tagged.flac", flac + tags)).samples.size(), 32000U);
    EXPECT_HAS(error_of("damaged.flac", damaged + tags), "truncated or corrupt");
    EXPECT_EQ(samples_in("known.flac", with_length + tags), 32000U);
  }
}

TEST_F(ContainersTest, AWavWhoseRecorderCrashedIsReadToItsEnd) {
  const auto whole = write_audio("a.wav", sine(440, 16000, 16000));
  std::string wav = bytes_of(whole);
  const size_t data = wav.find("data");
  wav.replace(data + 4, 4, little_endian(0));
  EXPECT_EQ(read_audio(write("zero.wav", wav)).samples, read_audio(whole).samples);
  // Here an empty data chunk stands before the real one.
  std::string two = bytes_of(whole);
  two.insert(data, "data" + little_endian(0));
  two.replace(4, 4, little_endian(static_cast<uint32_t>(two.size() - 8)));
  EXPECT_EQ(read_audio(write("two.wav", two)).samples, read_audio(whole).samples);
  EXPECT_HAS(error_of("none.wav", wav.substr(0, data + 8)), "empty audio");
}

TEST_F(ContainersTest, AWavOnAPipeIsReadToItsEnd) {
  const auto whole = write_audio("a.wav", sine(440, 16000, 16000));
  const std::string wav = bytes_of(whole);
  const std::vector<float> samples = read_audio(whole).samples;
  const size_t size = wav.find("data") + 4;
  const auto with_size = [&](uint32_t bytes) {
    return std::string(wav).replace(size, 4, little_endian(bytes));
  };
  EXPECT_EQ(piped(wav).samples, samples);
  EXPECT_EQ(piped(with_size(0)).samples, samples);           // as writers to pipes leave it
  EXPECT_EQ(piped(with_size(0xffffffff)).samples, samples);  // as ffmpeg does
  EXPECT_EQ(piped(with_size(40000)).samples, samples);       // a recording that was ended early
  EXPECT_EQ(piped(wav + "LIST" + little_endian(4) + "INFO").samples, samples);
  EXPECT_EQ(piped("ID3\x03" + std::string(5, '\0') + '\x10' + std::string(16, 't') + wav).samples,
            samples);
  for (const int format : {int{SF_FORMAT_PCM_24}, int{SF_FORMAT_FLOAT}, int{SF_FORMAT_DOUBLE},
                           int{SF_FORMAT_ULAW}, SF_FORMAT_WAVEX | SF_FORMAT_PCM_32}) {
    const bool extensible = (format & SF_FORMAT_TYPEMASK) != 0;
    const auto stereo = write_audio("b.wav", sine(440, 16000, 16000),
                                    extensible ? format : SF_FORMAT_WAV | format, 16000, 2);
    EXPECT_EQ(piped(bytes_of(stereo)).samples, read_audio(stereo).samples) << std::hex << format;
  }
}

TEST_F(ContainersTest, OfAPipeNothingIsLostInSilence) {
  const std::string wav = bytes_of(write_audio("a.wav", sine(440, 16000, 16000)));
  const auto error_of_pipe = [&](const std::string& bytes) {
    return user_error([&] { piped(bytes); });
  };
  EXPECT_HAS(error_of_pipe(wav + wav), "holds several WAV files, the second behind sample 16000");
  EXPECT_HAS(error_of("two.wav", wav + wav), "two.wav: holds several WAV files; ");
  EXPECT_HAS(error_of_pipe(whole_mp3(sine(440, 16000, 16000))), "no WAV file of plain samples");
  EXPECT_HAS(error_of_pipe(wav.substr(0, 30)), "no WAV file of plain samples");
  EXPECT_HAS(error_of_pipe(wav.substr(0, 44)), "empty audio");
}

TEST_F(ContainersTest, AFileThatGoesOnBehindItsSamplesIsRefused) {
  const auto wave = noise(16000);
  struct Kind {
    std::string name;
    int format;
    size_t behind;     // bytes from the mark to the size of the samples
    std::string mark;  // in the header
    bool is_big_endian;
  };
  const std::vector<Kind> kinds = {{"a.wav", SF_FORMAT_WAV, 4, "data", false},
                                   {"a.rf64", SF_FORMAT_RF64, 16, "ds64", false},
                                   {"a.au", SF_FORMAT_AU, 8, ".snd", true},
                                   {"a.aiff", SF_FORMAT_AIFF, 4, "SSND", true},
                                   {"a.caf", SF_FORMAT_CAF, 8, "data", true}};
  for (const Kind& kind : kinds) {
    const auto whole = write_audio(kind.name, wave, kind.format | SF_FORMAT_PCM_16);
    const std::string bytes = bytes_of(whole);
    ASSERT_EQ(read_audio(whole).samples.size(), 16000U) << kind.name;
    std::string half = bytes;
    const int more = kind.format == SF_FORMAT_CAF ? 4 : kind.format == SF_FORMAT_AIFF ? 8 : 0;
    std::string size = little_endian(16000 + more);
    if (kind.is_big_endian) std::ranges::reverse(size);
    half.replace(bytes.find(kind.mark) + kind.behind, 4, size);
    EXPECT_HAS(error_of("half_" + kind.name, half), "goes on behind sample 8000, where its header")
        << kind.name;
    if (kind.format != SF_FORMAT_WAV && kind.format != SF_FORMAT_AIFF) {  // these name other faults
      EXPECT_HAS(error_of("two_" + kind.name, bytes + bytes), "goes on behind sample 16000")
          << kind.name;
    }
    const auto padded = write("padded_" + kind.name, bytes + std::string(70000, '\0'));
    EXPECT_EQ(read_audio(padded).samples.size(), 16000U) << kind.name;
  }
}

TEST_F(ContainersTest, ChunksBehindTheSamplesAreNoAudio) {
  const std::string list = "LIST" + little_endian(4) + "INFO", meta = "_PMX" + little_endian(0);
  // The number of bytes is odd. The byte that pads it is there, or is missing.
  const std::string odd =
      bytes_of(write_audio("a.wav", sine(440, 16000, 1001), SF_FORMAT_WAV | SF_FORMAT_PCM_U8));
  const std::string unpadded = odd.substr(0, odd.find("data") + 8 + 1001);
  for (const std::string& more : {std::string(), list, meta, meta + list}) {
    EXPECT_EQ(samples_in("padded.wav", unpadded + std::string(1, '\0') + more), 1001U) << more;
    EXPECT_EQ(samples_in("unpadded.wav", unpadded + more), 1001U) << more;
    EXPECT_EQ(piped(unpadded + std::string(1, '\0') + more).samples.size(), 1001U) << more;
    EXPECT_EQ(piped(unpadded + more).samples.size(), 1001U) << more;
    EXPECT_EQ(piped(unpadded + "\x80" + more).samples.size(), 1001U) << more;
  }
  EXPECT_HAS(error_of("long.wav", unpadded + "LIST" + little_endian(400)), "goes on behind");
}

TEST_F(ContainersTest, TagsAndFillingBehindTheSamplesAreNoAudio) {
  const std::string wav = bytes_of(write_audio("a.wav", noise(16000)));
  const std::string au =
      bytes_of(write_audio("a.au", noise(16000), SF_FORMAT_AU | SF_FORMAT_PCM_16));
  const std::string id3 = "TAG" + std::string(125, '\0'), ape = "APETAGEX" + little_endian(2000),
                    id3v2 = "ID3\x03" + std::string(6, '\0'),
                    lyrics = "LYRICSBEGININD0000200000029LYRICS200" + id3, zeros(6, '\0');
  for (const std::string& more : {id3, ape, id3v2, lyrics, zeros + id3, std::string("\r\n")}) {
    EXPECT_EQ(samples_in("b.wav", wav + more), 16000U) << more;
    EXPECT_EQ(piped(wav + more).samples.size(), 16000U) << more;
    EXPECT_EQ(samples_in("b.au", au + more), 16000U) << more;
  }
  const std::string filled = zeros + "LIST" + little_endian(4) + "INFO";
  EXPECT_EQ(samples_in("filled.wav", wav + filled), 16000U);
  EXPECT_EQ(piped(wav + filled).samples.size(), 16000U);
}

TEST_F(ContainersTest, APipeThatGoesOnBehindItsSamplesIsRefused) {
  const std::string wav = bytes_of(write_audio("a.wav", noise(16000)));
  std::string half = wav;
  half.replace(wav.find("data") + 4, 4, little_endian(16000));
  EXPECT_HAS(user_error([&] { piped(half); }), "goes on behind sample 8000, where its header ends");
  const std::string zeros(1000, '\0');
  EXPECT_EQ(piped(wav + zeros).samples.size(), 16000U);
  EXPECT_HAS(user_error([&] { piped(wav + zeros + "\1\2\3\4"); }), "goes on behind sample 16000");
}

TEST_F(ContainersTest, APipeThatEndsBeforeItsDeclaredLengthIsTold) {
  const std::string whole = bytes_of(write_audio("a.wav", noise(16000)));
  const size_t begin = whole.find("data") + 8;
  std::string cut = whole.substr(0, begin + 2 * size_t{6000});
  EXPECT_TRUE(piped(whole).notices.empty());
  EXPECT_EQ(piped(cut).notices,
            std::vector<std::string>{"ends after sample 6000, and its header declares 16000"});
  for (const uint32_t mark : {0U, 0x7ffff024U, 0x7fffffffU, 0x80000000U, 0xffffffffU})
    EXPECT_TRUE(piped(cut.replace(begin - 4, 4, little_endian(mark))).notices.empty()) << mark;
}

TEST_F(ContainersTest, APipeThatHasNothingYetHasNotEnded) {
  const std::string wav = bytes_of(write_audio("a.wav", sine(440, 16000, 16000)));
  EXPECT_EQ(piped(wav, O_NONBLOCK).samples, piped(wav).samples);
}

TEST_F(ContainersTest, AFailedReadIsNoEnd) {
  const int folder = open("/tmp", O_RDONLY);
  EXPECT_HAS(user_error([&] {
               AudioReader reader(folder, "standard input", /*raw_rate=*/16000);
               reader.read(1000);
             }),
             "standard input: cannot be read to its end: Is a directory");
  close(folder);
}

TEST_F(ContainersTest, ATagBeforeAWavIsPassedOver) {
  const auto whole = write_audio("a.wav", sine(440, 16000, 16000));
  const std::string tag = "ID3\x03" + std::string(5, '\0') + '\x40' + std::string(64, 't');
  EXPECT_EQ(read_audio(write("tagged.wav", tag + bytes_of(whole))).samples,
            read_audio(whole).samples);
  EXPECT_HAS(error_of("short.wav", tag.substr(0, 30)), "not readable as audio");
}

TEST_F(ContainersTest, ATagBeforeAnOggFileIsPassedOver) {
  const auto whole =
      write_audio("a.ogg", sine(440, 16000, 16000), SF_FORMAT_OGG | SF_FORMAT_VORBIS);
  const std::string tag = "ID3\x03" + std::string(5, '\0') + '\x40' + std::string(64, 't');
  EXPECT_EQ(read_audio(write("tagged.ogg", tag + bytes_of(whole))).samples,
            read_audio(whole).samples);
}

/// Returns the bytes of a file with `chunk` before the one of this name.
std::string with_chunk(std::string bytes, const std::string& name, const std::string& chunk) {
  return bytes.insert(bytes.find(name), chunk);
}

/// libsndfile keeps 2 KiB of log. Texts before the samples fill it before it complains of a size.
TEST_F(ContainersTest, ATruncatedFileIsRefusedWhateverItsTextsAre) {
  const std::string text(400, 'x');
  const std::string comment = "ICMT" + little_endian(400) + text;
  std::string list = "INFO", annotations;
  for (int i = 0; i < 8; ++i) {
    list += comment;
    annotations += "ANNO" + std::string("\0\0\1\x90", 4) + text;
  }
  list = "LIST" + little_endian(static_cast<uint32_t>(list.size())) + list;
  struct Kind {
    std::string name;
    int format;
    std::string samples, chunk;
  };
  for (const Kind& kind :
       {Kind{"a.wav", SF_FORMAT_WAV, "data", list}, Kind{"a.rf64", SF_FORMAT_RF64, "data", list},
        Kind{"a.aiff", SF_FORMAT_AIFF, "SSND", annotations}}) {
    const auto file = write_audio(kind.name, noise(16000), kind.format | SF_FORMAT_PCM_16);
    const std::string bytes = with_chunk(bytes_of(file), kind.samples, kind.chunk);
    EXPECT_EQ(samples_in("whole_" + kind.name, bytes), 16000U);
    EXPECT_HAS(error_of("cut_" + kind.name, bytes.substr(0, bytes.size() - 20000)),
               "truncated or corrupt after sample 6000, its header declares more");
  }
}

/// A program that writes into a pipe cannot return to its header, so it leaves a mark there.
TEST_F(ContainersTest, SizesOfTwoToFourGibibytesCountUnlessTheyAreMarks) {
  const std::string wav = bytes_of(write_audio("a.wav", noise(16000)));
  const auto with_sizes = [&](uint32_t data) {
    return std::string(wav)
        .replace(4, 4, little_endian(data == UINT32_MAX ? data : data + 36))
        .replace(wav.find("data") + 4, 4, little_endian(data));
  };
  for (const uint32_t mark : {0x7ffff000U, 0x7fffeffeU,     // sox, whose sizes are whole blocks
                              0x7fffffd3U, 0x7fffffffU,     // oggdec, opusdec
                              0x80000000U, 0xffffffffU}) {  // arecord, ffmpeg
    EXPECT_EQ(samples_in("mark.wav", with_sizes(mark)), 16000U) << mark;
    EXPECT_EQ(piped(with_sizes(mark)).samples.size(), 16000U) << mark;
  }
  for (const uint32_t size : {2000000000U, 2500000000U, 4000000000U}) {
    EXPECT_HAS(error_of("cut.wav", with_sizes(size)),
               "after sample 16000, its header declares more");
  }
  std::string aiff =
      bytes_of(write_audio("a.aiff", noise(16000), SF_FORMAT_AIFF | SF_FORMAT_PCM_16));
  const size_t size = aiff.find("SSND") + 4;
  aiff.replace(4, 4, "\x7f\0\0\x50", 4).replace(size, 4, "\x7f\0\0\x08", 4);  // as sox leaves it
  EXPECT_EQ(samples_in("sox.aiff", aiff), 16000U);
  aiff.replace(size, 4, "\x90\0\0\x08", 4);
  EXPECT_HAS(error_of("cut.aiff", aiff), "after sample 16000, its header declares more");
}

/// Into a pipe, ffmpeg writes the sizes 0 into the chunk "ds64".
TEST_F(ContainersTest, AnRf64WithoutSizesIsReadToItsEnd) {
  const auto whole = write_audio("a.wav", noise(16000), SF_FORMAT_RF64 | SF_FORMAT_PCM_16);
  const std::string bytes = bytes_of(whole);
  ASSERT_TRUE(bytes.starts_with("RF64"));
  for (const std::string kind : {"RF64", "BW64"}) {
    for (const char filling : {'\0', '\xff'}) {
      std::string streamed = bytes;
      streamed.replace(0, 4, kind).replace(bytes.find("ds64") + 8, 24, 24, filling);
      streamed.replace(bytes.find("data") + 4, 4, 4, '\xff');
      EXPECT_EQ(read_audio(write("streamed.wav", streamed)).samples, read_audio(whole).samples);
      EXPECT_EQ(samples_in("streamed.wav", streamed), 16000U);
      EXPECT_EQ(samples_in("cut.wav", streamed.substr(0, streamed.size() - 2001)), 14999U);
      const std::string empty = streamed.substr(0, bytes.find("data") + 8);
      EXPECT_HAS(error_of("empty.wav", empty + "LIST" + little_endian(16) + std::string(16, 'x')),
                 "empty audio: no samples");
    }
  }
}

TEST_F(ContainersTest, Bw64IsReadAsWhatItIs) {
  const auto whole = write_audio("a.wav", sine(440, 16000, 16000));
  std::string small = bytes_of(whole);
  EXPECT_EQ(read_audio(write("small.wav", small.replace(0, 4, "BW64"))).samples,
            read_audio(whole).samples);
  const auto large =
      write_audio("b.wav", sine(440, 16000, 16000), SF_FORMAT_RF64 | SF_FORMAT_PCM_16);
  std::string bytes = bytes_of(large);
  ASSERT_TRUE(bytes.starts_with("RF64"));
  EXPECT_EQ(read_audio(write("large.wav", bytes.replace(0, 4, "BW64"))).samples,
            read_audio(whole).samples);
}

TEST_F(ContainersTest, AWavOfAnotherCodecIsForFfmpeg) {
  std::string wav = bytes_of(write_audio("a.wav", sine(440, 16000, 16000)));
  wav.replace(wav.find("fmt ") + 8, 2, "\x65\x00", 2);  // G.722
  const auto file = write("g722.wav", wav);
  const std::string search = std::getenv("PATH");
  setenv("PATH", path("none").c_str(), 1);
  EXPECT_HAS(user_error([&] { read_media(file); }), "needs ffmpeg, which is not installed");
  setenv("PATH", search.c_str(), 1);
}

TEST_F(ContainersTest, ASampleThatNoRecordingHoldsIsNamed) {
  auto wave = sine(440, 16000, 3000);
  wave[2001] = 1e18F;
  const auto file = write_audio("loud.wav", wave, SF_FORMAT_WAV | SF_FORMAT_FLOAT);
  EXPECT_HAS(user_error([&] { read_audio(file); }), "sample 2001 is 1e+18");
  wave[2001] = -40000.0F;  // samples of 16 bits that nobody scaled
  EXPECT_EQ(
      read_audio(write_audio("large.wav", wave, SF_FORMAT_WAV | SF_FORMAT_FLOAT)).samples.at(2001),
      -40000.0F);
}

}  // namespace
}  // namespace rtfx
