// How `rtfx transcribe` and `rtfx align` tell what they do: results on standard output or in files,
// and everything else on standard error. A terminal also shows a line of progress, which the next
// one overwrites.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "base/notices.h"
#include "harness/cli/transcribe_files.h"
#include "models/tokenizers/tokenizer.h"
#include "speech/transcriber.h"

namespace rtfx {

/// One line on standard error.
void print_notice(const std::string& notice);
void print_failure(const std::string& message);

struct PrinterOptions {
  std::string command;                    // "transcribe", for who asks what is under way
  bool with_tokens = false;               // TranscribedFile::with_tokens
  const Tokenizer* hypotheses = nullptr;  // lines of to_json(Hypothesis) in place of a format
};

class TranscriptPrinter : public TranscriptionObserver {
 public:
  /// `inputs` and `writer` must outlive this. Time counts from here.
  TranscriptPrinter(PrinterOptions options, const std::vector<TranscribeInput>& inputs,
                    TranscriptWriter& writer);
  ~TranscriptPrinter() override { clear_progress(); }

  size_t failed() const { return failed_; }

  /// Prints what the files gave notice of, each kind once, and then how much was done and how fast.
  /// `remark` stands at the end.
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
  size_t done_ = 0, failed_ = 0;  // inputs
};

}  // namespace rtfx
