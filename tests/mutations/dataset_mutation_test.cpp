// Tests of damaged audio files and of damaged lists of audio.
#include <sndfile.h>

#include <cmath>

#include "datasets/audio.h"
#include "datasets/dataset.h"
#include "datasets/manifest.h"
#include "tests/mutations/mutate.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

struct Format {
  const char* name;
  int format;
};

class AudioMutation : public test::TempFolder, public ::testing::WithParamInterface<Format> {
 protected:
  std::string bytes() const {
    return file_bytes(write_audio("a", test::sine(440, 16000, 8000), GetParam().format));
  }
};

TEST_P(AudioMutation, IsReadOrRefused) {
  const std::string whole = bytes();
  const Counts counts = mutate(whole, {{0, std::min<size_t>(whole.size(), 200)}}, 600,
                               [](const std::string& damaged) {
                                 const MemoryFile file(damaged);
                                 const double seconds = audio_seconds(file.path());
                                 ASSERT_TRUE(std::isfinite(seconds) && seconds >= 0) << seconds;
                                 for (const float sample : read_audio(file.path()).samples)
                                   ASSERT_TRUE(std::isfinite(sample));
                               });
  EXPECT_GT(counts.refused, scaled(50));
}

INSTANTIATE_TEST_SUITE_P(Formats, AudioMutation,
                         ::testing::Values(Format{"wav", SF_FORMAT_WAV | SF_FORMAT_PCM_16},
                                           Format{"float_wav", SF_FORMAT_WAV | SF_FORMAT_FLOAT},
                                           Format{"adpcm_wav", SF_FORMAT_WAV | SF_FORMAT_IMA_ADPCM},
                                           Format{"rf64", SF_FORMAT_RF64 | SF_FORMAT_PCM_16},
                                           Format{"w64", SF_FORMAT_W64 | SF_FORMAT_PCM_16},
                                           Format{"aiff", SF_FORMAT_AIFF | SF_FORMAT_PCM_16},
                                           Format{"au", SF_FORMAT_AU | SF_FORMAT_PCM_16},
                                           Format{"caf", SF_FORMAT_CAF | SF_FORMAT_ALAC_16},
                                           Format{"voc", SF_FORMAT_VOC | SF_FORMAT_PCM_16},
                                           Format{"flac", SF_FORMAT_FLAC | SF_FORMAT_PCM_16},
                                           Format{"vorbis", SF_FORMAT_OGG | SF_FORMAT_VORBIS},
                                           Format{"opus", SF_FORMAT_OGG | SF_FORMAT_OPUS},
                                           Format{"mp3",
                                                  SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III}),
                         [](const auto& info) { return info.param.name; });

TEST(ManifestMutation, IsReadOrRefused) {
  const auto folder = std::filesystem::absolute("datasets/quickstart/manifest.jsonl");
  const std::string lines = file_bytes(folder).substr(0, 2000);
  const Counts counts =
      mutate(lines.substr(0, lines.rfind('\n')), {}, 8'000,
             [&](const std::string& damaged) { parse_manifest(folder, damaged); });
  EXPECT_GT(counts.read, scaled(500));
  EXPECT_GT(counts.refused, scaled(1000));
}

class LibriSpeechMutation : public test::TempFolder {};

TEST_F(LibriSpeechMutation, IsReadOrRefused) {
  write_audio("1/2/1-2-0000.wav", {0.1F});
  write_audio("1/2/1-2-0001.wav", {0.1F});
  const Counts counts = mutate("1-2-0000 WHAT WAS SAID\n1-2-0001 AND THEN\n", {}, 3'000,
                               [&](const std::string& damaged) {
                                 write("1/2/1-2.trans.txt", damaged);
                                 DatasetSource source;
                                 source.librispeech = path("1");
                                 load_dataset(source);
                               });
  EXPECT_GT(counts.refused, scaled(1000));
}

}  // namespace
}  // namespace rtfx
