// Prints what `rtfx transcribe` and `rtfx align` do. Results go to standard output or to files, and
// everything else to standard error. A terminal also shows a line of progress, which the next line
// overwrites.
#pragma once

#include <chrono>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/notices.h"
#include "harness/cli/transcribe_files.h"
#include "models/tokenizers/tokenizer.h"
#include "speech/transcriber.h"

namespace rtfx {

/// Prints one line to standard error.
void print_notice(const std::string& notice);
void print_failure(const std::string& message);

/// Prints a notice if transcripts of `format` do not show what `option` asks for. `shown_by` are
/// the formats that do.
void tell_if_unseen(const std::string& option, const std::string& format,
                    std::initializer_list<const char*> shown_by);

struct PrinterOptions {
  std::string command;       // "transcribe" or "align", which names the work under way
  bool with_tokens = false;  // TranscribedFile::with_tokens
  /// If set, writes lines of to_json(Hypothesis) instead of a format.
  const Tokenizer* hypotheses = nullptr;
};

class TranscriptPrinter : public TranscriptionObserver {
 public:
  /// Starts the clock. `inputs` and `writer` must outlive this object.
  TranscriptPrinter(PrinterOptions options, const std::vector<TranscribeInput>& inputs,
                    TranscriptWriter& writer);
  ~TranscriptPrinter() override { clear_progress(); }

  size_t failed() const { return failed_; }

  /// Prints the notices about files, each kind once. Then prints how much was done and how fast,
  /// followed by `remark`.
  void print_end(double audio_seconds, const std::string& remark = "") const;

  void started(const std::vector<size_t>& batch) override;
  void reading(size_t index) override;
  void progress(size_t index, double seconds) override;
  void notice(size_t index, const std::string& text) override;
  void failure(size_t index, const std::string& message, bool bad_input) override;
  void result(size_t index, const Transcription& result) override;
  /// Returns true after an interrupt.
  bool stopped() override;

 private:
  void clear_progress() const;

  PrinterOptions options_;
  const std::vector<TranscribeInput>& inputs_;
  TranscriptWriter& writer_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  bool on_terminal_;
  Notices notices_;
  size_t done_ = 0, failed_ = 0;  // numbers of inputs
};

}  // namespace rtfx
