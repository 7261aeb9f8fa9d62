// Tests files that ffmpeg reads. A program of that name does what each test wants.
#include "datasets/media.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>

#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using test::user_error;

/// Returns a page of an Ogg stream with one packet. `flags` is 2 at the begin of the stream, and 4
/// at its end.
std::string ogg_page(char flags, const std::string& packet) {
  std::string page = std::string("OggS\0", 5) + flags + std::string(20, '\0') + '\1' +
                     static_cast<char>(packet.size()) + packet;
  uint32_t sum = 0;
  for (const char byte : page) {
    sum ^= uint32_t{static_cast<unsigned char>(byte)} << 24U;
    for (int bit = 0; bit < 8; ++bit) sum = sum << 1U ^ (sum >> 31U) * 0x04c11db7U;
  }
  for (size_t i = 22; i < 26; ++i, sum >>= 8U) page[i] = static_cast<char>(sum);
  return page;
}

/// libsndfile does not read FLAC in Ogg as ffmpeg writes it.
const std::string kOggFlac =
    ogg_page(2, "\x7F" + std::string("FLAC")) + ogg_page(0, "frame") + ogg_page(4, "frame");

class MediaTest : public test::TempFolder {
 protected:
  MediaTest() : search_(std::getenv("PATH")) {}
  ~MediaTest() override { setenv("PATH", search_.c_str(), 1); }

  /// Makes a shell script the `ffmpeg` on PATH.
  void install(const std::string& script) const {
    chmod(write("bin/ffmpeg", "#!/bin/sh\n" + script).c_str(), 0755);
    setenv("PATH", (path("bin").string() + ":" + search_).c_str(), 1);
  }

 private:
  std::string search_;
};

TEST_F(MediaTest, WhatLibsndfileReadsNeedsNoFfmpeg) {
  setenv("PATH", path("none").c_str(), 1);
  const auto file = write_audio("a.wav", {0, 0.5F});
  EXPECT_EQ(read_media(file).samples.size(), 2U);
  EXPECT_DOUBLE_EQ(media_seconds(file), 2.0 / 16000);
}

TEST_F(MediaTest, WithoutFfmpegAVideoIsAClearError) {
  setenv("PATH", path("none").c_str(), 1);
  const auto file = write("a.mp4", "a film");
  EXPECT_EQ(user_error([&] { read_media(file); }),
            file.string() +
                ": needs ffmpeg, which is not installed; install it (apt install "
                "ffmpeg), or convert the file to WAV or FLAC");
  EXPECT_EQ(media_seconds(file), 0);
  EXPECT_HAS(user_error([&] { read_media(write("cut.caf", "caff")); }),
             "cut.caf: is truncated, corrupt, or needs ffmpeg, which is not installed");
}

TEST_F(MediaTest, SamplesAreThoseThatFfmpegWrites) {
  // The script writes 1.0 and -0.5 in float32, little-endian.
  const std::string sound = R"(printf '\000\000\200\077\000\000\000\277)";
  install(sound + "'");
  const auto file = write("a.m4a", "sound");
  const Audio audio = read_media(file, 8000);
  EXPECT_EQ(audio.samples, (std::vector<float>{1, -0.5F}));
  EXPECT_EQ(audio.sample_rate, 8000);
  install(sound + R"(\000\000\200\177')");
  EXPECT_HAS(user_error([&] { read_media(file); }), "a.m4a: sample 2 is infinite");
}

TEST_F(MediaTest, NamesArriveAsTheyAre) {
  install(
      "for last in \"$@\"; do :; done\nprintf '%s\\n' \"$@\" > \"$(dirname \"$0\")/arguments\"\n"
      "printf '\\000\\000\\000\\000'");
  const auto file = write("-i $(touch x) 'a'.mkv", "sound");
  EXPECT_EQ(read_media(file).samples.size(), 1U);
  std::ifstream in(path("bin/arguments"));
  std::vector<std::string> arguments;
  for (std::string line; std::getline(in, line);) arguments.push_back(line);
  EXPECT_NE(std::ranges::find(arguments, "file:" + file.string()), arguments.end());
  EXPECT_NE(std::ranges::find(arguments, "16000"), arguments.end());
}

TEST_F(MediaTest, FailuresSayWhatFfmpegSaid) {
  const auto file = write("a.mp4", "a film");
  install("echo first >&2; echo 'moov atom not found' >&2; exit 1");
  EXPECT_NE(
      user_error([&] { read_media(file); }).find("ffmpeg cannot read it: moov atom not found"),
      std::string::npos);
  install(
      "echo \"Stream map '0:a:1' matches no streams.\" >&2; echo 'Invalid argument' >&2; exit 1");
  EXPECT_HAS(user_error([&] { read_media(file, 16000, {0, 2}); }), "has no such audio track");
  install("kill -9 $$");
  EXPECT_NE(user_error([&] { read_media(file); }).find("no reason given"), std::string::npos);
  install("exit 0");
  EXPECT_NE(user_error([&] { read_media(file); }).find("empty audio"), std::string::npos);
}

TEST_F(MediaTest, DamageThatFfmpegReadsOverIsRefused) {
  const auto file = write("a.webm", "a film");
  install(R"(printf '\000\000\200\077'; echo 'File ended prematurely' >&2)");
  EXPECT_HAS(user_error([&] { read_media(file, 16000); }),
             "truncated or corrupt: ffmpeg reads 0.00 s of it and says: File ended prematurely");
  // ffmpeg does not tell that an AVI was cut.
  install(R"(printf '\000\000\200\077')");
  const std::string avi = std::string("RIFF\x08\x00\x00\x00", 8) + "AVI LIST";
  EXPECT_EQ(read_media(write("whole.avi", avi)).samples.size(), 1U);
  EXPECT_HAS(user_error([&] { read_media(write("cut.avi", avi.substr(0, 14))); }),
             "truncated or corrupt");
}

TEST_F(MediaTest, FilesThatFfmpegReadsToAnEarlyEndAreRefused) {
  install(R"(printf '\000\000\200\077')");
  const auto error_of = [&](const std::string& name, const std::string& bytes) {
    return user_error([&] { read_media(write(name, bytes)); });
  };
  EXPECT_EQ(read_media(write("whole.ogg", kOggFlac)).samples.size(), 1U);
  EXPECT_EQ(read_media(write("two.ogg", kOggFlac + kOggFlac)).samples.size(), 1U);
  const std::string cut = kOggFlac.substr(0, kOggFlac.rfind("OggS"));
  EXPECT_HAS(error_of("cut.ogg", cut), "cut.ogg: truncated after byte");
  EXPECT_HAS(error_of("first_cut.ogg", cut + kOggFlac), "truncated after byte");
  // This is CAF with a codec that libsndfile does not read.
  const std::string caf = std::string("caff\0\1\0\0desc\0\0\0\0\0\0\0\2..data\0\0\0\0\0\0\0\4", 34);
  EXPECT_EQ(read_media(write("whole.caf", caf + "\1\2\3\4")).samples.size(), 1U);
  EXPECT_HAS(error_of("cut.caf", caf + "\1\2\3"), "truncated or corrupt: ffmpeg reads");
}

TEST_F(MediaTest, ChannelsAreAveragedByFfmpegWithEqualWeights) {
  const std::string three = R"(printf 'RIFF\0\0\0\0WAVEfmt \020\0\0\0\001\0\003\0')";
  install("case \"$*\" in *'-f wav '*) " + three + R"(;; *',pan=mono|c0<c0+c1+c2 '*)
    printf '\000\000\200\077';; esac)");
  const Audio audio = read_media(write("a.mkv", "a film"));
  EXPECT_EQ(audio.samples.size(), 1U);
  EXPECT_EQ(audio.notices, std::vector<std::string>{"mixed 3 channels to mono"});
}

TEST_F(MediaTest, ATrackAndAChannelAreAskedOfFfmpeg) {
  const std::string sound = R"(printf '\000\000\200\077')";
  const std::string three = R"(printf 'RIFF\0\0\0\0WAVEfmt \020\0\0\0\001\0\003\0')";
  install("case \"$*\" in *'-f wav '*) " + three + ";; *'-map 0:a:1 '*,pan=mono\\|c0=c2\\ *) " +
          sound + ";; esac");
  const auto file = write("a.mkv", "a film");
  EXPECT_EQ(read_media(file, 16000, {3, 2}).samples.size(), 1U);
  EXPECT_HAS(user_error([&] { read_media(file, 16000, {3, 1}); }), "empty audio");
  EXPECT_HAS(user_error([&] {
               read_media(file, 16000, {4, 2});
             }),
             "has 3 channels, and not channel 4");
  const auto wav = write_audio("a.wav", {0, 0.5F});
  EXPECT_HAS(user_error([&] {
               read_media(wav, 16000, {0, 2});
             }),
             "has one audio track, and not track 2");
}

TEST_F(MediaTest, ChannelsThatCancelEachOtherGiveANotice) {
  install(
      R"(case "$*" in *pan=mono*) printf '\000\000\200\077';; *) printf '\000\000\000\000';; esac)");
  const auto file = write("a.mp4", "a film");
  EXPECT_EQ(read_media(file).notices, std::vector<std::string>{MixPower::notice()});
  EXPECT_TRUE(read_media(file, 16000, {1, 0}).notices.empty());
  install(R"(printf '\000\000\000\000')");  // all channels are silent
  EXPECT_TRUE(read_media(file).notices.empty());
}

TEST_F(MediaTest, ChannelsAreCountedByAHeader) {
  install(
      R"(case "$*" in *'-t 0.1 -f wav'*) printf 'RIFF....WAVEfmt ....\376\377\006\000';; esac)");
  EXPECT_EQ(media_channels(write("a.mkv", "a film")), 6);
  EXPECT_EQ(media_channels(
                write_audio("b.wav", {0, 0, 1, 1}, SF_FORMAT_WAV | SF_FORMAT_PCM_16, 16000, 2)),
            2);
}

TEST_F(MediaTest, AContainerNeedsNoEnding) {
  install(R"(printf '\000\000\200\077')");
  for (const std::string& head :
       {std::string("\0\0\0\x20"
                    "ftypisom",
                    12),
        std::string("\x1A\x45\xDF\xA3"), std::string("RIFF\0\0\0\0AVI ", 12), kOggFlac})
    EXPECT_EQ(read_media(write("standard_input", head)).samples.size(), 1U);
}

TEST_F(MediaTest, TracksThatBeginLateAreFilled) {
  install(R"(case "$*" in *aresample=async=1:first_pts=0*) printf '\000\000\200\077';; esac)");
  EXPECT_EQ(read_media(write("a.mkv", "a film")).samples.size(), 1U);
}

TEST_F(MediaTest, AnFfmpegThatHangsOrFloodsIsEnded) {
  const FfmpegLimits before = ffmpeg_limits();
  ffmpeg_limits() = {.stall_seconds = 0.5, .audio_seconds = 10, .message_bytes = 1 << 20};
  const auto error_of = [&](const std::string& script) {
    install(script);
    return user_error([&] { read_media(write("a.mp4", "a film")); });
  };
  EXPECT_HAS(error_of("exec sleep 60"),
             "a.mp4: ffmpeg was ended: no sound for 0.5 s; check the file");
  EXPECT_HAS(error_of("exec cat /dev/zero"), "ffmpeg was ended: more than 10 s of sound");
  EXPECT_HAS(error_of("exec cat /dev/zero >&2"), "ffmpeg was ended: more than 1 MiB of messages");
  ffmpeg_limits() = before;
}

TEST_F(MediaTest, OtherEndingsStayLibsndfiles) {
  install("exit 0");
  EXPECT_NE(user_error([&] { read_media(write("a.txt", "words")); }).find("not readable as audio"),
            std::string::npos);
  EXPECT_NE(user_error([&] { read_media(path("gone.mp4")); }).find("no such file"),
            std::string::npos);
}

}  // namespace
}  // namespace rtfx
