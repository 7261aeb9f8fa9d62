#include "speech/streams/speech_streams.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "base/error.h"
#include "models/streaming/encoder_streams.h"
#include "speech/pipeline/pipeline.h"
#include "speech/pipeline/recorded_encoder.h"

namespace rtfx {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

std::unique_ptr<Streams> open_search(Decoder& decoder, const StreamLimits& limits) {
  auto search = decoder.streams(limits);
  if (search == nullptr) {
    throw UserError(decoder.describe().name, "takes no utterances in pieces",
                    "choose another decoder, for example label_looping or ctc_greedy");
  }
  return search;
}

SpeechStreams::SpeechStreams(std::shared_ptr<const AcousticModel> model, Decoder& decoder,
                             const StreamOptions& encoder, EndpointRules rules,
                             double wordless_seconds)
    : model_(std::move(model)),
      rules_(std::move(rules)),
      wordless_seconds_(wordless_seconds),
      block_(model_->config.features.hop * model_->config.encoder.factor()) {
  if (!(wordless_seconds >= 0 && wordless_seconds <= kMostWordlessSeconds)) {
    throw UserError("wordless_seconds", fmt::format("is {}", wordless_seconds),
                    fmt::format("it may be 0 to {}", kMostWordlessSeconds));
  }
  StreamOptions options = encoder;
  if (model_->device.is_cuda()) options.recorder = record_step;
  encoder_ = make_encoder_streams(model_, options);
  chunk_ = std::max<int64_t>(1, encoder_->chunk_samples() / block_);
  rows_ = encoder.rows > 0 ? encoder.rows : encoder.streams;
  search_ = open_search(decoder, {rows_, std::max<int64_t>(1, encoder_->most_frames())});
}

int64_t SpeechStreams::open(std::optional<int64_t> prompt) {
  const int64_t number = encoder_->open(prompt);
  Stream& opened = streams_.emplace(number, Stream{number, kNone, prompt}).first->second;
  numbers_.emplace(number, number);
  try {
    opened.search = search_->open();
    if (rules_.detector) opened.voice.emplace(rules_.detector);
  } catch (...) {
    close(number);
    throw;
  }
  return number;
}

void SpeechStreams::close(int64_t stream) {
  release(find(stream));
  streams_.erase(stream);
}

void SpeechStreams::release(Stream& stream) {
  const int64_t encoder = std::exchange(stream.encoder, kNone);
  const int64_t search = std::exchange(stream.search, kNone);
  numbers_.erase(encoder);
  if (encoder != kNone) encoder_->close(encoder);
  if (search != kNone) search_->close(search);
}

template <class Work>
void SpeechStreams::attempt(int64_t number, std::exception_ptr& failure, const Work& work) {
  try {
    work();
  } catch (...) {
    if (!failure) failure = std::current_exception();
    release(find(number));  // the encoder no longer serves it
  }
}

/// Finds a stream by its number. The encoder also has streams with numbers that were never returned
/// to a caller.
SpeechStreams::Stream& SpeechStreams::find(int64_t stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) {
    throw UserError(fmt::format("stream {}", stream), "is not open",
                    "open() gives the numbers of streams");
  }
  return found->second;
}

SpeechStreams::Stream& SpeechStreams::working(int64_t stream) {
  Stream& found = find(stream);
  if (found.encoder == kNone || found.search == kNone)
    throw UserError(fmt::format("stream {}", stream), "has failed", "close it");
  return found;
}

void SpeechStreams::push(std::span<const NewSamples> all) {
  std::vector<NewSamples> encoders;
  for (const auto& [stream, samples] : all) encoders.push_back({working(stream).encoder, samples});
  encoder_->push(encoders);
  // The encoder has the samples of all streams now, so each stream must take its own.
  std::exception_ptr failure;
  for (const NewSamples& one : all) {
    attempt(one.stream, failure, [&] {
      Stream& open = find(one.stream);
      if (wordless_seconds_ > 0) open.kept_audio.audio.push(one.samples);
      if (!open.voice) return;
      const auto begin = Clock::now();
      open.voice->push(one.samples);
      detector_seconds_ += seconds_since(begin);
    });
  }
  if (failure) std::rethrow_exception(failure);
}

void SpeechStreams::finish(int64_t stream) {
  Stream& finished = working(stream);
  encoder_->finish(finished.encoder);
  finished.kept_audio.audio.finish();
}

void SpeechStreams::set_bias(int64_t stream, std::shared_ptr<const CompiledBias> bias) {
  Stream& biased = working(stream);
  search_->set_bias(biased.search, bias);
  biased.bias = std::move(bias);
}

PartialResult SpeechStreams::partial(int64_t stream) {
  const Stream& open = working(stream);
  return joined(open, search_->partial(open.search));
}

std::vector<SpeechUpdate> SpeechStreams::step(bool partial) {
  const auto begin = Clock::now();
  // The host prepares the search while the device encodes.
  const RegionClock clock(model_->device, RegionClock::Mode::overlapped);
  RegionTimes times;
  EncodedPieces pieces;
  clock.measure(Region::encoder, static_cast<size_t>(rows_), times,
                [&] { pieces = encoder_->step(); });
  if (pieces.empty()) return std::exchange(kept_, {});
  std::vector<int64_t> searches;
  for (const int64_t stream : pieces.streams)
    searches.push_back(streams_.at(numbers_.at(stream)).search);
  at::Tensor projected = search_->project(pieces.frames.to(model_->dtype));
  drop_contexts(pieces, projected);
  std::vector<SpeechUpdate> updates;
  std::exception_ptr failure;  // of one stream; the others go on
  if (rules_.any()) {
    search_in_parts(pieces, projected, updates, failure);
  } else {
    search_->push(searches, {projected, {}, pieces.lengths});
    for (size_t row = 0; row < pieces.streams.size(); ++row) {
      const int64_t number = numbers_.at(pieces.streams[row]);
      attempt(number, failure, [&] {
        Stream& stream = streams_.at(number);
        stream.frames += pieces.lengths[row];
        updates.push_back(update(number, stream, pieces.last[row], partial));
      });
    }
  }
  for (const SpeechUpdate& update : updates) {
    if (!update.closed) continue;
    const int64_t encoder = find(update.stream).encoder;
    encoder_->close(encoder);
    numbers_.erase(encoder);
    streams_.erase(update.stream);
  }
  times.settle();
  const auto& seconds = model_->device.is_cuda() ? times.device : times.host;
  const double encoder = seconds[static_cast<size_t>(Region::encoder)];
  encoder_seconds_ += encoder;
  search_seconds_ += seconds_since(begin) - encoder;
  std::ranges::move(updates, std::back_inserter(kept_));
  if (failure) std::rethrow_exception(failure);
  return std::exchange(kept_, {});
}

void SpeechStreams::drop_contexts(EncodedPieces& pieces, at::Tensor& projected) {
  bool copied = false;
  for (size_t row = 0; row < pieces.streams.size(); ++row) {
    Stream& stream = streams_.at(numbers_.at(pieces.streams[row]));
    const int64_t dropped = std::min(stream.skip, pieces.lengths[row]);
    if (dropped == 0) continue;
    if (!std::exchange(copied, true)) projected = projected.clone();
    stream.skip -= dropped;
    pieces.lengths[row] -= dropped;
    at::Tensor frames = projected[static_cast<int64_t>(row)];
    const int64_t left = pieces.lengths[row];
    if (left > 0) frames.narrow(0, 0, left).copy_(frames.narrow(0, dropped, left).clone());
  }
}

void SpeechStreams::search_in_parts(const EncodedPieces& pieces, const at::Tensor& projected,
                                    std::vector<SpeechUpdate>& updates,
                                    std::exception_ptr& failure) {
  struct Row {
    int64_t row, number;
    int64_t done = 0, part = 0;  // frames
  };
  std::vector<Row> rows;
  for (size_t row = 0; row < pieces.streams.size(); ++row)
    rows.push_back({static_cast<int64_t>(row), numbers_.at(pieces.streams[row])});
  while (!rows.empty()) {
    std::vector<int64_t> searches, lengths;
    int64_t longest = 0;
    bool whole = true;  // all frames of all rows are searched
    for (Row& row : rows) {
      const Stream& stream = streams_.at(row.number);
      const int64_t all = pieces.lengths[static_cast<size_t>(row.row)];
      row.part = std::min(all - row.done, frames_to_end(stream));
      whole = whole && row.part == all;
      searches.push_back(stream.search);
      lengths.push_back(row.part);
      longest = std::max(longest, row.part);
    }
    // A stream may end without a further frame.
    if (longest > 0 && whole && rows.size() == pieces.streams.size()) {
      search_->push(searches, {projected, {}, lengths});
    } else if (longest > 0) {
      at::Tensor parts =
          at::empty({std::ssize(rows), longest, projected.size(2)}, projected.options());
      for (size_t i = 0; i < rows.size(); ++i) {
        const auto& [row, number, done, part] = rows[i];
        if (part == 0) continue;
        parts[static_cast<int64_t>(i)]
            .narrow(0, 0, part)
            .copy_(projected[row].narrow(0, done, part));
      }
      search_->push(searches, {parts, {}, lengths});
    }
    std::vector<Row> unfinished;
    for (Row& row : rows) {
      attempt(row.number, failure, [&] {
        Stream& stream = streams_.at(row.number);
        stream.frames += row.part;
        row.done += row.part;
        const auto index = static_cast<size_t>(row.row);
        const bool done = row.done == pieces.lengths[index];
        const int64_t encoder = stream.encoder;
        SpeechUpdate found = update(row.number, stream, pieces.last[index] && done, true);
        // If a stream has started over, its remaining frames come again.
        const bool goes_on = !done && stream.encoder == encoder;
        if (found.ended() || !goes_on || !found.again.empty()) updates.push_back(std::move(found));
        if (goes_on) unfinished.push_back(row);
      });
    }
    rows = std::move(unfinished);
  }
}

namespace {

/// Frames without a token before the detector may end an utterance, so that no word is cut. A model
/// may emit the tokens of a word a little late, and those of the next word before the detector
/// hears it.
constexpr int64_t kSettledFrames = 2;

}  // namespace

std::optional<int64_t> SpeechStreams::end_in_silence(const Stream& stream, const Silence& silence,
                                                     int64_t frame) const {
  if (silence.begin <= stream.first * block_) return std::nullopt;  // of an earlier utterance
  const auto samples = static_cast<int64_t>(
      std::llround(rules_.silence * static_cast<double>(model_->config.features.sample_rate)));
  const int64_t enough = (silence.begin + samples + block_ - 1) / block_ - stream.first;
  const int64_t end = std::max(frame, enough);
  if ((stream.first + end) * block_ >= silence.until) return std::nullopt;
  return end;
}

int64_t SpeechStreams::frames_to_end(const Stream& stream) const {
  if (!rules_.tokens.empty()) return 1;
  // Without a token so far, the first one may come in the next frame.
  const int64_t from = stream.last_end < 0 ? stream.frames + 1 : stream.last_end;
  int64_t end = std::numeric_limits<int64_t>::max();
  if (rules_.pause > 0) end = from + rules_.pause;
  if (stream.voice) {
    const int64_t settled = std::max(from + kSettledFrames, stream.frames + 1);
    for (const Silence& silence : stream.voice->silences())
      if (const auto frame = end_in_silence(stream, silence, settled)) end = std::min(end, *frame);
  }
  return std::max<int64_t>(1, end - stream.frames);
}

EndpointRule SpeechStreams::endpoint_rule(const Stream& stream, const Hypothesis& best) const {
  if (std::ranges::any_of(best.tokens, [&](int32_t token) { return rules_.is_end(token); }))
    return EndpointRule::token;
  if (stream.last_end < 0) return EndpointRule::none;
  const int64_t since_token = stream.frames - stream.last_end;
  if (rules_.pause > 0 && since_token >= rules_.pause) return EndpointRule::pause;
  if (!stream.voice || since_token < kSettledFrames) return EndpointRule::none;
  const bool silent = std::ranges::any_of(stream.voice->silences(), [&](const Silence& silence) {
    return end_in_silence(stream, silence, stream.frames) == stream.frames;
  });
  return silent ? EndpointRule::vad : EndpointRule::none;
}

int64_t end_of(const Hypothesis& h) {
  if (h.tokens.empty()) return -1;
  const int64_t last = h.frames.back();
  return last + (h.durations.empty() ? 1 : std::max(1, h.durations.back()));
}

SpokenTime spoken_time(const SpeechUpdate& update, double frame_seconds, double heard) {
  const Hypothesis& best = update.result.best;
  const auto time = [&](int64_t frame) {
    return std::min(static_cast<double>(update.first + frame) * frame_seconds, heard);
  };
  return {time(best.frames.empty() ? 0 : best.frames.front()),
          time(std::max<int64_t>(0, end_of(best)))};
}

std::string ended_by(const SpeechUpdate& update, const Tokenizer& tokenizer) {
  if (update.rule == EndpointRule::token && update.end_token >= 0)
    return tokenizer.piece(update.end_token);
  return std::string(name_of(update.rule));
}

SpeechUpdate SpeechStreams::update(int64_t number, Stream& stream, bool last, bool partial) {
  SpeechUpdate update;
  update.stream = number;
  update.rule = last ? EndpointRule::stream : EndpointRule::none;
  update.closed = last;
  update.first = stream.first;
  update.frames = stream.frames;
  if (wordless_seconds_ > 0) hear(stream);
  if (stream.voice) {  // A stream may start over from this number of frames before.
    const int64_t kept = stream.first + stream.frames - kept_frames() - context_frames();
    stream.voice->forget(kept * block_);
  }
  const bool watches = may_be_wordless(stream, last);
  if (watches || (!last && (partial || rules_.any()))) {
    update.result = joined(stream, search_->partial(stream.search));
    const Hypothesis& best = update.result.best;
    stream.last_end = end_of(best);
    stream.has_tokens = stream.has_tokens || std::ranges::any_of(best.tokens, [&](int32_t token) {
                          return !rules_.is_end(token);
                        });
    if (!last) update.rule = endpoint_rule(stream, best);
  }
  if (watches && start_over(number, stream, last, update)) {
    update.rule = EndpointRule::none;
    update.closed = false;
    return update;
  }
  if (update.ended()) end_utterance(stream, update);
  return update;
}

void SpeechStreams::end_utterance(Stream& stream, SpeechUpdate& update) {
  DividedHypothesis result;
  Hypothesis found = search_->finish(stream.search);
  stream.search = kNone;
  result.before = joined(stream, std::move(found));
  const bool by_token = update.rule == EndpointRule::token;
  if (!rules_.tokens.empty()) {
    DividedHypothesis divided = divide_at_end_token(result.before, rules_, *model_->tokenizer);
    // A search that ranks its texts anew at the end may find another end token, or none. Tokens
    // after it then stay in the utterance.
    if (by_token || divided.behind.tokens.empty()) {
      result = std::move(divided);
      if (result.token >= 0) update.rule = EndpointRule::token;
      update.end_token = result.token;
    } else {
      remove_end_tokens(result.before, rules_, *model_->tokenizer);
    }
  }
  update.result.best = std::move(result.before);
  update.result.stable = std::ssize(update.result.best.tokens);
  if (update.closed) return;
  if (stream.again) {
    stream.again->words +=
        count_words(stream, update.result.best, stream.again->begin, stream.again->end);
  }
  stream.search = search_->open();
  if (stream.bias) search_->set_bias(stream.search, stream.bias);
  // Tokens after an end token, from frames that have been searched, begin the next utterance.
  const bool carries = !result.behind.tokens.empty();
  const int64_t ended = carries ? result.frame : stream.frames;
  move_frames(result.behind, -ended);
  stream.first += ended;
  stream.frames = stream.shift = stream.frames - ended;
  stream.before = carries ? std::move(result.behind) : Hypothesis();
  stream.last_end = end_of(stream.before);
}

// Streams that start over.

namespace {

constexpr int kMostStarts = 2;
constexpr double kContexts[kMostStarts] = {0.5, 1};   // least seconds before the part
constexpr int64_t kChunkParts[kMostStarts] = {2, 4};  // chunks are shifted by a half, a quarter

/// Appends `more` to `to`.
void append(const Hypothesis& more, Hypothesis& to) {
  const auto add = [](const auto& from, auto& list) {
    list.insert(list.end(), from.begin(), from.end());
  };
  add(more.tokens, to.tokens);
  add(more.frames, to.frames);
  add(more.durations, to.durations);
  to.score += more.score;
  to.nan = to.nan || more.nan;
  if (!more.words) return;
  if (!to.words) to.words.emplace();
  add(*more.words, *to.words);
}

/// Returns `before` with `h` appended. Its n-best list has `before` with each entry of that of `h`.
Hypothesis behind(const Hypothesis& before, const Hypothesis& h) {
  Hypothesis all = before;
  append(h, all);
  for (const Hypothesis& entry : h.nbest) all.nbest.push_back(behind(before, entry));
  return all;
}

}  // namespace

Hypothesis SpeechStreams::joined(const Stream& stream, Hypothesis result) const {
  if (stream.shift == 0 && stream.before == Hypothesis()) return result;
  move_frames(result, stream.shift);
  return behind(stream.before, result);
}

PartialResult SpeechStreams::joined(const Stream& stream, PartialResult result) const {
  result.stable += std::ssize(stream.before.tokens);
  result.best = joined(stream, std::move(result.best));
  return result;
}

int64_t SpeechStreams::count_words(const Stream& stream, const Hypothesis& result, int64_t begin,
                                   int64_t end) const {
  const auto inside = [&](int32_t frame) {
    return stream.first + frame >= begin && stream.first + frame < end;
  };
  if (result.words) {
    return std::ranges::count_if(*result.words,
                                 [&](const FoundWord& word) { return inside(word.frame); });
  }
  const std::vector<TokenWord> words = token_words(*model_->tokenizer, result.tokens);
  return std::ranges::count_if(words, [&](const TokenWord& word) {
    const auto frames = std::span(result.frames).subspan(word.first, word.count);
    return std::ranges::any_of(frames, inside);
  });
}

int64_t SpeechStreams::kept_frames() const {
  return static_cast<int64_t>(std::ceil(kMostWordlessSeconds / model_->config.frame_seconds()));
}

int64_t SpeechStreams::context_frames() const {
  return static_cast<int64_t>(kContexts[1] / model_->config.frame_seconds()) + chunk_ + 1;
}

/// The last known token may be an old one. The gap after it may therefore be shorter than it seems,
/// but never longer.
bool SpeechStreams::may_be_wordless(const Stream& stream, bool last) const {
  if (wordless_seconds_ <= 0) return false;
  if (last || stream.again) return true;
  const int64_t known =
      std::max(stream.first + std::max<int64_t>(0, stream.last_end), stream.looked_at);
  const int64_t gap = stream.first + stream.frames - known;
  return static_cast<double>(gap) * model_->config.frame_seconds() >= wordless_seconds_;
}

/// Takes the levels of the decoded frames, and forgets all that is not needed any more.
void SpeechStreams::hear(Stream& stream) {
  KeptAudio& kept_audio = stream.kept_audio;
  const int64_t done = stream.first + stream.frames;
  std::vector<float> block(static_cast<size_t>(block_));
  for (int64_t frame = kept_audio.first_level + std::ssize(kept_audio.levels); frame < done;
       ++frame) {
    const int64_t first = frame * block_;
    const int64_t count = std::clamp<int64_t>(kept_audio.audio.received() - first, 0, block_);
    const auto samples = std::span(block).first(static_cast<size_t>(count));
    kept_audio.audio.copy(first, samples);
    const std::vector<float> level = block_levels(samples, block.size());
    kept_audio.levels.push_back(level.empty() ? -100 : level.front());
    kept_audio.all.add(std::span(kept_audio.levels).last(1));
  }
  const int64_t kept = kept_frames();
  const int64_t spoken = stream.last_end < 0 ? stream.first : stream.first + stream.last_end;
  int64_t from = std::max(spoken, done - kept);
  if (stream.again) from = std::min(from, stream.again->begin);
  from -= context_frames();
  // Does so only from time to time, because each deletion moves the rest.
  const int64_t over = from - kept_audio.first_level;
  if (over < kept) return;
  kept_audio.levels.erase(kept_audio.levels.begin(), kept_audio.levels.begin() + over);
  kept_audio.first_level = from;
  kept_audio.audio.forget(from * block_);
}

std::optional<BlockRange> SpeechStreams::wordless(const Stream& stream, bool last) const {
  const KeptAudio& kept_audio = stream.kept_audio;
  const double frame_seconds = model_->config.frame_seconds();
  const int64_t done = stream.first + stream.frames;
  const int64_t spoken = stream.last_end < 0 ? stream.first : stream.first + stream.last_end;
  int64_t from = std::max({spoken, stream.looked_at, done - kept_frames()});
  if (kept_audio.first_level > 0) from = std::max(from, kept_audio.first_level + context_frames());
  if (from >= done) return std::nullopt;
  const auto levels =
      std::span(kept_audio.levels).subspan(from - kept_audio.first_level, done - from);
  const bool whole = last && from == 0 && !stream.has_tokens;
  const WordlessRule rule{frame_seconds, wordless_seconds_, whole};
  const auto parts = wordless_speech(levels, kept_audio.all, {}, rule);
  if (parts.empty()) return std::nullopt;
  const auto first = static_cast<size_t>(from);
  return BlockRange{parts.front().begin + first, parts.front().end + first};
}

bool SpeechStreams::start_over(int64_t number, Stream& stream, bool last, SpeechUpdate& update) {
  const Hypothesis& best = update.result.best;
  if (best.nan) return false;
  const int64_t done = stream.first + stream.frames;
  if (stream.again) {
    Again& again = *stream.again;
    if (done < again.end && !last) return false;
    again.words += count_words(stream, best, again.begin, again.end);
    // This does not apply where the stream has found words after the part.
    const int64_t spoken = stream.first + std::max<int64_t>(0, stream.last_end);
    if (again.words == 0 && spoken <= again.begin && again.decodes < kMostStarts) {
      start_over_at(number, stream, best, again.begin, again.decodes + 1);
      return true;
    }
    update.again.push_back({{static_cast<size_t>(again.begin), static_cast<size_t>(again.end)},
                            again.words,
                            again.decodes});
    if (again.words == 0) stream.looked_at = again.end;
    stream.again_end = again.end;
    stream.again_decodes = again.decodes;
    stream.again.reset();
  }
  std::optional<BlockRange> part = wordless(stream, last);
  const auto begins_again = [&] {
    return part && static_cast<int64_t>(part->begin) < stream.again_end;
  };
  if (begins_again() && stream.again_decodes == kMostStarts) {
    // This is the end of a part that has been tried often enough. The frames after it may be tried.
    const BlockRange left{part->begin, static_cast<size_t>(stream.again_end)};
    const double seconds = static_cast<double>(left.size()) * model_->config.frame_seconds();
    if (seconds >= wordless_seconds_) update.again.push_back({left, 0, stream.again_decodes});
    stream.looked_at = stream.again_end;
    part = wordless(stream, last);
  }
  if (!part) return false;
  start_over_at(number, stream, best, static_cast<int64_t>(part->begin),
                begins_again() ? stream.again_decodes + 1 : 1);
  return true;
}

/// Starts the stream over. The new chunks of the encoder begin between those that it had so far.
void SpeechStreams::start_over_at(int64_t number, Stream& stream, const Hypothesis& best,
                                  int64_t begin, int decodes) {
  const int64_t end = std::max(stream.first + stream.frames, stream.again ? stream.again->end : 0);
  const auto way = static_cast<size_t>(decodes - 1);
  const auto context = static_cast<int64_t>(kContexts[way] / model_->config.frame_seconds());
  const int64_t off = chunk_ / kChunkParts[way];
  const int64_t over = (begin - context - stream.origin - off) % chunk_;
  const int64_t origin = begin - context - (over < 0 ? over + chunk_ : over);

  // The stream keeps the tokens decided so far, not those that the search would find at an end of
  // the utterance.
  stream.before = best;
  stream.before.nbest.clear();
  search_->close(std::exchange(stream.search, kNone));
  stream.search = search_->open();
  numbers_.erase(stream.encoder);
  encoder_->close(std::exchange(stream.encoder, kNone));
  stream.encoder = encoder_->open(stream.prompt);
  numbers_.emplace(stream.encoder, number);
  stream.origin = origin;
  stream.skip = begin - origin;
  const StreamAudio& audio = stream.kept_audio.audio;
  std::vector<float> samples(static_cast<size_t>(audio.received() - origin * block_));
  audio.copy(origin * block_, samples);  // includes silence before the stream's begin
  encoder_->push(stream.encoder, samples);
  if (audio.finished()) encoder_->finish(stream.encoder);
  if (stream.bias) search_->set_bias(stream.search, stream.bias);
  stream.shift = begin - stream.first;
  stream.frames = stream.shift;
  stream.last_end = end_of(stream.before);
  stream.again = Again{begin, end, decodes, 0};
}

}  // namespace rtfx
