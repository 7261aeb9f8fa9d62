// The functions of library.h for recordings.
#include <fmt/format.h>

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/stop.h"
#include "python/handles.h"
#include "python/library.h"
#include "speech/aligner.h"
#include "speech/runtime/device.h"
#include "speech/transcriber.h"

struct rtfx_transcripts {
  std::vector<rtfx_transcript> list;
  rtfx::ViewMemory memory;
};

namespace rtfx {
namespace {

/// Collects the results until the caller asks to stop.
class Collector : public TranscriptionObserver {
 public:
  Collector(rtfx_transcripts& transcripts, size_t recordings, const Tokenizer& tokenizer,
            const int32_t& stop)
      : transcripts_(transcripts), tokenizer_(tokenizer), stop_(stop), notices_(recordings) {
    transcripts_.list.resize(recordings);
  }

  void notice(size_t recording, const std::string& text) override {
    notices_[recording].push_back(text);
  }
  void result(size_t recording, const Transcription& transcription) override {
    rtfx_transcript& transcript = transcripts_.list[recording];
    transcript.hypothesis = transcripts_.memory.view(transcription.hypothesis, tokenizer_);
    transcripts_.memory.view(transcription.transcript.words, transcript.word_count,
                             transcript.words);
    transcripts_.memory.view(transcription.transcript.decoded_again, transcript.again_count,
                             transcript.again);
  }
  void failure(size_t recording, const std::string& message, bool bad_input) override {
    rtfx_transcript& transcript = transcripts_.list[recording];
    transcript.failure = transcripts_.memory.view(message);
    transcript.bad_input = bad_input ? 1 : 0;
  }
  bool stopped() override { return __atomic_load_n(&stop_, __ATOMIC_RELAXED) != 0; }

  /// Makes the views of the notices. Call it when no further notice can come.
  void view_notices() {
    for (size_t i = 0; i < notices_.size(); ++i) {
      transcripts_.list[i].notice_count = std::ssize(notices_[i]);
      transcripts_.list[i].notices = transcripts_.memory.view(notices_[i]);
    }
  }

 private:
  rtfx_transcripts& transcripts_;
  const Tokenizer& tokenizer_;
  const int32_t& stop_;
  std::vector<std::vector<std::string>> notices_;
};

std::vector<Recording> recordings_of(std::span<const rtfx_recording> given) {
  std::vector<Recording> recordings;
  for (const rtfx_recording& one : given) {
    Recording& recording = recordings.emplace_back();
    recording.name = one.name;
    if (one.path != nullptr) {
      recording.audio = one.path;
    } else {
      recording.samples.emplace(one.samples, static_cast<size_t>(one.sample_count));
    }
  }
  return recordings;
}

void require_batch_size(int64_t size) {
  if (size < 0) throw UserError("batch_size", fmt::format("{}", size), "give 1 or more");
}

}  // namespace
}  // namespace rtfx

using namespace rtfx;

extern "C" {

rtfx_transcripts* rtfx_transcribe(rtfx_model* model, rtfx_decoder* decoder,
                                  const rtfx_recording* recordings, int64_t count,
                                  int64_t batch_size, int with_words, double decode_again,
                                  const int32_t* stop) {
  return guarded<rtfx_transcripts*>(nullptr, [&] {
    if (decoder->model != model->model)
      throw UserError("decoder", "of another model", "make one of the model that transcribes");
    require_batch_size(batch_size);
    const ThreadSettings settings(model->model->device);
    TranscriberOptions options;
    options.batch_size = batch_size;
    options.with_times = with_words != 0;
    options.decode_again = require_seconds(decode_again, "decode_again", 0, 3600);
    const auto prepared = [&](const PrepareDecoder&) { return decoder->decoder; };
    Transcriber transcriber(model->model, prepared, options, model->recorded);
    const auto inputs = recordings_of({recordings, static_cast<size_t>(count)});
    auto made = std::make_unique<rtfx_transcripts>();
    Collector collector(*made, inputs.size(), *model->model->tokenizer, *stop);
    // On a CPU this thread computes. A large batch takes minutes there, and the call does not wait
    // for it.
    const StopScope scope([&] { return collector.stopped(); });
    transcriber.run(inputs, collector);
    if (collector.stopped()) throw Interrupted();
    collector.view_notices();
    return made.release();
  });
}

rtfx_transcripts* rtfx_align(rtfx_model* model, const rtfx_recording* recordings,
                             const char* const* texts, int64_t count, const char* head,
                             int64_t batch_size, const int32_t* stop) {
  return guarded<rtfx_transcripts*>(nullptr, [&] {
    require_batch_size(batch_size);
    const ThreadSettings settings(model->model->device);
    AlignerOptions options;
    options.head = head_named(head, "head");
    options.batch_size = batch_size;
    Aligner aligner(model->model, options, model->recorded);
    const auto inputs = recordings_of({recordings, static_cast<size_t>(count)});
    const std::vector<std::optional<std::string>> given(texts, texts + count);
    auto made = std::make_unique<rtfx_transcripts>();
    Collector collector(*made, inputs.size(), *model->model->tokenizer, *stop);
    // On a CPU this thread computes. A large batch takes minutes there, and the call does not wait
    // for it.
    const StopScope scope([&] { return collector.stopped(); });
    aligner.run(inputs, given, collector);
    if (collector.stopped()) throw Interrupted();
    collector.view_notices();
    return made.release();
  });
}

int64_t rtfx_transcripts_list(const rtfx_transcripts* transcripts, const rtfx_transcript** list) {
  *list = transcripts->list.data();
  return std::ssize(transcripts->list);
}
void rtfx_transcripts_free(rtfx_transcripts* transcripts) { delete transcripts; }

}  // extern "C"
