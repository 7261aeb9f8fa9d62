#include "harness/cli/transcribe.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "algorithms/registry.h"
#include "base/error.h"
#include "base/exit_code.h"
#include "base/json_file.h"
#include "datasets/audio.h"
#include "datasets/audio_files.h"
#include "harness/machine/device.h"
#include "harness/machine/sudden_end.h"
#include "harness/results/journal.h"
#include "harness/run/hypothesis_json.h"
#include "harness/run/pipeline.h"
#include "models/load_checkpoint.h"

namespace rtfx {
namespace {

using nlohmann::json;

json parse_options(const std::string& text) {
  constexpr const char* kExample = R"(for example '{"window": 8}')";
  json options = parse_json(text, "--options", kExample);
  if (!options.is_object()) throw UserError("--options", text + " is not a JSON object", kExample);
  return options;
}

std::optional<Audio> try_read(const std::filesystem::path& path) {
  try {
    Audio audio = read_audio(path);
    for (const std::string& notice : audio.notices)
      fmt::print(stderr, "rtfx: notice: {}: {}\n", path.string(), notice);
    return audio;
  } catch (const UserError& e) {
    fmt::print(stderr, "rtfx: error: {}\n", e.what());
    return std::nullopt;
  }
}

void print_result(const TranscribeOptions& options, const std::filesystem::path& file,
                  const Hypothesis& hypothesis, const std::string& text,
                  const Tokenizer& tokenizer) {
  if (options.json) {
    json line = to_json(hypothesis, tokenizer);
    line["file"] = file.string();
    fmt::print("{}", to_line(line));
  } else if (options.files.size() > 1) {
    fmt::print("{}: {}\n", file.string(), text);
  } else {
    fmt::print("{}\n", text);
  }
  std::fflush(stdout);
}

/// Folders become the audio files in them; anything else stays, to be complained about one by one.
std::vector<std::filesystem::path> expand(const std::vector<std::filesystem::path>& files) {
  std::vector<std::filesystem::path> all;
  for (const auto& file : files) {
    if (!std::filesystem::is_directory(file)) {
      all.push_back(file);
      continue;
    }
    for (const Utterance& utterance : list_audio_files({file.string()}))
      all.push_back(utterance.audio);
  }
  return all;
}

}  // namespace

int transcribe(const TranscribeOptions& given) {
  TranscribeOptions options = given;
  options.files = expand(given.files);
  for (const std::string& plugin : options.plugins) load_plugin(plugin);
  const DeviceScope scope(options.threads, options.device, "--device");
  const at::Device device = scope.device();
  const Checkpoint checkpoint = load_checkpoint(options.model, options.att_context_size);
  for (const std::string& notice : checkpoint.notices) {
    fmt::print(stderr, "rtfx: notice: {}: {}\n", options.model.string(), notice);
  }
  const std::string fallback = checkpoint.config.has_transducer ? "label_looping" : "ctc_greedy";
  const auto decoder =
      make_decoder(options.decoder.empty() ? fallback : options.decoder,
                   parse_options(options.decoder_options), "--decoder", checkpoint.config);
  const auto model =
      AcousticModel::build(checkpoint, device, parse_dtype(options.dtype, "--dtype"));
  decoder->prepare(model, {});
  RecordedEncoder encoder(model, /*graphs=*/false);  // every batch is new, none worth recording

  const RegionClock clock(device);
  bool failed = false;
  for (size_t begin = 0; begin < options.files.size();
       begin += static_cast<size_t>(options.batch_size)) {
    const size_t end =
        std::min(options.files.size(), begin + static_cast<size_t>(options.batch_size));
    std::vector<Audio> audio;
    std::vector<std::filesystem::path> files;
    for (size_t i = begin; i < end; ++i) {
      if (auto read = try_read(options.files[i])) {
        audio.push_back(std::move(*read));
        files.push_back(options.files[i]);
      } else {
        failed = true;
      }
    }
    if (files.empty()) continue;
    set_under_way(fmt::format("rtfx transcribe, {}{}", files.front().string(),
                              files.size() == 1 ? "" : " and those of its batch"));
    Clips clips;
    for (const Audio& a : audio) clips.push_back(&a.samples);
    RegionTimes times;
    const EncodedBatch batch = encode_batch(*model, encoder, clips, clock, times);
    const Decoded decoded =
        decode_batch(*decoder, *model, batch, clock, times, /*sync_debug=*/false);
    for (size_t i = 0; i < files.size(); ++i) {
      if (decoded.hypotheses[i].nan) {
        fmt::print(stderr, "rtfx: error: {}: NaN in the emissions; try --dtype fp32\n",
                   files[i].string());
        failed = true;
      } else {
        print_result(options, files[i], decoded.hypotheses[i], decoded.texts[i], *model->tokenizer);
      }
    }
  }
  return failed ? kFailed : kOk;
}

}  // namespace rtfx
