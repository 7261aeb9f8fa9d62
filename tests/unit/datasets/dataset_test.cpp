#include "datasets/dataset.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/sha256.h"
#include "datasets/audio.h"
#include "datasets/audio_files.h"
#include "datasets/manifest.h"
#include "tests/support/gzip.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

using test::sine;
using test::user_error;

DatasetSource manifest_source(const std::filesystem::path& path) {
  DatasetSource source;
  source.id = "set";
  source.manifest = path.string();
  return source;
}

class DatasetTest : public test::TempFolder {
 protected:
  DatasetTest() {
    write_audio("audio/one.wav", sine(440, 16000, 16000));
    write_audio("audio/two.flac", sine(440, 8000, 4000), SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 8000);
  }

  Dataset manifest(const std::string& contents, int64_t limit = 0) const {
    DatasetSource source = manifest_source(write("m.jsonl", contents));
    source.limit = limit;
    return load_dataset(source);
  }
  Dataset librispeech(const std::string& folder) const {
    DatasetSource source;
    source.librispeech = path(folder).string();
    return load_dataset(source);
  }
  Dataset files(const std::vector<std::filesystem::path>& paths) const {
    DatasetSource source;
    for (const auto& file : paths) source.files.push_back(file.string());
    return load_dataset(source);
  }

  /// Returns the error of a manifest, which must begin with the manifest's name and `line`.
  std::string manifest_error(const std::string& contents, int line) const {
    std::string message = user_error([&] { manifest(contents); });
    EXPECT_EQ(message.find(path("m.jsonl").string() + ":" + std::to_string(line) + ": "), 0U)
        << message;
    return message;
  }
};

TEST_F(DatasetTest, AByteOrderMarkIsNoPartOfALine) {
  const std::string mark = "\xEF\xBB\xBF";
  const std::string line = R"({"audio_filepath": "audio/one.wav", "duration": 1, "text": "x"})";
  EXPECT_EQ(manifest(mark + line + "\n" + mark + "\n").utterances.front().id, "audio/one");
  write_audio("set/one.wav", sine(440, 16000, 1600));
  write("set/s.trans.txt", mark + "one SAID\n");
  const Dataset set = librispeech("set");
  EXPECT_EQ(set.utterances.front().id, "one");
  EXPECT_EQ(set.utterances.front().text, "SAID");
}

TEST_F(DatasetTest, CutsOfLhotseAreUtterances) {
  const auto cut = [](const std::string& more) {
    return R"({"id": "c1", "start": 0.25, "duration": 0.5, "channel": 1, "type": "MonoCut", )"
           R"("supervisions": [{"start": 0.3, "text": "two"}, {"start": 0, "text": "one"}], )" +
           more + "}";
  };
  const auto recording = [](const std::string& source, const std::string& channels = "[1]") {
    return R"("recording": {"id": "r", "sources": [{"type": "file", "channels": )" + channels +
           R"(, "source": ")" + source + R"("}]})";
  };
  const Utterance one = manifest(cut(recording("audio/one.wav"))).utterances.front();
  EXPECT_EQ(one.id, "c1");
  EXPECT_EQ(one.text, "one two");
  EXPECT_EQ(one.segment, (AudioSegment{.offset = 0.25, .seconds = 0.5}));
  const Audio cut_out = read_utterance(one);
  EXPECT_EQ(cut_out.samples.size(), 8000U);
  EXPECT_EQ(cut_out.samples.capacity(), 8000U);  // not that of the whole recording
  const Utterance second = manifest(cut(recording("audio/one.wav", "[0, 1]"))).utterances.front();
  EXPECT_EQ(second.segment.channel, 2);
  const auto several = [&](const std::string& asked, const std::string& held) {
    return R"({"id": "c", "channel": )" + asked + ", " + recording("audio/one.wav", held) + "}";
  };
  EXPECT_EQ(manifest(several("[1]", "[0, 1]")).utterances.front().segment.channel, 2);
  EXPECT_EQ(manifest(several("[0, 1]", "[0, 1]")).utterances.front().segment.channel, 0);
  EXPECT_HAS(manifest_error(several("[0, 1]", "[0, 1, 2]"), 1),
             "the cut has some of the channels of its file");
  // A recording may have one file for each channel, or files with some of its channels.
  const auto files = [](const std::string& sources) {
    return R"("recording": {"sources": [{"type": "file", "channels": [0], "source": "gone.wav"}, )" +
           sources + "]}";
  };
  const std::string own = R"({"type": "file", "channels": [1], "source": "audio/one.wav"})";
  const std::string shared = R"({"type": "file", "channels": [2, 1], "source": "audio/one.wav"})";
  EXPECT_EQ(manifest(cut(files(own))).utterances.front().segment.channel, 0);
  EXPECT_EQ(manifest(cut(files(shared))).utterances.front().segment.channel, 2);
  EXPECT_HAS(manifest_error(cut(recording("audio/one.wav", "[0]")), 1),
             "no file of the recording has channel 1");
  EXPECT_HAS(manifest_error(R"({"id": "c", "channel": [0, 1], )" + files(own) + "}", 1),
             "the channels of the cut are in several files");
  EXPECT_HAS(manifest_error(cut(R"("features": {})"), 1), "the cut has no recording");
  EXPECT_HAS(manifest_error(cut(recording("gone.wav")), 1), "'source': no such file");
  EXPECT_HAS(
      user_error([&] {
        manifest(
            cut(R"("recording": {"sources": [{"type": "url", "channels": [1], "source": "x"}]})"));
      }),
      "m.jsonl:1/recording/sources/0: the audio is of type 'url'");
}

TEST_F(DatasetTest, TransformsOfLhotseAreNotPassedOver) {
  const auto cut = [](const std::string& transforms) {
    return R"({"id": "c", "start": 0, "duration": 0.5, "channel": 0, "type": "MonoCut", )"
           R"("recording": {"id": "r", "transforms": )" +
           transforms +
           R"(, "sources": [{"type": "file", "channels": [0], "source": "audio/one.wav"}]}})";
  };
  for (const char* none : {"null", "[]"})
    EXPECT_EQ(manifest(cut(none)).utterances.front().id, "c") << none;
  const std::string message = user_error([&] {
    manifest(cut(R"([{"name": "Speed", "kwargs": {"factor": 1.1}}, {"name": "Volume"}])"));
  });
  EXPECT_HAS(message,
             "m.jsonl:1/recording/transforms/0: the recording has the transform Speed "
             "{\"factor\":1.1}, which rtfx does not apply; write the audio into files: "
             "cuts.save_audios(FOLDER)");
  const auto complaint = [&](const std::string& transforms) {
    return user_error([&] { manifest(cut(transforms)); });
  };
  for (const char* name : {"Volume", "Resample", "ReverbWithImpulseResponse"})
    EXPECT_HAS(complaint(fmt::format(R"([{{"name": "{}"}}])", name)),
               fmt::format("the transform {}, which", name));
  EXPECT_HAS(complaint("[7]"), "the transform 7, which");
}

TEST_F(DatasetTest, LinesOfLhotseThatAreNoCutsSayWhatTheyAre) {
  const auto error = [&](const std::string& line) { return manifest_error(line, 1); };
  EXPECT_HAS(error(R"({"id": "m", "tracks": [], "type": "MixedCut"})"),
             "is a MixedCut of Lhotse, a mix of several cuts; write the audio into files: "
             "cuts.save_audios(FOLDER)");
  EXPECT_HAS(error(R"({"id": "p", "duration": 1, "sampling_rate": 16000, "type": "PaddingCut"})"),
             "is a PaddingCut of Lhotse, silence without a recording; leave it out");
  EXPECT_HAS(error(R"({"id": "r", "sources": [{"type": "file", "source": "audio/one.wav"}]})"),
             "is a Recording of Lhotse and no cut; join both: CutSet.from_manifests(");
  EXPECT_HAS(error(R"({"id": "s", "recording_id": "r", "start": 0, "duration": 1, "text": "a"})"),
             "is a SupervisionSegment of Lhotse, which has no audio; join both:");
  EXPECT_HAS(error(R"({"type": "fbank", "recording_id": "r", "storage_type": "lilcom_chunky"})"),
             "is Features of Lhotse, which have no audio");
}

TEST_F(DatasetTest, AFolderNamesWhatItLeavesOut) {
  write_audio("f/sub/a.wav", sine(440, 16000, 100));
  std::filesystem::create_directory_symlink("..", path("f/sub/loop"));
  EXPECT_EQ(files_below(path("f"), {".wav"}).size(), 1U);
  // A second path to a folder is no loop.
  std::filesystem::create_directory_symlink("sub", path("f/again"));
  EXPECT_EQ(files_below(path("f"), {".wav"}).size(), 2U);
  std::filesystem::remove(path("f/again"));
  std::filesystem::create_symlink("gone", path("f/b.wav"));
  ASSERT_EQ(mkfifo(path("f/c.wav").c_str(), 0600), 0);
  ASSERT_EQ(mkfifo(path("f/other").c_str(), 0600), 0);
  std::vector<UserError> skipped;
  EXPECT_EQ(files_below(path("f"), {".wav"}, nullptr, &skipped), std::vector{path("f/sub/a.wav")});
  std::string all;
  for (const UserError& error : skipped) all += std::string(error.what()) + "\n";
  EXPECT_EQ(skipped.size(), 2U) << all;
  EXPECT_HAS(all, path("f/b.wav").string() + ": is a link to nothing");
  EXPECT_HAS(all, path("f/c.wav").string() + ": is a pipe or device");
  EXPECT_HAS(user_error([&] { files_below(path("f"), {".wav"}); }), "b.wav: is a link to nothing");
  if (geteuid() == 0) return;  // root may read everything
  std::filesystem::create_directory(path("f/closed"));
  std::filesystem::permissions(path("f/closed"), std::filesystem::perms::none);
  files_below(path("f"), {".wav"}, nullptr, &skipped);
  EXPECT_HAS(skipped.back().what(), path("f/closed").string() + ": Permission denied");
}

TEST_F(DatasetTest, AManifestIsKnownByNameOrContents) {
  for (const char* name : {"a.json", "a.JSONL", "a.manifest", "a.jsonl.gz"})
    EXPECT_TRUE(is_manifest(path(name))) << name;
  EXPECT_TRUE(is_manifest(write("list", "  {\"audio_filepath\": \"x\"}")));
  EXPECT_TRUE(is_manifest(write("list", "\xef\xbb\xbf{\"audio_filepath\": \"x\"}")));
  EXPECT_FALSE(is_manifest(write("list", "RIFF")));
  EXPECT_FALSE(is_manifest(path("audio/one.wav")));
  EXPECT_FALSE(is_manifest(path("gone")));
  const std::string line = R"({"audio_filepath": "audio/one.wav", "duration": 1})";
  for (const char* name : {"m.jsonl.gz", "m.JSONL.GZ"}) {
    const DatasetSource source = manifest_source(write(name, test::gzip(line)));
    EXPECT_EQ(load_dataset(source).utterances.size(), 1U) << name;
  }
}

TEST_F(DatasetTest, UtterancesMayAskForPhrasesAndCharacters) {
  const std::string audio = R"({"audio_filepath": "audio/one.wav", "duration": 0.75, )";
  const auto one = [&](const std::string& fields) {
    return manifest(audio + fields + "}").utterances.front();
  };
  const Utterance asks =
      one(R"("boost": ["ab", {"phrase": "c  d", "weight": 2}], "allowed": "latin")");
  ASSERT_EQ(asks.boost.size(), 2);
  EXPECT_EQ(asks.boost[0].text, "ab");
  EXPECT_EQ(asks.boost[1], (Phrase{"c d", 2, asks.where + "/boost/1"}));
  EXPECT_EQ(asks.allowed, std::vector<std::string>{"latin"});
  EXPECT_EQ(one(R"("allowed": [])").allowed, std::vector<std::string>{});
  EXPECT_EQ(one(R"("allowed": null)").allowed, std::nullopt);
  EXPECT_EQ(asks.where, path("m.jsonl").string() + ":1");
  EXPECT_TRUE(one(R"("boost": null, "allowed": null)").boost.empty());
  EXPECT_TRUE(one(R"("boost": [])").boost.empty());
  const auto fault = [&](const std::string& fields) { return user_error([&] { one(fields); }); };
  EXPECT_HAS(fault(R"("boost": ["a", ""])"), "m.jsonl:1/boost/1: the phrase is empty");
  EXPECT_HAS(fault(R"("boost": [{"phrase": "a", "weight": -3}])"), "the weight of 'a' is -3");
  EXPECT_HAS(fault(R"("allowed": [7])"), "m.jsonl:1/allowed/0: 7 is not allowed");
}

TEST_F(DatasetTest, ASetSaysThatItIsAStandIn) {
  const std::string line = R"({"audio_filepath": "audio/one.wav", "duration": 0.75})";
  EXPECT_EQ(manifest(line).stand_in, "");
  write("stand_in.txt", "spoken by a program\nsince yesterday\n");
  EXPECT_EQ(manifest(line).stand_in, "spoken by a program");
  DatasetSource source = manifest_source(path("m.jsonl"));
  source.stand_in = "read by colleagues";
  EXPECT_EQ(load_dataset(source).stand_in, "read by colleagues");
  source.stand_in.clear();
  write("stand_in.txt", "\n");
  EXPECT_HAS(user_error([&] { load_dataset(source); }), "stand_in.txt: its first line is empty");
}

TEST_F(DatasetTest, UtterancesHaveTheLengthsInTurn) {
  DatasetSource source;
  source.id = "set";
  source.files = {path("audio").string()};
  source.seconds = {0.25, 2};
  const Dataset set = load_dataset(source);
  ASSERT_EQ(set.utterances.size(), 2U);
  EXPECT_EQ(set.utterances[0].seconds, 0.25);
  EXPECT_EQ(set.utterances[1].seconds, 2);
  EXPECT_EQ(read_utterance(set.utterances[0]).samples.size(), 4000U);
  EXPECT_EQ(read_utterance(set.utterances[1]).samples.size(), 32000U);
  source.seconds = {0.25};
  const std::string one = load_dataset(source).sha256;
  EXPECT_NE(one, set.sha256);
  source.seconds = {0};
  EXPECT_EQ(load_dataset(source).utterances[1].cut_seconds, 0);
  EXPECT_NE(load_dataset(source).sha256, one);
}

TEST_F(DatasetTest, ManifestPathsAreRelativeToItsFolderOrAbsolute) {
  const std::string absolute = path("audio/two.flac").string();
  const std::string text =
      R"({"audio_filepath": "audio/one.wav", "duration": 0.75, "text": "a b", "lang": "en"})"
      "\r\n \t\n"
      R"({"audio_filepath": ")" +
      absolute + "\"}";
  const Dataset set = manifest(text);
  EXPECT_EQ(set.id, "set");
  EXPECT_EQ(set.sha256, sha256(text));
  ASSERT_EQ(set.utterances.size(), 2U);
  EXPECT_EQ(set.utterances[0].id, "audio/one");
  EXPECT_EQ(set.utterances[0].audio, path("audio/one.wav"));
  EXPECT_EQ(set.utterances[0].seconds, 0.75);  // the manifest's value
  EXPECT_EQ(set.utterances[0].text, "a b");
  EXPECT_EQ(set.utterances[1].audio, absolute);
  EXPECT_EQ(set.utterances[1].seconds, 0.5);  // the header's value
  EXPECT_EQ(set.utterances[1].text, std::nullopt);
}

TEST_F(DatasetTest, AnEmptyTextIsAReference) {
  EXPECT_EQ(manifest(R"({"audio_filepath": "audio/one.wav", "text": ""})").utterances[0].text, "");
  EXPECT_EQ(manifest(R"({"audio_filepath": "audio/one.wav", "text": null})").utterances[0].text,
            std::nullopt);
}

TEST_F(DatasetTest, LimitKeepsTheFirst) {
  const std::string text =
      "{\"audio_filepath\": \"audio/two.flac\"}\n{\"audio_filepath\": \"audio/one.wav\"}\n";
  EXPECT_EQ(manifest(text, 1).utterances.size(), 1U);
  EXPECT_EQ(manifest(text, 1).utterances[0].id, "audio/two");
  EXPECT_EQ(manifest(text, 5).utterances.size(), 2U);
  EXPECT_HAS(user_error([&] { manifest(text, -1); }), "limit is -1");
}

TEST_F(DatasetTest, ManifestErrorsNameLineAndField) {
  const std::string good = "{\"audio_filepath\": \"audio/one.wav\"}\n";
  EXPECT_HAS(manifest_error(good + "\nhello\n", 3), "not JSON");
  EXPECT_HAS(manifest_error(good + "{\"audio_filepath\": \"audio/o", 2), "not JSON");
  EXPECT_HAS(manifest_error("[1]", 1), "not a JSON object");
  EXPECT_HAS(manifest_error(R"({"duration": 1})", 1), "lacks 'audio_filepath'");
  EXPECT_HAS(manifest_error(R"({"audio_filepath": 3})", 1), "'audio_filepath' is 3");
  EXPECT_HAS(manifest_error(R"({"audio_filepath": ""})", 1), "'audio_filepath' is \"\"");
  EXPECT_HAS(manifest_error(R"({"audio_filepath": "none.wav"})", 1), "no such file");
  EXPECT_HAS(manifest_error(R"({"audio_filepath": "audio", "duration": 1})", 1),
             "audio is a folder; name the file of one recording");
  const std::string open = R"({"audio_filepath": "audio/one.wav", )";
  EXPECT_HAS(manifest_error(open + R"("duration": "long"})", 1), "'duration' is \"long\"");
  EXPECT_HAS(manifest_error(open + R"("duration": -1})", 1), "'duration' is -1");
  EXPECT_HAS(manifest_error(open + R"("text": ["a"]})", 1), "'text' is [\"a\"]");
  EXPECT_HAS(manifest_error(open + R"("offset": -2.5})", 1), "'offset' is -2.5");
}

TEST_F(DatasetTest, ManifestNamesSegmentsOfARecording) {
  const auto wave = test::sine(440, 16000, 16000);
  write_audio("a.wav", wave);
  const auto lines = std::string(R"({"audio_filepath": "a.wav", "duration": 0.25})") + "\n" +
                     R"({"audio_filepath": "a.wav", "offset": 0.5, "duration": 0.25})" + "\n" +
                     R"({"audio_filepath": "a.wav", "offset": 0.75})" + "\n" +
                     R"({"audio_filepath": "a.wav", "offset": 0.1, "duration": 0.88})" + "\n" +
                     R"({"audio_filepath": "a.wav", "offset": 0.2, "duration": 3})" + "\n" +
                     R"({"audio_filepath": "a.wav", "offset": 1.0, "duration": 1})";
  const Dataset dataset = load_dataset(manifest_source(write("m.jsonl", lines)));
  const auto& all = dataset.utterances;
  ASSERT_EQ(all.size(), 6U);
  EXPECT_EQ(all[0].id, "a");
  EXPECT_EQ(all[1].id, "a@0.5");
  EXPECT_EQ(all[2].seconds, 0.25);  // what is left of the recording
  const std::vector<float> whole = read_audio(path("a.wav")).samples;
  const auto expect = [&](size_t index, ptrdiff_t begin, ptrdiff_t end, const std::string& notice) {
    const Audio audio = read_utterance(all[index]);
    EXPECT_EQ(audio.samples, std::vector<float>(whole.begin() + begin, whole.begin() + end));
    ASSERT_EQ(audio.notices.size(), notice.empty() ? 0U : 1U) << index;
    if (!notice.empty()) {
      EXPECT_HAS(audio.notices[0], notice);
    }
  };
  expect(0, 0, 4000, "only the first 0.25 s of 1.00 s, as the manifest says");
  expect(1, 8000, 12000, "");
  expect(2, 12000, 16000, "");
  expect(3, 1600, 16000, "");  // somebody rounded 0.88 s to 0.9 s
  expect(4, 3200, 16000, "the manifest says 3 s, and the recording has 0.80 s");
  EXPECT_HAS(user_error([&] { read_utterance(all[5]); }),
             "m.jsonl:6: begins at 1 s of a recording of 1.00 s; correct its offset");
}

TEST_F(DatasetTest, ManifestRefusesARepeatedId) {
  write_audio("audio/one.flac", {0}, SF_FORMAT_FLAC | SF_FORMAT_PCM_16);
  const std::string message = manifest_error(
      "{\"audio_filepath\": \"audio/one.wav\"}\n{\"audio_filepath\": \"audio/one.flac\"}\n", 2);
  EXPECT_HAS(message, "utterance 'audio/one' occurs a second time");
}

TEST_F(DatasetTest, SegmentsOfOneOffsetDiffer) {
  const auto line = [](const std::string& fields) {
    return R"({"audio_filepath": "audio/one.wav", )" + fields + "}\n";
  };
  const std::string first = line(R"("offset": 0.25, "duration": 0.25)");
  const auto set =
      manifest(first + line(R"("offset": 0.25, "duration": 0.5)") + line(R"("offset": 0.25)") +
               line(R"("duration": 0.5)") + line(R"("duration": 0.75)"))
          .utterances;
  std::vector<std::string> ids;
  for (const Utterance& one : set) ids.push_back(one.id);
  EXPECT_EQ(ids, (std::vector<std::string>{"audio/one@0.25", "audio/one@0.25+0.5",
                                           "audio/one@0.25+end", "audio/one", "audio/one+0.75"}));
  EXPECT_EQ(read_utterance(set[0]).samples.size(), 4000U);
  EXPECT_EQ(read_utterance(set[1]).samples.size(), 8000U);
  EXPECT_EQ(read_utterance(set[2]).samples.size(), 12000U);
  EXPECT_HAS(manifest_error(first + line(R"("offset": 0.25, "duration": 0.5)") + first, 3),
             "utterance 'audio/one@0.25' occurs a second time, first at " +
                 path("m.jsonl").string() + ":1");
  // Close offsets stay distinct in a recording of hours, too.
  EXPECT_EQ(
      manifest(line(R"("offset": 12345.61)") + line(R"("offset": 12345.64)")).utterances[1].id,
      "audio/one@12345.64");
}

TEST_F(DatasetTest, AManifestMayNameItsUtterances) {
  const auto line = [](const std::string& fields) {
    return R"({"audio_filepath": "audio/one.wav", "duration": 0.5, )" + fields + "}\n";
  };
  const auto set = manifest(line(R"("id": "a")") + line(R"("utterance_id": "b")") +
                            line(R"("id": 7)") + line(R"("id": null, "utterance_id": null)"))
                       .utterances;
  EXPECT_EQ(set[0].id, "a");
  EXPECT_EQ(set[1].id, "b");
  EXPECT_EQ(set[2].id, "7");
  EXPECT_EQ(set[3].id, "audio/one");
  EXPECT_HAS(manifest_error(line(R"("id": "a")") + line(R"("id": "b")") + line(R"("id": "a")"), 3),
             "utterance 'a' occurs a second time, first at " + path("m.jsonl").string() + ":1; ");
  EXPECT_HAS(manifest_error(line(R"("id": ["a"])"), 1), R"('id' is ["a"]; it must be text)");
  EXPECT_HAS(manifest_error(line(R"("id": "")"), 1), R"('id' is "";)");
}

TEST_F(DatasetTest, ADurationIsAboveZero) {
  const auto error = [&](const std::string& duration) {
    return manifest_error(R"({"audio_filepath": "audio/one.wav", "duration": )" + duration + "}",
                          1);
  };
  EXPECT_HAS(error("0"), "'duration' is 0; it must be a number of seconds above 0, or left out");
  EXPECT_HAS(error("0.0"), "'duration' is 0.0; it must be a number of seconds above 0");
  EXPECT_HAS(error("-1.5"), "'duration' is -1.5; it must be a number of seconds above 0");
  EXPECT_HAS(error("NaN"), "not JSON");
  EXPECT_HAS(error("\"1\""), "'duration' is \"1\"");
  const std::string cut =
      R"({"id": "c", "duration": 0, "recording": {"sources": [{"type": "file", )"
      R"("source": "audio/one.wav"}]}})";
  EXPECT_HAS(manifest_error(cut, 1), "'duration' is 0; it must be a number of seconds above 0");
  // These segments hold no sample.
  const auto read = [&](const std::string& fields) {
    return user_error([&] {
      read_utterance(
          manifest(R"({"audio_filepath": "audio/one.wav", )" + fields + "}").utterances.front());
    });
  };
  EXPECT_HAS(read(R"("duration": 1e-5)"), "m.jsonl:1: its 1e-05 s are less than a sample; correct");
  EXPECT_HAS(read(R"("offset": 0.99999)"),
             "m.jsonl:1: begins at 0.99999 s of a recording of 1.00 s");
}

TEST_F(DatasetTest, ManifestMissingEmptyOrADirectory) {
  EXPECT_HAS(user_error([&] { manifest("\n \n"); }), "manifest is empty");
  EXPECT_HAS(user_error([&] { manifest(""); }), "manifest is empty");
  EXPECT_HAS(user_error([&] { load_dataset(manifest_source(path("none.jsonl"))); }),
             "no such file");
  EXPECT_HAS(user_error([&] { load_dataset(manifest_source(path("audio"))); }),
             "no file ending in .trans.txt");
}

TEST_F(DatasetTest, AudioWithoutDurationMustHaveAHeader) {
  write("audio/bad.wav", "no audio");
  EXPECT_HAS(user_error([&] { manifest(R"({"audio_filepath": "audio/bad.wav"})"); }),
             path("audio/bad.wav").string());
}

TEST_F(DatasetTest, LibrispeechIsSearchedRecursively) {
  const auto wave = sine(440, 16000, 8000);
  write("dev/2/7/2-7.trans.txt", "2-7-0000 HE SAID\n\n2-7-0001 YES\n");
  write_audio("dev/2/7/2-7-0000.wav", wave);
  write_audio("dev/2/7/2-7-0001.flac", wave, SF_FORMAT_FLAC | SF_FORMAT_PCM_16);
  write("dev/1/9/1-9.trans.txt", "1-9-0000 SHE ASKED WHY");
  write_audio("dev/1/9/1-9-0000.wav", wave);
  const Dataset set = librispeech("dev");
  ASSERT_EQ(set.utterances.size(), 3U);
  EXPECT_EQ(set.utterances[0].id, "1-9-0000");
  EXPECT_EQ(set.utterances[0].text, "SHE ASKED WHY");
  EXPECT_EQ(set.utterances[0].seconds, 0.5);
  EXPECT_EQ(set.utterances[1].audio, path("dev/2/7/2-7-0000.wav"));
  EXPECT_EQ(set.utterances[2].audio, path("dev/2/7/2-7-0001.flac"));
  EXPECT_EQ(set.utterances[2].text, "YES");
  EXPECT_EQ(set.sha256, sha256("1-9-0000 SHE ASKED WHY2-7-0000 HE SAID\n\n2-7-0001 YES\n"));
}

TEST_F(DatasetTest, TranscriptsMayHaveTheLineEndsOfWindows) {
  write_audio("set/one.wav", sine(440, 16000, 1600));
  write("set/s.trans.txt", "\r\none SHE SAID\r\n");
  EXPECT_EQ(librispeech("set").utterances.at(0).text, "SHE SAID");
}

TEST_F(DatasetTest, TranscriptsAreUtf8) {
  write_audio("set/one.wav", sine(440, 16000, 1600));
  write("set/s.trans.txt", "\none caf\xe9\n");
  EXPECT_HAS(user_error([&] { librispeech("set"); }),
             "s.trans.txt:2: is not UTF-8: byte 8 is 0xe9");
}

TEST_F(DatasetTest, IdsHaveNoNul) {
  write_audio("audio/one.wav", sine(440, 16000, 1600));
  EXPECT_HAS(
      user_error([&] { manifest(R"({"audio_filepath": "audio/one.wav", "id": "k\u0000a"})"); }),
      "m.jsonl:1/id: has a NUL character; leave it out");
}

TEST_F(DatasetTest, TranscriptsHaveNoNul) {
  write_audio("set/one.wav", sine(440, 16000, 1600));
  write("set/s.trans.txt", std::string("\none KNIT\0TWO\n", 14));
  EXPECT_HAS(user_error([&] { librispeech("set"); }),
             "s.trans.txt:2: has a NUL character; leave it out");
}

/// Archives that macOS packed hold these files beside the recordings and transcripts.
TEST_F(DatasetTest, AttributesThatMacosKeepsAreNoData) {
  const std::string attributes("\0\x05\x16\x07\0\x02\0\0Mac OS X", 16);
  write_audio("set/one.wav", sine(440, 16000, 1600));
  write("set/s.trans.txt", "one SHE SAID\n");
  for (const char* name : {"set/._one.wav", "set/._s.trans.txt"}) write(name, attributes);
  write("set/deep/._three.wav", attributes);
  const std::string kept = ", in which macOS keeps attributes of other files";
  const std::string where = path("set").string() + ": left out ";
  EXPECT_EQ(librispeech("set").utterances.size(), 1U);
  EXPECT_EQ(librispeech("set").notices, std::vector{where + "1 file ._*" + kept});
  EXPECT_EQ(files({path("set")}).utterances.size(), 1U);
  EXPECT_EQ(files({path("set")}).notices, std::vector{where + "2 files ._*" + kept});
  EXPECT_HAS(user_error([&] { files({path("set/deep")}); }), ", apart from 1 file ._*" + kept);
  EXPECT_TRUE(files({path("audio")}).notices.empty());
  write_audio("set/._two.wav", sine(440, 16000, 1600));
  EXPECT_EQ(files({path("set")}).utterances.size(), 2U);
}

TEST_F(DatasetTest, AManifestMayBeALibrispeechFolder) {
  write("test-other/1/9/1-9.trans.txt", "1-9-0000 SHE ASKED WHY\n");
  write_audio("test-other/1/9/1-9-0000.flac", sine(440, 16000, 8000),
              SF_FORMAT_FLAC | SF_FORMAT_PCM_16);
  DatasetSource source = manifest_source(path("test-other"));
  const Dataset set = load_dataset(source);
  ASSERT_EQ(set.utterances.size(), 1U);
  EXPECT_EQ(set.utterances[0].text, "SHE ASKED WHY");
  EXPECT_EQ(set.stand_in, "");
  EXPECT_EQ(set.sha256, librispeech("test-other").sha256);
  write("test-other/stand_in.txt", "read by colleagues\n");
  EXPECT_EQ(load_dataset(source).stand_in, "read by colleagues");
  EXPECT_EQ(librispeech("test-other").stand_in, "read by colleagues");
}

TEST_F(DatasetTest, AMissingManifestNamesTheCommandThatMakesIt) {
  DatasetSource source = manifest_source(path("my/test_other/manifest.jsonl"));
  const std::string made = "datasets/speak_librispeech.py " + path("my/test_other").string() + "`";
  EXPECT_HAS(user_error([&] { load_dataset(source); }), "manifest.jsonl: no such file; ");
  EXPECT_HAS(user_error([&] { load_dataset(source); }), made);
  source.manifest = path("my/test_clean/manifest.jsonl").string();
  const std::string clean =
      "speak_librispeech.py " + path("my/test_clean").string() + " --set test-clean` makes it";
  EXPECT_HAS(user_error([&] { load_dataset(source); }), clean);
  source.manifest = path("gone.jsonl").string();
  EXPECT_HAS(user_error([&] { load_dataset(source); }), "speak_librispeech.py data/test_other`");
  source.manifest = path("my/spgi/dev.jsonl").string();
  const std::string prepared =
      "datasets/prepare_dataset.py spgispeech SOURCE --output " + path("my/spgi").string() + "`";
  EXPECT_HAS(user_error([&] { load_dataset(source); }), prepared);
}

TEST_F(DatasetTest, LibrispeechErrors) {
  EXPECT_HAS(user_error([&] { librispeech("none"); }), "no such folder");
  EXPECT_HAS(user_error([&] { librispeech("audio"); }), "no file ending in .trans.txt");
  const auto transcript = write("dev/1-9.trans.txt", "\n1-9-0000 WHY\n");
  EXPECT_HAS(user_error([&] { librispeech("dev"); }),
             transcript.string() + ":2: no 1-9-0000.flac or 1-9-0000.wav");
  write_audio("dev/1-9-0000.wav", {0});
  write("dev/1-9.trans.txt", "1-9-0000 WHY\n1-9-0000 WHY\n");
  EXPECT_HAS(user_error([&] { librispeech("dev"); }),
             transcript.string() + ":2: utterance '1-9-0000' occurs a second time");
}

TEST_F(DatasetTest, FilesAndFolders) {
  write_audio("more/B.WAV", {0});
  write_audio("more/deep/a.ogg", {0}, SF_FORMAT_OGG | SF_FORMAT_VORBIS);
  write("more/notes.txt", "no audio");
  const Dataset set = files({path("audio/two.flac"), path("more")});
  ASSERT_EQ(set.utterances.size(), 3U);
  EXPECT_EQ(set.utterances[0].id, path("audio/two.flac").string());
  EXPECT_EQ(set.utterances[0].seconds, 0.5);
  EXPECT_EQ(set.utterances[0].text, std::nullopt);
  EXPECT_EQ(set.utterances[1].audio, path("more/B.WAV"));
  EXPECT_EQ(set.utterances[2].audio, path("more/deep/a.ogg"));
}

TEST_F(DatasetTest, FilesOfOtherSizesHaveAnotherChecksum) {
  const std::string before = files({path("audio")}).sha256;
  EXPECT_EQ(files({path("audio")}).sha256, before);
  write_audio("audio/one.wav", sine(440, 16000, 16001));
  EXPECT_NE(files({path("audio")}).sha256, before);
}

TEST_F(DatasetTest, FileErrors) {
  EXPECT_HAS(user_error([&] { files({path("none.wav")}); }), "no such file or folder");
  EXPECT_HAS(user_error([&] { files({"/dev/null"}); }),
             "/dev/null: is a pipe or device, not a file; name a file");
  std::filesystem::create_symlink("loop.wav", path("loop.wav"));
  EXPECT_HAS(user_error([&] { files({path("loop.wav")}); }), "symbolic links");
  EXPECT_HAS(user_error([&] { files({path("audio"), path("audio/one.wav")}); }), "a second time");
  std::filesystem::create_directory(path("empty"));
  EXPECT_HAS(user_error([&] { files({path("empty")}); }), "holds no file ending in .3gp, .aac");
}

TEST_F(DatasetTest, MissingFilesAreCountedAndTheFirstAreNamed) {
  const auto line = [](const std::string& file) {
    return R"({"audio_filepath": ")" + file + R"(", "offset": 0, "duration": 0.1, "id": ")" + file +
           "\"}\n";
  };
  std::string lines = line("audio/one.wav");
  for (const char* file : {"a.wav", "b.wav", "c.wav", "d.wav", "e.wav"}) lines += line(file);
  // Another segment of a missing file is no further file.
  lines += R"({"audio_filepath": "a.wav", "offset": 0.5, "duration": 0.1})";
  const std::string of_manifest = manifest_error(lines, 2);
  EXPECT_EQ(std::ranges::count(of_manifest, '\n'), 3) << of_manifest;
  EXPECT_HAS(of_manifest, "m.jsonl:4: 'audio_filepath': no such file " + path("c.wav").string());
  EXPECT_HAS(of_manifest, "m.jsonl: 5 of 6 audio files are missing");
  write("set/s.trans.txt", "one ONE\ntwo TWO\nthree THREE\n");
  write_audio("set/two.wav", sine(440, 16000, 1600));
  const std::string of_folder = user_error([&] { librispeech("set"); });
  EXPECT_HAS(of_folder, "s.trans.txt:1: no one.flac or one.wav beside the transcript");
  EXPECT_HAS(of_folder, "s.trans.txt:3: no three.flac or three.wav beside the transcript");
  EXPECT_HAS(of_folder, path("set").string() + ": 2 of 3 audio files are missing");
  const std::string of_files = user_error([&] {
    files({path("gone"), path("audio"), path("none.wav")});
  });
  EXPECT_HAS(of_files, path("gone").string() + ": no such file or folder; check the path");
  EXPECT_HAS(of_files, "dataset '': 2 of 3 files or folders are missing");
  // The number says nothing more about a single file.
  EXPECT_EQ(std::ranges::count(manifest_error(line("a.wav"), 1), '\n'), 0);
}

TEST_F(DatasetTest, ExactlyOneSource) {
  DatasetSource source = manifest_source("");
  EXPECT_HAS(user_error([&] { load_dataset(source); }), "dataset 'set': names 0 sources");
  source.manifest = source.librispeech = "x";
  EXPECT_HAS(user_error([&] { load_dataset(source); }), "dataset 'set': names 2 sources");
}

TEST(QuickstartDataset, IsWhatItsManifestSays) {
  const Dataset set = load_dataset(manifest_source("datasets/quickstart/manifest.jsonl"));
  ASSERT_EQ(set.utterances.size(), 24U);
  for (const auto& utterance : set.utterances) {
    const Audio audio = read_audio(utterance.audio);
    EXPECT_TRUE(audio.notices.empty()) << utterance.id;
    EXPECT_NEAR(audio.seconds(), utterance.seconds, 1e-3) << utterance.id;
    EXPECT_FALSE(utterance.text.value_or("").empty()) << utterance.id;
  }
}

}  // namespace
}  // namespace rtfx
