#include "speech/transcriber.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <limits>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "algorithms/blank_penalty.h"
#include "base/error.h"
#include "speech/long_audio/decode_again.h"
#include "speech/long_audio/long_audio.h"
#include "speech/pipeline/encoder_memory.h"
#include "speech/pipeline/overlapped_pipeline.h"
#include "speech/pipeline/read_ahead.h"
#include "speech/runtime/device.h"
#include "speech/runtime/stages.h"

namespace rtfx {
namespace {

constexpr size_t kInFlight = 6;       // batches on a GPU
constexpr int64_t kChunksAtOnce = 8;  // least of a long recording, if they fit
constexpr int64_t kMostChunks = 64;   // the most, where the memory decides
// The pool holds the recordings of this many batches. They form batches together, the longest ones
// first. The first pools are small, so that the GPU has work early.
constexpr double kFirstPool = 0.25, kLargestPool = 4;

/// Returns the head that finds the decoder's tokens.
Head head_of(const Decoder& decoder, const AcousticModel& model) {
  const Head head = decoder.describe().head;
  if (head != Head::none) return head;
  return model.joint ? Head::transducer : Head::ctc;
}

}  // namespace

/// A recording, or a piece of one that is decoded again.
struct Transcriber::Job : Clip {
  std::optional<AgainPiece> again = {};
  size_t due = 0;  // number of the first batch that may hold the piece
};

/// A recording of which parts are decoded again.
struct Transcriber::Waiting {
  Job job;
  Decoded first;  // one row
  DecodeAgain again;
};

struct Transcriber::Parts {
  Parts(const std::shared_ptr<const AcousticModel>& model, std::shared_ptr<RecordedEncoder> shared)
      : encoder(shared ? std::move(shared)
                       : std::make_shared<RecordedEncoder>(model, /*graphs=*/true)),
        pipeline(model, *encoder, model->device.is_cuda() ? kInFlight : 1) {}

  std::shared_ptr<RecordedEncoder> encoder;
  OverlappedPipeline pipeline;  // one batch in flight on a CPU, whose threads all batches share
  std::shared_ptr<Decoder> decoder;
  std::optional<Confidence> confidence;  // also for the times of words
  std::optional<Confidence> judge;       // for parts that are decoded again; empty = none are
  int64_t free_bytes = 0;                // free before the first batch, to encode one
  int64_t batch_size = 1;
  double batch_seconds =
      std::numeric_limits<double>::infinity();  // seconds of a batch, with padding
  bool by_memory = false;                       // the size of a batch follows from the memory
};

/// The work of one call of run().
class Transcriber::Pass {
 public:
  Pass(const Transcriber& transcriber, const std::vector<Recording>& recordings,
       TranscriptionObserver& observer)
      : model_(*transcriber.model_),
        options_(transcriber.options_),
        parts_(*transcriber.parts_),
        recordings_(recordings),
        observer_(observer),
        pool_batches_(parts_.by_memory ? kFirstPool : 1),
        clips_(
            recordings.size(), read_ahead(), [this](size_t index) { return read(index); },
            [](const Job& job) { return job.bytes(); }) {}

  Totals run() {
    const Confidence* confidence = parts_.confidence ? &*parts_.confidence : nullptr;
    while (!stopped() && (clips_.more() || !pool_.empty() || all_pieces_due())) {
      parts_.pipeline.run(
          *parts_.decoder, [this](size_t, BatchInFlight& batch) { return fill(batch); },
          [this](size_t, BatchInFlight& batch) { finish(batch); }, confidence);
      if (long_clip_ && !stopped()) transcribe_long(*std::exchange(long_clip_, std::nullopt));
    }
    while (!waiting_.empty()) end_waiting(waiting_.begin()->first);  // if the pass was stopped
    tell([this] {
      for (const auto& [index, call] : ends_) call();  // they wait for others that will not end
      ends_.clear();
    });
    return totals_;
  }

 private:
  int sample_rate() const { return static_cast<int>(model_.config.features.sample_rate); }

  size_t readers() const { return reader_threads(model_.device); }

  /// Returns the limits of reading ahead. On a CPU, recordings that wait for the model would only
  /// take memory.
  ReadAheadLimits read_ahead() const {
    if (!model_.device.is_cuda()) return {.threads = readers(), .items = readers()};
    return {.threads = readers(), .items = kReadAheadRecordings, .bytes = kReadAheadBytes};
  }

  bool is_long(double seconds) const {
    return seconds > options_.cuts.long_above && parts_.decoder->describe().streams;
  }

  void require_memory(int64_t rows, double seconds, const std::string& where) const {
    const auto rate = static_cast<double>(model_.config.features.sample_rate);
    require_encoder_memory(model_, rows, static_cast<int64_t>(seconds * rate), parts_.free_bytes,
                           where);
  }

  /// Reads a recording. May be called from any thread.
  Job read(size_t index) const {
    return {read_clip(recordings_[index], index,
                      {.sample_rate = sample_rate(),
                       .prompts = &model_.config.prompt,
                       .is_long = [this](double seconds) { return is_long(seconds); },
                       .require_memory =
                           [this](double seconds, const std::string& where) {
                             require_memory(1, seconds, where);
                           }}),
            {}};
  }

  /// Calls the observer while no other thread does.
  template <class Call>
  void tell(const Call& call) {
    const std::lock_guard lock(mutex_);
    call();
  }

  bool stopped() {
    const std::lock_guard lock(mutex_);
    return observer_.stopped();
  }

  void tell_notices(size_t recording, const std::vector<std::string>& notices) {
    tell([&] {
      for (const std::string& notice : notices) observer_.notice(recording, notice);
    });
  }

  /// Reports the exception that is being handled.
  void tell_failure(size_t index) {
    const RecordingFailure failure = failure_of(recordings_[index]);
    fail_with(index, failure.message, failure.bad_input);
  }

  void fail(size_t index, const std::string& why, bool bad_input) {
    fail_with(index, recordings_[index].name + ": " + why, bad_input);
  }

  void fail_with(size_t index, const std::string& message, bool bad_input) {
    end(index, [this, index, message, bad_input] { observer_.failure(index, message, bad_input); });
  }

  /// Calls `call` when all earlier recordings have ended. `call` reports the end of a recording to
  /// the observer.
  void end(size_t index, std::function<void()> call) {
    const std::lock_guard lock(mutex_);
    ends_.emplace(index, std::move(call));
    for (; !ends_.empty() && ends_.begin()->first == ended_; ++ended_) {
      ends_.begin()->second();
      ends_.erase(ends_.begin());
    }
  }

  /// Reads the recordings from which the next batches are formed. Stops at a long one, which forms
  /// a batch alone.
  void fill_pool() {
    const auto most =
        static_cast<size_t>(std::max(1.0, pool_batches_ * static_cast<double>(parts_.batch_size)));
    double seconds = 0;
    size_t bytes = 0;
    while (clips_.more() && !long_clip_ && !stopped() && bytes < kReadAheadBytes &&
           pool_.size() < (parts_.batch_size == 1 ? 1 : most) &&
           seconds < pool_batches_ * parts_.batch_seconds) {
      const size_t index = clips_.index();
      tell([&] { observer_.reading(index); });
      try {
        Job job = clips_.next();
        if (job.is_long) {
          long_clip_ = std::move(job);
          break;
        }
        tell_notices(index, job.audio.notices);
        seconds += job.seconds();
        bytes += job.bytes();
        pool_.push_back(std::move(job));
      } catch (...) {
        tell_failure(index);
      }
    }
    std::ranges::stable_sort(pool_, std::ranges::greater(),
                             [](const Job& job) { return job.samples().size(); });
    pool_batches_ = std::min(kLargestPool, 2 * pool_batches_);
  }

  /// Returns whether a batch of this number of recordings is small enough. The longest one has
  /// `seconds`.
  bool is_batch(size_t recordings, double seconds) const {
    const auto rows = static_cast<int64_t>(recordings);
    if (rows > parts_.batch_size || seconds * static_cast<double>(rows) > parts_.batch_seconds)
      return false;
    if (!parts_.by_memory) return true;  // a batch without room is then an error
    const auto rate = static_cast<double>(model_.config.features.sample_rate);
    return fits_easily(model_, rows, static_cast<int64_t>(seconds * rate), parts_.free_bytes);
  }

  /// Makes all pieces due, because no batch is in flight. Returns whether there are pieces.
  bool all_pieces_due() {
    const std::lock_guard lock(mutex_);
    for (Job& piece : pieces_) piece.due = 0;
    return !pieces_.empty();
  }

  /// Forms a batch of pieces to decode again, if any are due. Due pieces belong to batches that
  /// must have ended by now, so that no batch depends on the timing of threads.
  bool fill_with_pieces(BatchInFlight& batch) {
    if (stopped()) return false;
    const std::lock_guard lock(mutex_);
    std::vector<Job> jobs;
    std::vector<size_t> indices;
    double longest = 0;
    while (!pieces_.empty() && pieces_.front().due <= formed_) {
      longest = std::max(longest, pieces_.front().seconds());
      if (!jobs.empty() && !is_batch(jobs.size() + 1, longest)) break;
      if (indices.empty() || indices.back() != pieces_.front().recording)
        indices.push_back(pieces_.front().recording);
      jobs.push_back(std::move(pieces_.front()));
      pieces_.pop_front();
    }
    if (jobs.empty()) return false;
    observer_.started(indices);
    const std::vector<Job>& kept = in_flight_.emplace_back(std::move(jobs));
    ++formed_;
    for (const Job& job : kept) batch.clips.push_back(job.of_batch());
    batch.judge = &*parts_.judge;
    require_memory(static_cast<int64_t>(kept.size()), longest, "batch size");
    return true;
  }

  /// Forms the next batch. Returns false where there are no recordings, where the next one is long,
  /// or where the observer has stopped the pass. An exception before a batch is formed, for example
  /// from the observer, leaves an empty batch in flight. With that batch, finish() ends the pass.
  bool fill(BatchInFlight& batch) {
    const size_t before = formed_;
    try {
      return fill_with_pieces(batch) || fill_with_recordings(batch);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (formed_ == before) {
        in_flight_.emplace_back();
        ++formed_;
      }
      throw;
    }
  }

  bool fill_with_recordings(BatchInFlight& batch) {
    while (pool_.empty() && clips_.more() && !long_clip_ && !stopped()) fill_pool();
    if (pool_.empty() || stopped()) return false;
    const double longest = pool_.front().seconds();
    std::vector<Job> jobs;
    do {
      jobs.push_back(std::move(pool_.front()));
      pool_.pop_front();
    } while (!pool_.empty() && is_batch(jobs.size() + 1, longest));
    std::vector<size_t> indices;
    for (const Job& job : jobs) indices.push_back(job.recording);
    const std::lock_guard lock(mutex_);
    observer_.started(indices);
    const std::vector<Job>& kept = in_flight_.emplace_back(std::move(jobs));
    ++formed_;
    for (const Job& job : kept) batch.clips.push_back(job.of_batch());
    require_memory(static_cast<int64_t>(kept.size()), longest, "batch size");
    return true;
  }

  void finish(BatchInFlight& batch) {
    std::vector<Job> jobs;
    tell([&] {
      jobs = std::move(in_flight_.front());
      in_flight_.pop_front();
      ++ended_batches_;
    });
    if (jobs.empty()) std::rethrow_exception(batch.failure);
    if (jobs.front().again) return finish_pieces(std::move(jobs), batch);
    if (batch.failure) {
      std::string why;
      bool bad_input = false;
      try {
        std::rethrow_exception(batch.failure);
      } catch (const UserError& error) {
        why = error.what();
        bad_input = true;
      } catch (...) {
        why = describe_failure();
      }
      for (const Job& job : jobs) fail(job.recording, why, bad_input);
      return;
    }
    totals_.confidence_seconds += batch.times.seconds(Region::confidence);
    for (size_t row = 0; row < jobs.size(); ++row) {
      Job& job = jobs[row];
      if (begin_again(job, batch.decoded, row)) continue;
      give(job.recording, job.seconds(), batch.decoded, row, {}, {});
    }
  }

  /// Searches for speech without words in the result of row `row`. If there is some, takes the job,
  /// requests its pieces and returns true.
  bool begin_again(Job& job, Decoded& decoded, size_t row) {
    Hypothesis& first = decoded.hypotheses[row];
    if (!parts_.judge || first.nan) return false;
    const auto block =
        static_cast<size_t>(model_.config.features.hop * model_.config.encoder.factor());
    const WordlessRule rule{model_.config.frame_seconds(), options_.decode_again, true};
    const std::vector<size_t> tokens(first.frames.begin(), first.frames.end());
    if (!has_wordless_run(job.samples().size() / block + 1, tokens, rule)) return false;
    std::vector<float> levels = block_levels(job.samples(), block);
    LevelHistogram heard;
    heard.add(levels);
    DecodeAgain again({job.samples(), block}, std::move(levels), heard, tokens, rule,
                      *model_.tokenizer);
    if (again.done()) return false;
    Decoded own;
    own.hypotheses.push_back(std::move(first));
    if (!decoded.evidence.empty()) own.evidence.push_back(std::move(decoded.evidence[row]));
    const size_t index = job.recording;
    ask_for(job, again.next());
    waiting_.emplace(index, Waiting{std::move(job), std::move(own), std::move(again)});
    return true;
  }

  /// Requests that pieces are decoded. `of` is the recording, or a piece of it.
  void ask_for(const Job& of, std::vector<AgainPiece> pieces) {
    const std::lock_guard lock(mutex_);
    for (AgainPiece& piece : pieces) {
      Job& job = pieces_.emplace_back();
      job.due = ended_batches_ - 1 + kInFlight;
      job.recording = of.recording;
      job.prompt = of.prompt;
      job.audio.samples = std::move(piece.samples);
      job.audio.sample_rate = sample_rate();
      job.again = std::move(piece);
    }
  }

  /// Takes the results of pieces. A piece that fails has no words, so that the recording's first
  /// result stays. The observer learns once for each recording in the batch why the batch failed.
  void finish_pieces(std::vector<Job> jobs, BatchInFlight& batch) {
    totals_.confidence_seconds += batch.times.seconds(Region::confidence);
    std::set<size_t> told;  // recordings whose failure was reported
    for (size_t row = 0; row < jobs.size(); ++row) {
      const size_t index = jobs[row].recording;
      const AgainPiece& piece = *jobs[row].again;
      DecodeAgain& again = waiting_.at(index).again;
      FoundTokens found;
      if (!batch.failure) {
        found.hypothesis = std::move(batch.decoded.hypotheses[row]);
        move_frames(found.hypothesis, -piece.context);
        if (!batch.decoded.evidence.empty() && !batch.decoded.evidence[row].empty())
          found.evidence = std::move(batch.decoded.evidence[row].front());
        if (!batch.judged[row].empty())
          found.judged = std::move(batch.judged[row].front().confidence);
      } else if (told.insert(index).second) {
        tell_notices(index, {"decoding a part again failed: " + why_failed(batch.failure)});
      }
      again.take(piece, std::move(found));
      ask_for(jobs[row], again.next());
      if (again.done()) end_waiting(index);
    }
  }

  /// Reports the first result of a recording, with the words that decoding again has found.
  void end_waiting(size_t index) {
    Waiting waiting = std::move(waiting_.extract(index).mapped());
    Hypothesis& best = waiting.first.hypotheses.front();
    std::vector<TokenEvidence> evidence(1 + best.nbest.size());
    const bool with_evidence = !waiting.first.evidence.empty();
    if (with_evidence) std::swap(evidence, waiting.first.evidence.front());
    evidence.resize(1 + best.nbest.size());
    for (const AgainPart& part : waiting.again.parts()) {
      insert_part(part, best, evidence.front());
      for (size_t i = 0; i < best.nbest.size(); ++i)
        insert_part(part, best.nbest[i], evidence[i + 1]);
    }
    if (with_evidence) std::swap(evidence, waiting.first.evidence.front());
    const std::vector<AgainPart>& parts = waiting.again.parts();
    give(index, waiting.job.seconds(), waiting.first, 0, {}, {parts.begin(), parts.end()});
  }

  static std::string why_failed(const std::exception_ptr& failure) {
    try {
      std::rethrow_exception(failure);
    } catch (...) {
      return describe_failure();
    }
  }

  /// Reads block by block. A file that only ffmpeg can decode is in memory already.
  void transcribe_long(Job job) {
    const size_t index = job.recording;
    tell([&] { observer_.started({index}); });
    try {
      LongAudioOptions options;
      options.chunk_seconds = options_.cuts.chunk_seconds;
      options.context_seconds = options_.cuts.context_seconds;
      options.batch = chunks_at_once(job);
      options.prompt = job.prompt;
      options.wordless_seconds = parts_.judge ? options_.decode_again / 2 : 0;
      LongAudio audio(options, model_, *parts_.encoder, *parts_.decoder,
                      parts_.confidence ? &*parts_.confidence : nullptr,
                      parts_.judge ? &*parts_.judge : nullptr);
      const int rate = sample_rate();
      LongClip samples(job, recordings_[index], rate, readers());
      const LongResult result = audio.transcribe(samples.source(), [&](double seconds) {
        tell([&] { observer_.progress(index, seconds); });
        if (stopped()) throw Interrupted();
      });
      tell_notices(index, samples.notices());
      Decoded decoded;
      decoded.hypotheses = {result.hypothesis};
      if (parts_.confidence) decoded.evidence = {{result.evidence}};
      totals_.confidence_seconds += result.confidence_seconds;
      give(index, static_cast<double>(result.samples) / rate, decoded, 0, result.sections,
           result.again);
    } catch (const Interrupted&) {
    } catch (...) {
      tell_failure(index);
    }
  }

  /// Returns how many chunks of a long recording are encoded together. On a GPU, they take as much
  /// memory as a batch, and no more than fit.
  int64_t chunks_at_once(const Job& job) const {
    const double padded =
        std::min(options_.cuts.chunk_seconds + 2 * options_.cuts.context_seconds, job.seconds());
    const int64_t wanted =
        parts_.by_memory
            ? std::min(kMostChunks, static_cast<int64_t>(parts_.batch_seconds / padded))
            : parts_.batch_size;
    return fitting_chunks(model_, std::max(wanted, kChunksAtOnce),
                          static_cast<int64_t>(padded * sample_rate()), parts_.free_bytes,
                          recordings_[job.recording].name);
  }

  /// Reports the result in row `row` of a batch to the observer.
  void give(size_t index, double seconds, const Decoded& decoded, size_t row,
            const std::vector<LongSection>& sections, const std::vector<WordlessPart>& again) {
    const Hypothesis& hypothesis = decoded.hypotheses[row];
    if (hypothesis.nan) {
      return fail(index, nan_problem(*parts_.decoder) + "; " + remedy_for_nan(model_), false);
    }
    totals_.audio_seconds += seconds;
    Transcription result{seconds, hypothesis, transcript(seconds, decoded, row, sections)};
    const double frame = model_.config.frame_seconds();
    for (const WordlessPart& part : again) {
      const DecodedAgain told{static_cast<double>(part.blocks.begin) * frame,
                              std::min(seconds, static_cast<double>(part.blocks.end) * frame),
                              part.words, part.decodes};
      result.transcript.decoded_again.push_back(told);
      tell_notices(index, {notice_of(told)});
    }
    end(index, [this, index, result] { observer_.result(index, result); });
  }

  Transcript transcript(double seconds, const Decoded& decoded, size_t row,
                        const std::vector<LongSection>& sections) const {
    const Hypothesis& hypothesis = decoded.hypotheses[row];
    const Tokenizer& tokenizer = *model_.tokenizer;
    if (!options_.with_times) {
      Transcript text;
      text.text = decoded.texts.empty() ? text_of(hypothesis, tokenizer) : decoded.texts[row];
      return text;
    }
    const auto evidence = [&](size_t entry) {
      return decoded.evidence.empty() ? TokenEvidence() : decoded.evidence[row][entry];
    };
    const TranscriptRules rules{
        .frame_seconds = model_.config.frame_seconds(),
        .audio_seconds = seconds,
        .pause = options_.pause,
        .aggregation = options_.confidence ? options_.confidence->aggregation : "min"};
    Transcript best = transcript_of(hypothesis, evidence(0), tokenizer, rules);
    for (size_t i = 0; i < hypothesis.nbest.size(); ++i) {
      best.alternatives.push_back(
          transcript_of(hypothesis.nbest[i], evidence(i + 1), tokenizer, rules));
    }
    for (const LongSection& section : sections) {
      const double start = static_cast<double>(section.first) * rules.frame_seconds;
      if (!best.sections.empty()) best.sections.back().end = start;
      best.sections.push_back({start, seconds, {}});
      for (const Hypothesis& entry : section.nbest)
        best.sections.back().alternatives.push_back(transcript_of(entry, {}, tokenizer, rules));
    }
    return best;
  }

  const AcousticModel& model_;
  const TranscriberOptions& options_;
  Parts& parts_;
  const std::vector<Recording>& recordings_;
  TranscriptionObserver& observer_;
  double pool_batches_;
  std::deque<Job> pool_;          // the longest recording comes first
  std::optional<Job> long_clip_;  // the recording after these, if it is long
  Totals totals_;
  std::map<size_t, Waiting> waiting_;      // by recording; only the sink's thread uses it
  std::mutex mutex_;                       // guards the members below and calls of the observer
  std::list<std::vector<Job>> in_flight_;  // batches without a result
  std::deque<Job> pieces_;                 // pieces to decode again
  size_t formed_ = 0, ended_batches_ = 0;
  std::map<size_t, std::function<void()>> ends_;  // of recordings that wait for earlier ones
  size_t ended_ = 0;                              // recordings whose end was reported
  ReadAhead<Job> clips_;  // must be the last member: its threads use the others
};

Transcriber::Transcriber(std::shared_ptr<const AcousticModel> model, const ChooseDecoder& choose,
                         const TranscriberOptions& options,
                         std::shared_ptr<RecordedEncoder> encoder)
    : model_(std::move(model)),
      options_(options),
      parts_(std::make_unique<Parts>(model_, std::move(encoder))) {
  const bool gpu = model_->device.is_cuda();
  if (options.batch_size > 0) {
    parts_->batch_size = options.batch_size;
  } else if (gpu) {
    parts_->batch_size = kMostRecordings;
    parts_->by_memory = true;
  }
  parts_->decoder = choose([this](Decoder& decoder) { parts_->pipeline.prepare(decoder, {}); });
  const auto scored = with_blank_penalty(model_, blank_penalty_of(*parts_->decoder));
  if (options.with_times || options.confidence)
    parts_->confidence.emplace(scored, head_of(*parts_->decoder, *model_), options.confidence);
  // The confidence measure that the user selects must not decide which words are kept.
  if (options.decode_again > 0 && parts_->decoder->describe().head != Head::none)
    parts_->judge.emplace(scored, parts_->decoder->describe().head, ConfidenceOptions());
  parts_->free_bytes = free_memory(model_->device);
  if (parts_->by_memory)
    parts_->batch_seconds = fitting_batch_seconds(*model_, parts_->free_bytes, kInFlight);
}

Transcriber::~Transcriber() = default;

Transcriber::Totals Transcriber::run(const std::vector<Recording>& recordings,
                                     TranscriptionObserver& observer) {
  return Pass(*this, recordings, observer).run();
}

}  // namespace rtfx
