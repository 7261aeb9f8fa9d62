#include "harness/cli/transcribe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "algorithms/decoder.h"
#include "base/error.h"
#include "base/json.h"
#include "base/numbers.h"
#include "base/terminal.h"
#include "harness/cli/open_model.h"
#include "harness/cli/transcript_printer.h"
#include "speech/pipeline/default_decoder.h"
#include "speech/runtime/device.h"
#include "speech/runtime/stages.h"
#include "speech/transcriber.h"
#include "speech/transcript/formats.h"

namespace rtfx {

// The decoder that the arguments of `rtfx transcribe` ask for.

/// Returns the decoder that the user named, unprepared, with the options for --nbest, --boost and
/// --allowed. Null if none was named. Throws UserError.
std::unique_ptr<Decoder> named_decoder(const TranscribeOptions& options, const ModelConfig& model);
/// Returns the default decoder of the model and its device, prepared. It is used if none was named.
/// Throws UserError.
std::unique_ptr<Decoder> unnamed_decoder(const TranscribeOptions& options,
                                         const AcousticModel& model, const PrepareDecoder& prepare);

namespace {

using nlohmann::json;

/// Adds texts to the list at `key`. A single value is a list of one, as in all options.
void add_texts(json& options, const char* key, const std::vector<std::string>& texts) {
  if (texts.empty()) return;
  json& list = options[key];
  if (!list.is_array() && !list.is_null()) list = json::array({list});
  for (const std::string& text : texts) list.push_back(text);
}

/// Throws UserError if --options gives the option of this argument too. `given` is null otherwise.
void require_one_value(const char* argument, const std::string& value, const char* option,
                       const json& given) {
  if (given.is_null()) return;
  throw UserError(argument,
                  fmt::format("is {}, and {} of --options is {}", value, option, given.dump()),
                  "give one of them");
}

/// Returns the decoder's options, including those that other arguments set.
json decoder_options(const TranscribeOptions& options) {
  json all = parse_decoder_options(options.decoder_options);
  if (!options.boost.empty() || !options.boost_phrases.empty()) {
    json& boost = all["boost"];
    if (!boost.is_null() && !boost.is_object()) {
      throw UserError("--options", "boost is no JSON object, and another argument adds to it",
                      "give \"boost\": {...}, or leave it out");
    }
    if (!options.boost.empty()) {
      json& path = boost["path"];
      require_one_value("--boost", options.boost.string(), "boost/path", path);
      path = options.boost.string();
    }
    add_texts(boost, "phrases", options.boost_phrases);
  }
  add_texts(all, "allowed", options.allowed);
  if (options.mbr && options.nbest == 1 && !all.contains("nbest"))
    throw UserError("--mbr", "compares the texts of a list, and --nbest is 1",
                    "give --nbest too, such as 8");
  if (options.mbr && all.value("mbr", json()).is_null()) all["mbr"] = json::object();
  return all;
}

/// Throws UserError if the decoder lacks the option that `argument` sets. The message names those
/// that have it.
void require_option(const char* argument, const char* option, const std::string& decoder,
                    const char* what) {
  const auto has_option = [&](const DecoderEntry& entry) {
    return std::ranges::find(entry.options, option, &OptionInfo::name) != entry.options.end();
  };
  if (has_option(find_decoder(decoder, "--decoder"))) return;
  std::vector<std::string> others;
  for (const DecoderEntry* entry : decoder_entries())
    if (has_option(*entry)) others.push_back(entry->name);
  throw UserError(argument, fmt::format("{} has no {}", decoder, what),
                  fmt::format("choose one of {}", fmt::join(others, ", ")));
}

/// Throws UserError if the named decoder lacks an option that another argument sets.
void require_options(const TranscribeOptions& options) {
  const std::string& decoder = options.decoder;
  if (!options.boost.empty())
    require_option("--boost", "boost.path", decoder, "boosting of phrases");
  if (!options.boost_phrases.empty())
    require_option("--boost-phrase", "boost.phrases", decoder, "boosting of phrases");
  if (!options.allowed.empty())
    require_option("--allowed", "allowed", decoder, "limit to characters");
}

/// Returns the number of values of an option in --options.
size_t given_values(const json& given, const char* option) {
  const json::json_pointer place(option);
  if (!given.contains(place)) return 0;
  return given.at(place).is_array() ? given.at(place).size() : 1;
}

/// Returns the error with the argument that the user gave, where rtfx has made an option of it.
UserError with_argument(const UserError& error, const TranscribeOptions& options) {
  const json given = parse_decoder_options(options.decoder_options);
  const std::string& where = error.where();
  const auto at = [&](const char* place) {
    return UserError(place, std::string(error.what()).substr(where.size() + 2));
  };
  if (where == "allowed")  // the characters have no place of their own
    return at(given_values(given, "/allowed") == 0 ? "--allowed" : "--options/allowed");
  for (const auto& [argument, option, is_given] :
       {std::tuple{"--boost-phrase", "/boost/phrases", !options.boost_phrases.empty()},
        std::tuple{"--boost", "/boost/path", !options.boost.empty()}}) {
    const std::string path = std::string("--options") + option;
    if (!is_given || !where.starts_with(path)) continue;
    // The values of the argument stand behind those of --options.
    const std::string_view rest = std::string_view(where).substr(path.size());
    const size_t index = rest.empty() ? 0 : parse_number<size_t>(rest.substr(1)).value_or(0);
    if (index >= given_values(given, option)) return at(argument);
  }
  return error;
}

/// Adds the options for --nbest.
json with_list(json options, const std::string& decoder, int64_t entries) {
  if (entries == 1) return options;
  require_option("--nbest", "nbest", decoder, "list of alternatives");
  int64_t beam = 0;
  for (const OptionInfo& option : find_decoder(decoder, "--decoder").options) {
    if (option.name == "beam_size" && option.default_value.is_number_integer())
      beam = option.default_value.get<int64_t>();
  }
  json& nbest = options["nbest"];
  require_one_value("--nbest", std::to_string(entries), "nbest", nbest);
  nbest = entries;
  if (beam > 0 && !options.contains("beam_size")) options["beam_size"] = std::max(beam, entries);
  return options;
}

}  // namespace

std::unique_ptr<Decoder> named_decoder(const TranscribeOptions& options, const ModelConfig& model) {
  const json asked = decoder_options(options);
  if (options.decoder.empty()) return nullptr;
  find_decoder(options.decoder, "--decoder");  // its error is not one of the options
  require_options(options);
  return make_decoder(options.decoder, with_list(asked, options.decoder, options.nbest),
                      "--options", model);
}

std::unique_ptr<Decoder> unnamed_decoder(const TranscribeOptions& options,
                                         const AcousticModel& model,
                                         const PrepareDecoder& prepare) {
  const json asked = decoder_options(options);
  if (options.nbest == 1) return default_greedy(model, asked, "--options", prepare);
  const std::string beam = model.config.has_transducer ? "alsd_pp" : "ctc_beam";
  const DecoderChoice plain{beam, with_list(asked, beam, options.nbest)};
  DecoderChoice fused = plain;
  fused.options.emplace("kernels", "fused");  // unless the options set it
  std::vector<DecoderChoice> choices = {plain};
  if (model.device.is_cuda()) choices.insert(choices.begin(), fused);
  return first_prepared(choices, "--options", model.config, prepare);
}

namespace {

std::optional<ConfidenceOptions> parse_confidence(const TranscribeOptions& options) {
  if (options.confidence_options.empty())
    return options.confidence ? std::optional(ConfidenceOptions()) : std::nullopt;
  const json object = parse_json(options.confidence_options, "--confidence-options",
                                 R"(for example '{"method": "max_prob"}')");
  return confidence_options().fill(JsonView(object, "--confidence-options"));
}

/// Prints a notice for each option that asks for what the format does not show.
void tell_unseen_options(const TranscribeOptions& options) {
  const auto tell = [&](const char* option, std::initializer_list<const char*> shown_by) {
    tell_if_unseen(option, options.format, shown_by);
  };
  if (options.confidence || !options.confidence_options.empty())
    tell(options.confidence ? "--confidence" : "--confidence-options", {"json", "ctm", "tsv"});
  if (options.tokens) tell("--tokens", {"json", "textgrid"});
  if (options.nbest > 1 && !options.mbr) tell("--nbest", {"json"});
}

/// Transcribes all inputs. Returns whether each of them has a result.
bool transcribe_all(const TranscribeOptions& options, const std::vector<TranscribeInput>& inputs) {
  const std::optional<ConfidenceOptions> confidence = parse_confidence(options);
  TranscriptWriter writer(transcript_format(options.format, "--format"), options.output,
                          inputs.size() > 1);
  const DeviceScope scope(options.threads, options.device, "--device");
  const auto [checkpoint, dtypes] = open_model(options, scope.device());
  std::unique_ptr<Decoder> named = named_decoder(options, checkpoint.config);
  if (!options.json) tell_unseen_options(options);
  const std::shared_ptr<const AcousticModel> model =
      AcousticModel::build(checkpoint, scope.device(), dtypes);
  const auto choose = [&](const PrepareDecoder& prepare) {
    if (!named) return unnamed_decoder(options, *model, prepare);
    prepare(*named);
    return std::move(named);
  };
  Transcriber transcriber(model, choose,
                          {.batch_size = options.batch_size,
                           .cuts = options.cuts,
                           .pause = options.pause,
                           .decode_again = options.decode_again,
                           .with_times = !options.json && options.format != "txt",
                           .confidence = confidence});

  std::vector<Recording> recordings;
  for (const TranscribeInput& input : inputs)
    recordings.push_back({input.label(), input.audio, input.segment, {}, input.language});
  const auto requests = std::ranges::count_if(inputs, &TranscribeInput::own_request);
  if (requests > 0) {
    print_notice(
        fmt::format("{} of the manifest's utterances have boost or allowed of their own, "
                    "which transcribe does not follow; give --boost or --allowed for all, "
                    "or use rtfx run",
                    requests));
  }
  TranscriptPrinter printer({.command = "transcribe",
                             .with_tokens = options.tokens,
                             .hypotheses = options.json ? model->tokenizer.get() : nullptr},
                            inputs, writer);
  const Transcriber::Totals totals = transcriber.run(recordings, printer);
  printer.print_end(
      totals.audio_seconds,
      confidence ? fmt::format("; {:.2f} s of it for confidence", totals.confidence_seconds) : "");
  return printer.failed() == 0;
}

}  // namespace

int with_inputs(const SpeechOptions& options,
                const std::function<bool(const std::vector<TranscribeInput>&, bool)>& work) {
  const InterruptWatch watch;
  bool listed = true, done = false;
  ScratchFile scratch;
  try {
    const auto inputs =
        transcribe_inputs(options.files, track_choice(options.channel, options.track), scratch,
                          [&](const UserError& error) {
                            print_failure(error.what());
                            listed = false;
                          });
    done = work(inputs, listed);
    check_interrupt();
  } catch (const Interrupted&) {
    print_message("rtfx: interrupted\n");
    return kInterrupted;
  }
  return done && listed ? kOk : kFailed;
}

int transcribe(const TranscribeOptions& options) {
  for (const std::string& plugin : options.plugins) load_plugin(plugin);
  try {
    return with_inputs(options,
                       [&](const auto& inputs, bool) { return transcribe_all(options, inputs); });
  } catch (const UserErrors& several) {
    ErrorList errors;
    for (const UserError& error : several.all()) errors.add(with_argument(error, options));
    errors.throw_any();
    throw;
  } catch (const UserError& error) {
    throw with_argument(error, options);
  }
}

}  // namespace rtfx
