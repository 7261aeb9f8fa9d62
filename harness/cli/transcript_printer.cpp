#include "harness/cli/transcript_printer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "harness/machine/sudden_end.h"
#include "speech/runtime/stages.h"
#include "speech/transcript/formats.h"

namespace rtfx {

void print_notice(const std::string& notice) {
  print_message("rtfx: notice: {}\n", printable(notice));
}

void print_failure(const std::string& message) {
  print_message("rtfx: error: {}\n", printable(message));
}

void tell_if_unseen(const std::string& option, const std::string& format,
                    std::initializer_list<const char*> shown_by) {
  if (std::ranges::find(shown_by, format) != shown_by.end()) return;
  print_notice(fmt::format("{}: the format {} does not show it; these do: {}", option, format,
                           fmt::join(shown_by, ", ")));
}

TranscriptPrinter::TranscriptPrinter(PrinterOptions options,
                                     const std::vector<TranscribeInput>& inputs,
                                     TranscriptWriter& writer)
    : options_(std::move(options)),
      inputs_(inputs),
      writer_(writer),
      on_terminal_(isatty(STDERR_FILENO) != 0) {}

void TranscriptPrinter::clear_progress() const {
  if (on_terminal_) print_message("\r\033[K");
}

void TranscriptPrinter::print_end(double audio_seconds, const std::string& remark) const {
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin_;
  const double seconds = passed.count();
  clear_progress();
  for (const std::string& line : notices_.lines()) print_notice(line);
  print_message(
      "rtfx: {} of {} files, {:.1f} s of audio in {:.2f} s, reading included: RTFx {:.1f}{}\n",
      done_, inputs_.size(), audio_seconds, seconds, audio_seconds / seconds, remark);
}

void TranscriptPrinter::started(const std::vector<size_t>& batch) {
  set_under_way(fmt::format("rtfx {}, {}{}", options_.command, inputs_[batch.front()].name,
                            batch.size() == 1 ? "" : " and those of its batch"));
}

void TranscriptPrinter::reading(size_t index) {
  if (on_terminal_ && inputs_.size() > 1)
    print_message("\r{} of {} files\033[K", index, inputs_.size());
}

void TranscriptPrinter::progress(size_t, double seconds) {
  if (on_terminal_) print_message("\r{:.0f} s\033[K", seconds);
}

void TranscriptPrinter::notice(size_t index, const std::string& text) {
  notices_.add(inputs_[index].label(), text);
}

void TranscriptPrinter::failure(size_t, const std::string& message, bool) {
  clear_progress();
  ++failed_;
  print_failure(message);
}

void TranscriptPrinter::result(size_t index, const Transcription& result) {
  clear_progress();
  const TranscribeInput& input = inputs_[index];
  if (options_.hypotheses != nullptr) {
    nlohmann::json line = to_json(result.hypothesis, *options_.hypotheses);
    line["file"] = input.name;
    if (!input.id.empty()) line["id"] = input.id;
    if (input.segment.channel > 0) line["channel"] = input.segment.channel;
    if (const auto& again = result.transcript.decoded_again; !again.empty())
      line["decoded_again"] = to_json(again);
    fmt::print("{}", to_line(line));
    flush_output();
    ++done_;
    return;
  }
  try {
    writer_.put(input, {.file = input.name,
                        .id = input.id,
                        .label = input.label(),
                        .recording = input.recording,
                        .channel = input.segment.channel,
                        .seconds = result.seconds,
                        .transcript = result.transcript,
                        .reference = input.reference.value_or(""),
                        .has_reference = input.reference.has_value(),
                        .with_tokens = options_.with_tokens});
    ++done_;
  } catch (const UserError& error) {
    failure(index, error.what(), true);
  }
}

bool TranscriptPrinter::stopped() { return is_interrupted(); }

}  // namespace rtfx
