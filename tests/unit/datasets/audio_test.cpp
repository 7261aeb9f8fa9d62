#include "datasets/audio.h"

#include <sys/stat.h>

#include <algorithm>
#include <future>
#include <limits>

#include "datasets/parallel_audio.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using test::sine;
using test::user_error;
using Strings = std::vector<std::string>;

constexpr int kFloatWav = SF_FORMAT_WAV | SF_FORMAT_FLOAT;
constexpr int kFlac = SF_FORMAT_FLAC | SF_FORMAT_PCM_16;
constexpr int kVorbis = SF_FORMAT_OGG | SF_FORMAT_VORBIS;

class AudioTest : public test::TempFolder {
 protected:
  std::string error_of(const std::filesystem::path& path) const {
    std::string message = user_error([&] { read_audio(path); });
    EXPECT_EQ(message.find(path.string()), 0U) << message;  // every error opens with the file
    return message;
  }

  std::string bytes_of(const std::filesystem::path& path) const {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::filesystem::path half_of(const std::filesystem::path& whole) const {
    const std::string bytes = bytes_of(whole);
    return write("half-" + whole.filename().string(), bytes.substr(0, bytes.size() / 2));
  }
};

TEST_F(AudioTest, Pcm16IsScaledByTwoToTheFifteen) {
  std::string bytes = bytes_of(write_audio("zeros.wav", {0, 0, 0}));
  bytes.replace(bytes.size() - 6, 6, {"\x00\x80\xff\x7f\x01\x00", 6});  // little-endian int16
  const Audio audio = read_audio(write("a.wav", bytes));
  EXPECT_EQ(audio.samples, (std::vector<float>{-1, 32767.0F / 32768, 1.0F / 32768}));
  EXPECT_EQ(audio.notices, Strings{});
  EXPECT_EQ(audio.sample_rate, 16000);
  EXPECT_DOUBLE_EQ(audio.seconds(), 3.0 / 16000);
}

TEST_F(AudioTest, FlacEqualsWav) {
  const auto wave = sine(440, 16000, 40000);  // more than one block
  EXPECT_EQ(read_audio(write_audio("a.flac", wave, kFlac)).samples,
            read_audio(write_audio("a.wav", wave)).samples);
}

TEST_F(AudioTest, ReadsOggVorbis) {
  const auto wave = sine(440, 16000, 16000);
  const Audio audio = read_audio(write_audio("a.ogg", wave, kVorbis));
  ASSERT_EQ(audio.samples.size(), wave.size());
  for (size_t i = 2000; i < 14000; ++i) ASSERT_NEAR(audio.samples[i], wave[i], 0.05) << i;
}

TEST_F(AudioTest, MixesChannelsWithANotice) {
  const auto file = write_audio("a.wav", {0.5F, 0.25F, -0.5F, 0, 1, -1}, kFloatWav, 16000, 2);
  const Audio audio = read_audio(file);
  EXPECT_EQ(audio.samples, (std::vector<float>{0.375F, -0.25F, 0}));
  EXPECT_EQ(audio.notices, Strings{"mixed 2 channels to mono"});
}

TEST_F(AudioTest, Resamples8KilohertzWithANotice) {
  const auto file = write_audio("a.wav", sine(440, 8000, 8000), kFloatWav, 8000);
  const Audio audio = read_audio(file);
  EXPECT_EQ(audio.notices, Strings{"resampled from 8000 Hz to 16000 Hz"});
  EXPECT_DOUBLE_EQ(audio.seconds(), 1);
  const auto expected = sine(440, 16000, 16000);
  ASSERT_EQ(audio.samples.size(), expected.size());
  for (size_t i = 500; i < 15500; ++i) ASSERT_NEAR(audio.samples[i], expected[i], 1e-3) << i;
}

TEST_F(AudioTest, ResamplingKeepsAliasesOut) {
  const auto file = write_audio("a.wav", sine(15000, 44100, 44100), kFloatWav, 44100);
  const Audio audio = read_audio(file);
  ASSERT_EQ(audio.samples.size(), 16000U);
  for (size_t i = 500; i < 15500; ++i) ASSERT_NEAR(audio.samples[i], 0, 1e-3) << i;
}

TEST_F(AudioTest, MixesBeforeItResamples) {
  const auto file = write_audio("a.wav", std::vector<float>(9600, 0.1F), kFlac, 48000, 2);
  EXPECT_EQ(read_audio(file).notices,
            (Strings{"mixed 2 channels to mono", "resampled from 48000 Hz to 16000 Hz"}));
  EXPECT_EQ(read_audio(file, 48000).notices, Strings{"mixed 2 channels to mono"});
}

TEST_F(AudioTest, BlocksOfAnySizeAreTheWhole) {
  for (const int rate : {16000, 44100, 8000}) {
    const auto file =
        write_audio(std::to_string(rate) + ".wav", sine(440, rate, 70001), kFloatWav, rate);
    const std::vector<float> whole = read_audio(file).samples;
    for (const size_t size : {size_t{1000}, size_t{16384}, size_t{50001}}) {
      AudioReader reader(file);
      std::vector<float> joined;
      for (auto block = reader.read(size); !block.empty(); block = reader.read(size)) {
        EXPECT_LE(block.size(), size);
        EXPECT_TRUE(block.size() == size || reader.read(1).empty());
        joined.insert(joined.end(), block.begin(), block.end());
      }
      EXPECT_EQ(joined, whole) << rate << " " << size;
    }
  }
}

/// Reading from any place must give the samples that the whole file has there.
TEST_F(AudioTest, PlacesInAnyOrder) {
  const auto wave = sine(440, 16000, 40000);
  for (const auto& file : {write_audio("a.wav", wave), write_audio("a.flac", wave, kFlac),
                           write_audio("stereo.wav", wave, kFloatWav, 16000, 2)}) {
    const std::vector<float> whole = read_audio(file).samples;
    AudioReader reader(file);
    ASSERT_TRUE(reader.any_order()) << file;
    for (const size_t place : {30000U, 7U, 0U, 20000U, 39999U}) {
      if (place >= whole.size()) continue;
      reader.go_to(place);
      const size_t count = std::min<size_t>(9000, whole.size() - place);
      const std::vector<float> samples = reader.read(9000);
      EXPECT_EQ(reader.position(), place + count);
      ASSERT_EQ(samples.size(), count) << file << place;
      EXPECT_TRUE(
          std::equal(samples.begin(), samples.end(), whole.begin() + static_cast<ptrdiff_t>(place)))
          << file << place;
    }
    for (const size_t behind : {whole.size(), whole.size() + 1}) {
      reader.go_to(behind);
      EXPECT_TRUE(reader.read(10).empty());
    }
  }
  EXPECT_FALSE(AudioReader(write_audio("a.ogg", wave, kVorbis)).any_order());
  EXPECT_FALSE(AudioReader(write_audio("b.wav", wave), 8000).any_order());
}

TEST_F(AudioTest, ManyThreadsReadWhatOneReads) {
  const auto wave = sine(440, 16000, 40000);
  for (const auto& file : {write_audio("a.wav", wave), write_audio("a.ogg", wave, kVorbis)}) {
    const std::vector<float> whole = read_audio(file).samples;
    ParallelAudio audio(file, 16000, 3);
    EXPECT_EQ(audio.threads(), file.extension() == ".wav" ? 3U : 1U);
    constexpr size_t kPiece = 1700;
    std::vector<float> all;
    for (size_t first = 0; all.size() == first;) {  // until a piece is short
      std::vector<std::future<std::vector<float>>> pieces;
      for (size_t i = 0; i < audio.threads(); ++i, first += kPiece)
        pieces.push_back(
            std::async(std::launch::async, [&, first] { return audio.read(first, kPiece); }));
      for (auto& piece : pieces) {
        const std::vector<float> samples = piece.get();
        all.insert(all.end(), samples.begin(), samples.end());
      }
    }
    EXPECT_EQ(all, whole) << file;
  }
}

/// The thread that reads the damaged part throws the error.
TEST_F(AudioTest, ThreadsSeeWhatIsWrong) {
  const auto wave = sine(440, 16000, 40000);
  ParallelAudio half(half_of(write_audio("a.wav", wave)), 16000, 2);
  EXPECT_EQ(half.read(0, 10000).size(), 10000U);
  EXPECT_HAS(user_error([&] { half.read(10000, 20000); }), "its header declares more");
  const std::string flac = bytes_of(write_audio("a.flac", wave, kFlac));
  std::string broken = flac;
  broken.replace(flac.size() / 2, 20, 20, 'x');
  const auto corrupt = write("corrupt.flac", broken);
  ParallelAudio pieces(corrupt, 16000, 2);
  EXPECT_EQ(user_error([&] {
              for (size_t first = 0; first < wave.size(); first += 10000) pieces.read(first, 10000);
            }),
            error_of(corrupt));
  auto spoilt = wave;
  spoilt[30000] = std::numeric_limits<float>::quiet_NaN();
  ParallelAudio with_nan(write_audio("nan.wav", spoilt, kFloatWav), 16000, 2);
  EXPECT_EQ(with_nan.read(0, 10000).size(), 10000U);
  EXPECT_HAS(user_error([&] { with_nan.read(25000, 10000); }), "sample 30000 is NaN");
}

TEST_F(AudioTest, OneSampleIsAudio) {
  EXPECT_EQ(read_audio(write_audio("a.wav", {0.5F})).samples, std::vector<float>{0.5F});
}

TEST_F(AudioTest, SecondsComeFromTheHeader) {
  EXPECT_DOUBLE_EQ(audio_seconds(write_audio("a.wav", sine(440, 8000, 12000), kFlac, 8000)), 1.5);
  EXPECT_HAS(user_error([&] { audio_seconds(path("none.wav")); }), "no such file");
}

TEST_F(AudioTest, AStreamedWavDoesNotKnowItsLength) {
  const auto whole = write_audio("a.wav", sine(440, 16000, 1000));
  std::string bytes = bytes_of(whole);
  for (const size_t size_field : {size_t{4}, bytes.find("data") + 4}) {
    bytes.replace(size_field, 4, "\xff\xff\xff\xff");
  }
  EXPECT_EQ(read_audio(write("streamed.wav", bytes)).samples, read_audio(whole).samples);
}

TEST_F(AudioTest, AStreamedFlacDoesNotKnowItsLength) {
  const auto whole = write_audio("a.flac", sine(440, 16000, 1000), kFlac);
  std::string bytes = bytes_of(whole);
  bytes.replace(22, 4, std::string(4, '\0'));  // STREAMINFO's number of samples (36 bits)
  const auto streamed = write("streamed.flac", bytes);
  EXPECT_EQ(read_audio(streamed).samples, read_audio(whole).samples);
  EXPECT_EQ(audio_seconds(streamed), 0);
}

TEST_F(AudioTest, MissingFile) { EXPECT_HAS(error_of(path("none.wav")), "no such file"); }

TEST_F(AudioTest, Pipe) {
  ASSERT_EQ(mkfifo(path("pipe.wav").c_str(), 0600), 0);
  EXPECT_HAS(error_of(path("pipe.wav")),
             "is a pipe, whose size nobody knows; give it as standard input, which is called `-`");
}

TEST_F(AudioTest, Directory) { EXPECT_HAS(error_of(path("")), "is a directory"); }

TEST_F(AudioTest, NotAudio) {
  std::string garbage = "\xff\xfb\x90\x64";  // an MP3 frame's header alone
  for (unsigned i = 0; i < 5000; ++i) garbage += static_cast<char>(i * i * 7919U >> 5U);
  EXPECT_HAS(error_of(write("garbage.mp3", garbage)), "not readable as audio");
  EXPECT_HAS(error_of(write("text.wav", "what was said")), "not readable as audio");
  EXPECT_HAS(error_of(write("nothing.flac", "")), "not readable as audio");
}

TEST_F(AudioTest, Truncated) {
  const auto wave = sine(440, 16000, 32000);
  EXPECT_HAS(error_of(half_of(write_audio("a.wav", wave))), "truncated");
  EXPECT_HAS(error_of(half_of(write_audio("f.wav", wave, kFloatWav))), "truncated");
  EXPECT_HAS(error_of(half_of(write_audio("a.flac", wave, kFlac))), "truncated");
  EXPECT_HAS(error_of(half_of(write_audio("a.ogg", wave, kVorbis))), "truncated");
}

TEST_F(AudioTest, TruncatedContainersOfEveryKind) {
  const auto wave = sine(440, 16000, 64000);
  const std::vector<std::pair<std::string, int>> kinds{
      {"rf64", SF_FORMAT_RF64 | SF_FORMAT_PCM_16},
      {"w64", SF_FORMAT_W64 | SF_FORMAT_PCM_16},
      {"aiff", SF_FORMAT_AIFF | SF_FORMAT_PCM_16},
      {"aifc", SF_FORMAT_AIFF | SF_FORMAT_FLOAT},
      {"au", SF_FORMAT_AU | SF_FORMAT_PCM_16},
      {"caf", SF_FORMAT_CAF | SF_FORMAT_PCM_16},
      {"voc", SF_FORMAT_VOC | SF_FORMAT_PCM_16},
      {"ogg", kVorbis},
      {"opus", SF_FORMAT_OGG | SF_FORMAT_OPUS},
      {"alaw.wav", SF_FORMAT_WAV | SF_FORMAT_ALAW},
      {"mp3", SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III}};
  for (const auto& [ending, format] : kinds) {
    const auto whole = write_audio("a." + ending, wave, format);
    EXPECT_GE(read_audio(whole).samples.size(), wave.size()) << ending;
    const std::string bytes = bytes_of(whole);
    for (const size_t less : {bytes.size() / 2, size_t{700}}) {
      const auto cut = write("cut." + ending, bytes.substr(0, bytes.size() - less));
      const std::string error = error_of(cut);
      EXPECT_TRUE(error.find("truncated") != std::string::npos ||
                  error.find("not readable as audio") != std::string::npos)
          << ending << ": " << error;
    }
  }
}

TEST_F(AudioTest, AnOggFileEndsWithItsLastPage) {
  const std::string whole = bytes_of(write_audio("a.ogg", sine(440, 16000, 64000), kVorbis));
  const size_t last = whole.rfind("OggS");
  EXPECT_HAS(error_of(write("page.ogg", whole.substr(0, last))), "truncated");
  EXPECT_HAS(error_of(write("two.ogg", whole + whole)), "several streams");
  const std::string zeros(200, '\0');
  EXPECT_HAS(error_of(write("damaged.ogg", whole.substr(0, last) + zeros)), "damaged at byte");
  EXPECT_GE(read_audio(write("padded.ogg", whole + zeros)).samples.size(), 64000U);
}

TEST_F(AudioTest, ASampleRateThatNobodyRecordsWith) {
  EXPECT_HAS(error_of(write_audio("slow.wav", sine(440, 16000, 2000), kFloatWav, 1)), "1 Hz");
}

TEST_F(AudioTest, SizesBeyond64BitsInAHeader) {
  // The text of this INFO list looks like libsndfile's complaint about a size.
  const std::string text = "data : 100 (should be 1), data : 99999999999999999999999 (should be 1)";
  std::string bytes = bytes_of(write_audio("a.wav", sine(440, 16000, 1000)));
  const auto word = [](uint32_t n) {
    return std::string{static_cast<char>(n), static_cast<char>(n >> 8), static_cast<char>(n >> 16),
                       static_cast<char>(n >> 24)};
  };
  const std::string info = "INFOICMT" + word(static_cast<uint32_t>(text.size())) + text;
  bytes += "LIST" + word(static_cast<uint32_t>(info.size())) + info;
  bytes.replace(4, 4, word(static_cast<uint32_t>(bytes.size() - 8)));
  EXPECT_EQ(read_audio(write("info.wav", bytes)).samples.size(), 1000U);
}

TEST_F(AudioTest, LinksThatLeadToEachOther) {
  std::filesystem::create_symlink("loop.wav", path("loop.wav"));
  EXPECT_HAS(error_of(path("loop.wav")), "symbolic links");
}

TEST_F(AudioTest, TruncatedInTheHeader) {
  const auto whole = write_audio("a.wav", sine(440, 16000, 100));
  EXPECT_HAS(error_of(write("head.wav", bytes_of(whole).substr(0, 20))), "truncated");
}

TEST_F(AudioTest, CorruptFlac) {
  std::string bytes = bytes_of(write_audio("a.flac", sine(440, 16000, 32000), kFlac));
  for (size_t i = bytes.size() / 2; i < bytes.size() / 2 + 400; ++i) bytes[i] ^= 0x5a;
  EXPECT_HAS(error_of(write("corrupt.flac", bytes)), "corrupt");
}

TEST_F(AudioTest, Empty) { EXPECT_HAS(error_of(write_audio("a.wav", {})), "empty audio"); }

TEST_F(AudioTest, NanAndInfiniteSamplesAreNamed) {
  auto wave = sine(440, 16000, 30000);
  wave[20001] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_HAS(error_of(write_audio("nan.wav", wave, kFloatWav)), "sample 20001 is NaN");
  wave[7] = -std::numeric_limits<float>::infinity();
  EXPECT_HAS(error_of(write_audio("inf.wav", wave, kFloatWav)), "sample 7 is infinite");
}

TEST_F(AudioTest, TheIndexOfANanCountsFramesNotChannels) {
  std::vector<float> stereo(8, 0.1F);
  stereo[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_HAS(error_of(write_audio("nan.wav", stereo, kFloatWav, 16000, 2)), "sample 2 is NaN");
}

std::vector<float> stereo(const std::vector<float>& left, const std::vector<float>& right) {
  std::vector<float> both;
  for (size_t i = 0; i < left.size(); ++i) both.insert(both.end(), {left[i], right[i]});
  return both;
}

TEST_F(AudioTest, AChannelMayBeChosen) {
  const auto left = sine(440, 16000, 4000), right = sine(550, 16000, 4000);
  const auto file =
      write_audio("two.wav", stereo(left, right), SF_FORMAT_WAV | SF_FORMAT_FLOAT, 16000, 2);
  EXPECT_EQ(audio_channels(file), 2);
  EXPECT_EQ(read_audio(file, 16000, 1).samples, left);
  EXPECT_EQ(read_audio(file, 16000, 2).samples, right);
  EXPECT_TRUE(read_audio(file, 16000, 2).notices.empty());
  EXPECT_EQ(read_audio(file).notices, std::vector<std::string>{"mixed 2 channels to mono"});
  EXPECT_EQ(ParallelAudio(file, 16000, 2, 2).read(1000, 10),
            std::vector<float>(right.begin() + 1000, right.begin() + 1010));
  EXPECT_HAS(user_error([&] { read_audio(file, 16000, 3); }), "has 2 channels, and not channel 3");
}

TEST_F(AudioTest, ChannelsThatCancelEachOtherGiveANotice) {
  const auto left = sine(440, 16000, 40000);
  auto right = left;
  for (float& x : right) x = -x;
  const auto file =
      write_audio("anti.wav", stereo(left, right), SF_FORMAT_WAV | SF_FORMAT_PCM_16, 16000, 2);
  const std::vector<std::string> expected = {"mixed 2 channels to mono", MixPower::notice()};
  EXPECT_EQ(read_audio(file).notices, expected);
  ParallelAudio parts(file, 16000, 2);
  for (size_t first = 0; first < 40000; first += 10000) parts.read(first, 10000);
  EXPECT_EQ(parts.notices(), expected);
  EXPECT_TRUE(read_audio(file, 16000, 1).notices.empty());
  for (const auto& other : {left, sine(700, 16000, 40000), std::vector<float>(40000)}) {
    const auto fine =
        write_audio("fine.wav", stereo(left, other), SF_FORMAT_WAV | SF_FORMAT_PCM_16, 16000, 2);
    EXPECT_EQ(read_audio(fine).notices.size(), 1U);
  }
}

}  // namespace
}  // namespace rtfx
