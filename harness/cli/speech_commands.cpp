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
  command
      .add_option("--model", options.model, ".nemo checkpoint, or folder of a Hugging Face model")
      ->required();
  command
      .add_option("--att-context-size", options.att_context_size,
                  "attention context of a cache-aware encoder: LEFT,RIGHT frames (see `rtfx "
                  "inspect`)")
      ->delimiter(',')
      ->allow_extra_args(false);  // what follows are files
  command.add_option("--language", options.language,
                     "of files whose manifest states none, for a prompt-conditioned model (see "
                     "`rtfx inspect`)");
}

void add_machine(CLI::App& command, SpeechOptions& options) {
  command.add_option("--device", options.device, "auto, cpu, cuda or cuda:N");
  command.add_option("--dtype", options.dtype, kDtypeHelp);
  command
      .add_option("--batch-size", options.batch_size,
                  "files decoded together; 0: one on a CPU, on a GPU as many as fit in its memory")
      ->check(at_least(0));
  command.add_option("--threads", options.threads, "CPU threads; 0: all that the process may use")
      ->check(between(0, kMaxThreads));
}

CLI::Option* add_output(CLI::App& command, SpeechOptions& options) {
  auto* const format = command
                           .add_option("--format", options.format,
                                       "txt; json: words with times; srt, vtt: subtitles; ctm, "
                                       "stm: for scoring; tsv; textgrid: for Praat")
                           ->check(CLI::IsMember(transcript_formats()));
  command
      .add_option("--output", options.output,
                  "folder of a file for each input; earlier ones there are kept as NAME.N")
      ->type_name("FOLDER");
  return format;
}

void add_details(CLI::App& command, SpeechOptions& options) {
  command
      .add_option("--channel", options.channel,
                  "mix (the average of all channels), a number from 1 on, or separate: a text for "
                  "each channel")
      ->type_name("CHANNEL");
  command
      .add_option("--track", options.track,
                  "audio track of a container that has several, from 1 on")
      ->check(at_least(1));
  command.add_flag("--tokens", options.tokens, "tokens with their times in JSON and TextGrid");
  command
      .add_option("--pause", options.pause,
                  "seconds without a word that end a segment of subtitles")
      ->check(above_zero());
  command
      .add_option("--long-above", options.long_above,
                  "seconds: longer files are cut, in pauses, and encoded a few chunks at a time")
      ->check(at_least(0));
  command.add_option("--chunk", options.chunk, "seconds of a chunk of theirs at most")
      ->check(between(0.5, 3600.0));
  command
      .add_option("--context", options.context, "seconds around a chunk that its encoder sees too")
      ->check(between(0.0, 3600.0));
}

void add_files(CLI::App& command, SpeechOptions& options) {
  command
      .add_option("files", options.files,
                  "audio or video files, folders of them, patterns, manifests (.json, .jsonl), "
                  "or - for standard input")
      ->required();
}

void add_transcribe(CLI::App& app, int& code) {
  const auto options = std::make_shared<TranscribeOptions>();
  auto* command = app.add_subcommand("transcribe", "print the text of audio files");
  add_model(*command, *options);
  command->add_option("--decoder", options->decoder, "see `rtfx list`");
  command->add_option("--options", options->decoder_options, "decoder options as a JSON object");
  command
      ->add_option("--boost", options->boost,
                   "file of phrases that are likely: one a line, with a tab and its weight")
      ->type_name("FILE");
  command
      ->add_option("--boost-phrase", options->boost_phrases,
                   "such a phrase; may be given several times")
      ->allow_extra_args(false);  // what follows are files
  command
      ->add_option("--allowed", options->allowed,
                   "characters that texts may have: a script (latin), a range (U+0400-U+04FF) or "
                   "a character; may be given several times")
      ->allow_extra_args(false);
  command
      ->add_option("--plugins", options->plugins,
                   "shared libraries with further decoders, with commas between them")
      ->delimiter(',')
      ->allow_extra_args(false);
  add_machine(*command, *options);
  auto* const format = add_output(*command, *options);
  command->add_flag("--confidence", options->confidence, "how sure the model is of each word");
  command->add_option("--confidence-options", options->confidence_options,
                      "the same, by a JSON object of options (docs/reference/transcripts.md)");
  command
      ->add_option("--nbest", options->nbest,
                   "texts in JSON's `alternatives`, by a decoder that has a list of them")
      ->check(at_least(1));
  command->add_flag("--mbr", options->mbr,
                    "choose the text with the fewest expected errors of the --nbest likeliest");
  add_details(*command, *options);
  command
      ->add_option("--decode-again", options->decode_again,
                   "seconds of speech without a word that are decoded again, half of it within a "
                   "chunk; 0: nothing is")
      ->check(between(0.0, 3600.0));
  command
      ->add_flag("--json", options->json,
                 "hypotheses of the decoder, one JSON object per line: file, text, tokens, "
                 "frames, ...")
      ->excludes(format)
      ->excludes(command->get_option("--output"));
  add_files(*command, *options);
  command->callback([options, &code] { code = transcribe(*options); });
}

void add_align(CLI::App& app, int& code) {
  const auto options = std::make_shared<AlignOptions>();
  auto* command =
      app.add_subcommand("align", "when the words of given texts are said in audio files");
  add_model(*command, *options);
  command
      ->add_option("--text", options->text,
                   "file with the text; for several files a line each. Without it, the texts of "
                   "manifests")
      ->type_name("FILE");
  command
      ->add_option("--head", options->head,
                   "whose path: ctc or transducer; auto: ctc where the model has it")
      ->check(CLI::IsMember({"auto", "ctc", "transducer"}));
  command
      ->add_option(
          "--band", options->band,
          "seconds that a transducer's path may be from the CTC head's, or from the greedy "
          "text's; 0: any distance")
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
