#include "speech/long_audio/long_audio.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "base/error.h"
#include "speech/long_audio/chunks.h"
#include "speech/pipeline/overlapped_pipeline.h"
#include "speech/pipeline/pipeline.h"
#include "speech/runtime/device.h"
#include "speech/runtime/stages.h"

namespace rtfx {
namespace {

/// A beam may still emit tokens for this number of past frames, although its best hypothesis is
/// further.
constexpr int64_t kKeptFrames = 25;

/// The number of batches of chunks in flight on a GPU. One is read, one is copied to the device,
/// one is encoded, and one is searched. On a CPU, they would compete for threads.
constexpr size_t kChunkBatchesInFlight = 4;

/// Appends the tokens `order` of `from` to `to`, moved by `frames`.
void append(const LongResult& from, const std::vector<size_t>& order, int64_t frames,
            LongResult& to) {
  const Hypothesis& h = from.hypothesis;
  for (const size_t i : order) {
    to.hypothesis.tokens.push_back(h.tokens[i]);
    to.hypothesis.frames.push_back(h.frames[i] + static_cast<int32_t>(frames));
    if (!h.durations.empty()) to.hypothesis.durations.push_back(h.durations[i]);
    if (!from.evidence.runs.empty()) to.evidence.runs.push_back(from.evidence.runs[i]);
    if (!from.evidence.confidence.empty())
      to.evidence.confidence.push_back(from.evidence.confidence[i]);
  }
}

/// Appends all words of `from` to `to`, moved by `frames`.
void append_words(const Hypothesis& from, int64_t frames, Hypothesis& to) {
  if (!from.words) return;
  if (!to.words) to.words.emplace();
  for (const FoundWord& word : *from.words)
    to.words->push_back({word.text, word.frame + static_cast<int32_t>(frames)});
}

std::vector<size_t> all_of(const Hypothesis& h) {
  std::vector<size_t> order(h.tokens.size());
  std::iota(order.begin(), order.end(), size_t{0});
  return order;
}

}  // namespace

/// Chunks that one search decodes without starting over.
struct LongAudio::Section {
  std::optional<int64_t> stream;
  int64_t first = 0;  // frame
};

/// Chunks that are encoded together, and their frames with those of the contexts.
struct LongAudio::Batch {
  explicit Batch(const PipelineStreams* streams) : on_device(streams), done(streams) {}

  std::vector<AudioChunk> chunks;
  CopiedBatch copied;
  EncodedBatch frames;
  EndOfWork on_device, done;  // ends of copying and of encoding
};

/// The frames of each chunk without those of its context.
struct LongAudio::OwnFrames {
  EncodedBatch projected;  // [chunks, most frames, X]
  at::Tensor frames;       // [chunks, most frames, D] encoder frames, undefined unless requested
};

LongAudio::LongAudio(const LongAudioOptions& options, const AcousticModel& model,
                     RecordedEncoder& encoder, Decoder& decoder, const Confidence* confidence,
                     const Confidence* judge)
    : options_(options),
      model_(model),
      encoder_(encoder),
      clock_(model.device, RegionClock::Mode::overlapped),
      confidence_(confidence),
      judge_(judge),
      pipeline_(PipelineStreams::of(model.device)),
      block_(static_cast<size_t>(model.config.features.hop * model.config.encoder.factor())) {
  const auto frames =
      static_cast<int64_t>(std::ceil(options.chunk_seconds / model.config.frame_seconds()));
  synchronize(model.device);  // the decoder was prepared on another stream
  on_stream(pipeline_, &PipelineStreams::decode, [&] {
    streams_ = decoder.streams({options.batch, std::max<int64_t>(2, frames)});
  });
  if (streams_ == nullptr) {
    throw UserError(decoder.describe().name,
                    "takes no utterances in pieces, which long audio needs",
                    "choose another decoder, for example label_looping or ctc_greedy");
  }
}

double LongAudio::seconds(int64_t frame) const {
  return static_cast<double>(frame) * model_.config.frame_seconds();
}

size_t LongAudio::blocks(double seconds) const {
  return static_cast<size_t>(std::lround(seconds / model_.config.frame_seconds()));
}

void LongAudio::copy(Batch& batch) const {
  Clips clips;
  for (const AudioChunk& chunk : batch.chunks) clips.emplace_back(chunk.samples, options_.prompt);
  RegionTimes times;
  on_stream(pipeline_, &PipelineStreams::copy, [&] {
    batch.copied = copy_batch(model_, clips, clock_, times);
    batch.on_device.record(&PipelineStreams::copy);
  });
}

void LongAudio::encode(Batch& batch) {
  const std::lock_guard lock(encoding_);
  RegionTimes times;
  on_stream(pipeline_, &PipelineStreams::encode, [&] {
    batch.on_device.block(&PipelineStreams::encode);
    const CopiedBatch& copied = batch.copied;
    const Encoded encoded = encode_copied(model_, encoder_, copied, clock_, times);
    batch.frames = {encoded.frames, encoded.lengths, copied.lengths_host};
    batch.done.record(&PipelineStreams::encode);
  });
}

/// Waits until the batch is encoded. With `with_encoded`, also returns the encoder's frames.
LongAudio::OwnFrames LongAudio::own_frames(const Batch& batch, bool with_encoded) const {
  batch.done.wait();
  const std::vector<AudioChunk>& chunks = batch.chunks;
  OwnFrames own;
  for (const AudioChunk& chunk : chunks) own.projected.lengths_host.push_back(chunk.frames);
  const int64_t most = std::max<int64_t>(1, own.projected.longest());
  const auto without_contexts = [&](const at::Tensor& all) {
    at::Tensor result = at::zeros({all.size(0), most, all.size(2)}, all.options());
    for (size_t i = 0; i < chunks.size(); ++i) {
      const auto row = static_cast<int64_t>(i);
      result[row]
          .narrow(0, 0, chunks[i].frames)
          .copy_(all[row].narrow(0, chunks[i].left, chunks[i].frames));
    }
    return result;
  };
  own.projected.frames = without_contexts(streams_->project(batch.frames.frames));
  if (with_encoded) own.frames = without_contexts(batch.frames.frames);
  return own;
}

TokenEvidence LongAudio::evidence_of(const Confidence& confidence, const at::Tensor& frames,
                                     const Hypothesis& piece, Confidence::Before& before,
                                     LongResult& result) const {
  TokenEvidence found;
  RegionTimes times;
  clock_.measure(Region::confidence, 1, times,
                 [&] { found = confidence.piece_evidence(frames, piece, before); });
  result.confidence_seconds += times.seconds(Region::confidence);
  return found;
}

/// Adds the evidence of the first `tokens` tokens of `h`, the section's result. These tokens do not
/// change any more.
void LongAudio::add_evidence(StreamEvidence& gathered, const Hypothesis& h, size_t tokens,
                             LongResult& result) const {
  if (!gathered.frames.defined() || h.nan) return;
  RTFX_CHECK(tokens >= gathered.done, "tokens that were to stay are gone");
  LongResult all, piece;
  all.hypothesis = h;
  std::vector<size_t> next(tokens - gathered.done);
  std::iota(next.begin(), next.end(), gathered.done);
  append(all, next, -gathered.first, piece);
  for (int32_t& frame : piece.hypothesis.frames) frame = std::max(frame, 0);
  const TokenEvidence found =
      evidence_of(*confidence_, gathered.frames, piece.hypothesis, gathered.before, result);
  std::ranges::copy(found.runs, std::back_inserter(gathered.evidence.runs));
  std::ranges::copy(found.confidence, std::back_inserter(gathered.evidence.confidence));
  gathered.done = tokens;
  int64_t kept = gathered.first + gathered.frames.size(0) - kKeptFrames;
  if (tokens < h.frames.size()) kept = std::min<int64_t>(kept, h.frames[tokens]);
  const int64_t over = std::max<int64_t>(0, kept - gathered.first);
  gathered.frames = gathered.frames.slice(0, over).clone();
  gathered.first += over;
}

/// Ends a section. Returns its result and adds it to `result`.
Hypothesis LongAudio::close(const Section& section, LongResult& result) {
  LongResult own;
  own.hypothesis = streams_->finish(*section.stream);
  const Hypothesis& h = own.hypothesis;
  if (auto gathered = evidence_of_streams_.extract(*section.stream)) {
    add_evidence(gathered.mapped(), h, h.tokens.size(), result);
    if (!own.hypothesis.nan) own.evidence = std::move(gathered.mapped().evidence);
  }
  append(own, all_of(h), section.first, result);
  append_words(h, section.first, result.hypothesis);
  if (!h.nbest.empty()) {
    result.sections.push_back({section.first, h.nbest});
    for (Hypothesis& entry : result.sections.back().nbest) move_frames(entry, section.first);
  }
  result.hypothesis.score += h.score;
  result.hypothesis.nan |= h.nan;
  return h;
}

void LongAudio::search(const Batch& batch, Section& section, LongResult& result) {
  const std::vector<AudioChunk>& chunks = batch.chunks;
  const OwnFrames encoded = own_frames(batch, confidence_ != nullptr);
  // Chunks of one section are searched one after the other. Chunks of several sections are searched
  // together.
  struct Turn {
    int64_t stream, section;  // first frame of the section
    size_t wave;
  };
  std::vector<Turn> turns;
  size_t waves = 0;
  std::optional<Section> before;
  if (section.stream) before = section;
  for (const AudioChunk& chunk : chunks) {
    if ((chunk.behind_pause && options_.begin_anew) || !section.stream) {
      section = {streams_->open(), chunk.first};
      turns.push_back({*section.stream, section.first, 0});
    } else {
      turns.push_back({*section.stream, section.first, turns.empty() ? 0 : turns.back().wave + 1});
    }
    waves = std::max(waves, turns.back().wave + 1);
  }
  for (size_t wave = 0; wave < waves; ++wave) {
    std::vector<int64_t> streams, rows;
    EncodedBatch pieces;
    for (size_t i = 0; i < chunks.size(); ++i) {
      if (turns[i].wave != wave) continue;
      streams.push_back(turns[i].stream);
      rows.push_back(static_cast<int64_t>(i));
      pieces.lengths_host.push_back(chunks[i].frames);
    }
    const at::Tensor& all = encoded.projected.frames;
    pieces.frames = all.index_select(0, at::tensor(rows, at::kLong).to(all.device()));
    streams_->push(streams, pieces);
  }

  if (before && before->stream != turns.front().stream) close(*before, result);
  for (size_t i = 0; i < chunks.size(); ++i) {
    if (confidence_ != nullptr) {
      at::Tensor& heard = evidence_of_streams_[turns[i].stream].frames;
      const at::Tensor more = encoded.frames[static_cast<int64_t>(i)].slice(0, 0, chunks[i].frames);
      heard = heard.defined() ? at::cat({heard, more}) : more;
    }
    const bool ends = turns[i].stream != *section.stream &&
                      (i + 1 == chunks.size() || turns[i + 1].stream != turns[i].stream);
    const Section own{turns[i].stream, turns[i].section};
    Hypothesis said = ends ? close(own, result) : streams_->partial(*own.stream).best;
    for (int32_t& frame : said.frames) frame += static_cast<int32_t>(own.first - chunks[i].first);
    decode_again(chunks[i], said, result);
  }
  if (confidence_ == nullptr) return;
  const PartialResult so_far = streams_->partial(*section.stream);
  add_evidence(evidence_of_streams_[*section.stream], so_far.best,
               static_cast<size_t>(so_far.stable), result);
}

/// Decodes parts of a chunk again. `said` has the tokens of the section so far, with frames counted
/// from the chunk's first.
void LongAudio::decode_again(const AudioChunk& chunk, const Hypothesis& said, LongResult& result) {
  heard_.add(chunk.levels);
  std::vector<size_t> token_blocks;
  for (const int32_t frame : said.frames)
    if (frame >= 0 && frame < chunk.frames) token_blocks.push_back(static_cast<size_t>(frame));
  const WordlessRule rule{model_.config.frame_seconds(), options_.wordless_seconds};
  if (!has_wordless_run(chunk.levels.size(), token_blocks, rule)) return;
  const HeardAudio audio{chunk.samples, block_, static_cast<size_t>(chunk.left)};
  DecodeAgain again(audio, chunk.levels, heard_, token_blocks, rule, *model_.tokenizer);
  for (auto pieces = again.next(); !pieces.empty(); pieces = again.next())
    for (const AgainPiece& piece : pieces) again.take(piece, decode_alone(piece, result));
  for (AgainPart part : again.parts()) {
    const auto first = static_cast<size_t>(chunk.first);
    part.blocks = {part.blocks.begin + first, part.blocks.end + first};
    move_frames(part.found.hypothesis, chunk.first);
    decoded_again_.push_back(std::move(part));
  }
}

/// Inserts the tokens of parts that were decoded again among those of the search. When a part was
/// decoded, the search may not have decided on its words yet. If it has found words there since
/// then, they stay.
void LongAudio::insert_decoded_again(LongResult& result) const {
  for (const AgainPart& part : decoded_again_) {
    if (has_token_in(result.hypothesis, part.blocks)) continue;
    insert_part(part, result.hypothesis, result.evidence);
    result.again.push_back(part);
  }
}

/// Encodes the piece and searches its own frames, without earlier state. Waits for the device.
FoundTokens LongAudio::decode_alone(const AgainPiece& piece, LongResult& result) {
  Batch alone(pipeline_);
  AudioChunk& part = alone.chunks.emplace_back();
  part.samples = piece.samples;
  part.left = piece.context;
  part.frames =
      std::min(static_cast<int64_t>(piece.own.size()),
               model_.config.encoded_frames(static_cast<int64_t>(part.samples.size())) - part.left);
  FoundTokens found;
  if (part.frames <= 0) return found;
  copy(alone);
  encode(alone);
  const OwnFrames encoded = own_frames(alone, confidence_ != nullptr || judge_ != nullptr);
  const int64_t stream = streams_->open();
  streams_->push({&stream, 1}, encoded.projected);
  found.hypothesis = streams_->finish(stream);
  if (found.hypothesis.nan || found.hypothesis.tokens.empty()) return found;
  const auto evidence_by = [&](const Confidence& confidence) {
    Confidence::Before nothing;
    return evidence_of(confidence, encoded.frames[0], found.hypothesis, nothing, result);
  };
  if (confidence_ != nullptr) found.evidence = evidence_by(*confidence_);
  if (judge_ != nullptr) found.judged = evidence_by(*judge_).confidence;
  return found;
}

LongResult LongAudio::transcribe(const ChunkSource& source,
                                 const std::function<void(double)>& progress) {
  LongResult result;
  decoded_again_ = {};
  heard_ = {};
  evidence_of_streams_.clear();
  ChunkReader chunks(source, {block_, std::max<size_t>(2, blocks(options_.chunk_seconds)),
                              blocks(options_.context_seconds), [&](int64_t samples) {
                                return model_.config.encoded_frames(samples);
                              }});
  Section section;
  std::vector<Batch> batches;
  for (size_t i = 0; i < (pipeline_ == nullptr ? 1 : kChunkBatchesInFlight); ++i)
    batches.emplace_back(pipeline_);
  const auto batch = [&](size_t item) -> Batch& { return batches[item % batches.size()]; };
  const auto searching = [&](const auto& work) {
    on_stream(pipeline_, &PipelineStreams::decode, work);
  };
  synchronize(model_.device);  // weights and streams come from other streams
  try {
    run_stages(
        {{"rtfx load", [](size_t) {}},
         {"rtfx copy", [&](size_t i) { copy(batch(i)); }},
         {"rtfx encoder", [&](size_t i) { encode(batch(i)); }},
         {"rtfx search",
          [&](size_t i) {
            searching([&] { search(batch(i), section, result); });
            const AudioChunk& last = batch(i).chunks.back();
            if (progress) progress(seconds(last.first + last.frames));
          }}},
        batches.size(),
        [&](size_t i) {
          batch(i).chunks = chunks.next(static_cast<size_t>(options_.batch));
          return !batch(i).chunks.empty();
        },
        [&] { return std::make_shared<ThreadSettings>(model_.device); });
    searching([&] {
      if (section.stream) close(section, result);
    });
  } catch (...) {
    synchronize(model_.device);  // enqueued work uses the batches
    throw;
  }
  result.samples = chunks.samples();
  insert_decoded_again(result);
  if (result.hypothesis.nan) result.evidence = {};  // it lacks some tokens
  return result;
}

}  // namespace rtfx
