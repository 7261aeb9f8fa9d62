#include "harness/cli/speech_commands.h"

#include <memory>

#include "harness/cli/align.h"
#include "harness/cli/arguments.h"
#include "harness/cli/transcribe.h"
#include "speech/transcript/formats.h"

namespace rtfx {
namespace {

// Options that both commands have.

void add_model(CLI::App& command, SpeechOptions& options) {
  command.add_option("--model", options.model, kModelHelp)->required();
  command
      .add_option("--att-context-size", options.att_context_size,
                  "Attention context of a cache-aware encoder, in encoder frames: LEFT,RIGHT, or "
                  "LEFT,CHUNK,RIGHT (`rtfx inspect` lists those of the model).")
      ->delimiter(',')
      ->allow_extra_args(false);  // what follows are files
  command.add_option("--language", options.language,
                     "Language of files whose manifest states none, for a prompt-conditioned model "
                     "(`rtfx inspect` lists the languages).");
}

void add_machine(CLI::App& command, SpeechOptions& options) {
  command.add_option("--device", options.device, kDeviceHelp);
  command.add_option("--dtype", options.dtype, kDtypeHelp);
  command
      .add_option("--batch-size", options.batch_size,
                  "Number of files in a batch. 0: one on a CPU; on a GPU as many as fit in its "
                  "memory, up to 40 minutes of audio.")
      ->check(at_least(0));
  command.add_option("--threads", options.threads, kThreadsHelp)->check(between(0, kMaxThreads));
}

CLI::Option* add_output(CLI::App& command, SpeechOptions& options) {
  auto* const format =
      command
          .add_option(
              "--format", options.format,
              "Output format. txt: plain text. json: words with times. srt, vtt: subtitles. ctm, "
              "stm: NIST's formats for scoring. tsv: a table of words. textgrid: for Praat.")
          ->check(CLI::IsMember(transcript_formats()));
  command
      .add_option("--output", options.output,
                  "Folder for one output file per input (default: standard output). Earlier files "
                  "there are kept as NAME.N.")
      ->type_name("FOLDER");
  return format;
}

void add_details(CLI::App& command, SpeechOptions& options) {
  command
      .add_option("--channel", options.channel,
                  "Channel to use. mix: the average of all channels. A number: this channel, "
                  "counted from 1. separate: a result for each channel.")
      ->type_name("CHANNEL");
  command
      .add_option("--track", options.track,
                  "Audio track of a file that has several, counted from 1. The default, 0, is the "
                  "first one.")
      ->check(at_least(0));
  command.add_flag("--tokens", options.tokens,
                   "Add the tokens with their times to JSON and TextGrid output.");
  command
      .add_option("--pause", options.pause,
                  "Seconds without a word that end a segment in subtitles, STM and JSON.")
      ->check(above_zero());
  command
      .add_option("--long-above", options.cuts.long_above,
                  "Length in seconds above which a file is cut into chunks at quiet places, which "
                  "bounds memory. 0: every file is cut.")
      ->check(at_least(0));
  command
      .add_option("--chunk", options.cuts.chunk_seconds,
                  "Largest length of the chunks of long files, in seconds.")
      ->check(between(0.5, 3600.0));
  command
      .add_option("--context", options.cuts.context_seconds,
                  "Audio on either side of a chunk that is encoded with it, in seconds.")
      ->check(between(0.0, 3600.0));
}

void add_files(CLI::App& command, SpeechOptions& options) {
  command
      .add_option("files", options.files,
                  "Audio or video files, folders, patterns such as '*.mp3', manifests (.json, "
                  ".jsonl), or - for standard input.")
      ->required();
}

void add_transcribe(CLI::App& app, int& code) {
  const auto options = std::make_shared<TranscribeOptions>();
  auto* command = app.add_subcommand("transcribe", "Transcribe audio and video files.");
  add_model(*command, *options);
  command->add_option("--decoder", options->decoder, kDecoderHelp);
  command->add_option("--options", options->decoder_options, kDecoderOptionsHelp);
  command
      ->add_option("--boost", options->boost,
                   "File of phrases to make more likely (contextual biasing). Each line is a "
                   "phrase, or a phrase, a tab and its weight.")
      ->type_name("FILE");
  command
      ->add_option("--boost-phrase", options->boost_phrases,
                   "Phrase to make more likely, beside those of --boost. May be repeated.")
      ->allow_extra_args(false);  // what follows are files
  command
      ->add_option("--allowed", options->allowed,
                   "Letters that texts may contain: a script (latin), a range (U+0400-U+04FF) or a "
                   "single character. Digits and punctuation stay allowed. May be repeated.")
      ->allow_extra_args(false);
  command->add_option("--plugins", options->plugins, kPluginsHelp)
      ->delimiter(',')
      ->allow_extra_args(false);
  add_machine(*command, *options);
  auto* const format = add_output(*command, *options);
  command->add_flag(
      "--confidence", options->confidence,
      "Add the model's confidence in each word, from 0 to 1, to JSON, CTM and TSV output.");
  command->add_option("--confidence-options", options->confidence_options,
                      "Options of the confidence as a JSON object (see "
                      "docs/reference/transcripts.md). Implies --confidence.");
  command
      ->add_option("--nbest", options->nbest,
                   "Number of hypotheses for each file, in the JSON field \"alternatives\". Needs "
                   "a decoder that returns n-best lists. Without --decoder, rtfx chooses one.")
      ->check(at_least(1));
  command->add_flag("--mbr", options->mbr,
                    "Choose the hypothesis with the fewest expected word errors, instead of the "
                    "most probable one. Needs --nbest.");
  add_details(*command, *options);
  command
      ->add_option("--decode-again", options->decode_again,
                   "Decode again a stretch of this many seconds that has no token, but at least "
                   "1.5 s of speech. For a recording that is not cut and has no token, 0.5 s of "
                   "speech is enough, whatever its length. In chunks of long files, half the "
                   "seconds are enough. 0: never.")
      ->check(between(0.0, 3600.0));
  auto* const json =
      command
          ->add_flag("--json", options->json,
                     "Print the decoder's hypotheses, one JSON object on each line: file, text, "
                     "tokens, frames and more.")
          ->excludes(format);
  // These options are for the formats.
  for (const char* name :
       {"--output", "--confidence", "--confidence-options", "--tokens", "--pause"})
    json->excludes(command->get_option(name));
  add_files(*command, *options);
  command->callback([options, &code] { code = transcribe(*options); });
}

void add_align(CLI::App& app, int& code) {
  const auto options = std::make_shared<AlignOptions>();
  auto* command = app.add_subcommand("align",
                                     "Find the times at which the words of given texts are said in "
                                     "audio files (forced alignment).");
  add_model(*command, *options);
  command
      ->add_option("--text", options->text,
                   "File with the text. For several recordings, it has one line for each, in their "
                   "order (default: the texts of the manifests).")
      ->type_name("FILE");
  command
      ->add_option("--head", options->head,
                   "Head of the model that aligns the text. auto: ctc where the model has a CTC "
                   "head, else transducer.")
      ->check(CLI::IsMember({"auto", "ctc", "transducer"}));
  command
      ->add_option("--band", options->band,
                   "Largest distance in seconds between a transducer's path and the CTC path, or "
                   "the greedy result where there is no CTC head. 0: no limit.")
      ->check(between(0.0, 1e6));
  add_machine(*command, *options);
  add_output(*command, *options);
  add_details(*command, *options);
  add_files(*command, *options);
  command->callback([options, &code] { code = align(*options); });
}

}  // namespace

void add_speech_commands(CLI::App& app, int& code) {
  add_transcribe(app, code);
  add_align(app, code);
}

}  // namespace rtfx
