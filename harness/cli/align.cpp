#include "harness/cli/align.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/utf8.h"
#include "harness/cli/open_model.h"
#include "harness/cli/transcript_printer.h"
#include "speech/aligner.h"
#include "speech/runtime/device.h"
#include "speech/transcript/formats.h"

namespace rtfx {
namespace {

using GivenTexts = std::vector<std::optional<std::string>>;

/// Returns the text of each input. With one input, it is the whole file; with several, a line for
/// each. Throws UserError if there are more lines or fewer, and for text that is not UTF-8.
GivenTexts texts_of(const std::filesystem::path& file, const std::vector<TranscribeInput>& inputs) {
  const std::string text = read_text(file);
  require_utf8(text, file.string());
  if (inputs.size() == 1) return {text};
  GivenTexts lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (lines.size() != inputs.size()) {
    const char* const one =
        std::ranges::any_of(inputs, &TranscribeInput::separate) ? "channel" : "recording";
    throw UserError(file.string(),
                    fmt::format("{} line{} of text for {} {}s", lines.size(),
                                lines.size() == 1 ? "" : "s", inputs.size(), one),
                    fmt::format("write one line for each {}, in their order", one));
  }
  return lines;
}

/// Aligns all inputs. Returns whether each of them has a result. `listed` says that none is
/// missing.
bool align_all(const AlignOptions& options, const std::vector<TranscribeInput>& inputs,
               bool listed) {
  GivenTexts texts;
  if (!options.text.empty()) {
    if (!listed) {
      throw UserError("--text", "its lines belong to recordings of which some were not found",
                      "correct the names of the recordings");
    }
    texts = texts_of(options.text, inputs);
  } else {
    for (const TranscribeInput& input : inputs) texts.push_back(input.reference);
  }
  TranscriptWriter writer(transcript_format(options.format, "--format"), options.output,
                          inputs.size() > 1);
  if (options.tokens) tell_if_unseen("--tokens", options.format, {"json", "textgrid"});
  const DeviceScope scope(options.threads, options.device, "--device");
  const auto [checkpoint, dtypes] = open_model(options, scope.device());
  const Head head = alignment_head(checkpoint.config, head_named(options.head, "--head"), "--head");
  const std::shared_ptr<const AcousticModel> model =
      AcousticModel::build(checkpoint, scope.device(), dtypes);
  Aligner aligner(model, {.head = head,
                          .batch_size = options.batch_size,
                          .cuts = options.cuts,
                          .band_seconds = options.band,
                          .pause = options.pause});
  std::vector<Recording> recordings;
  for (const TranscribeInput& input : inputs)
    recordings.push_back({input.label(), input.audio, input.segment, {}, input.language});
  TranscriptPrinter printer({.command = "align", .with_tokens = options.tokens}, inputs, writer);
  printer.print_end(aligner.run(recordings, texts, printer));
  return printer.failed() == 0;
}

}  // namespace

int align(const AlignOptions& options) {
  return with_inputs(
      options, [&](const auto& inputs, bool listed) { return align_all(options, inputs, listed); });
}

}  // namespace rtfx
