#include "harness/stream/stream_server.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "speech/runtime/stages.h"

namespace rtfx {

std::vector<size_t> StreamStarts::of(int64_t streams, const std::vector<size_t>& requests) const {
  std::vector<size_t> starts(static_cast<size_t>(streams), 0);
  if (!seed) return starts;
  std::mt19937_64 random(*seed);
  for (size_t i = 0; i < starts.size(); ++i) starts[i] = random() % requests[i % requests.size()];
  return starts;
}

/// Returns the frames between an utterance's requests; some requests bring none.
static std::vector<int64_t> borders_of(const StreamedUtterance& utterance) {
  std::vector<int64_t> borders;
  for (const int64_t end : utterance.ends) {
    const int64_t last = borders.empty() ? 0 : borders.back();
    if (end > last && end < utterance.ends.back()) borders.push_back(end);
  }
  return borders;
}

StreamServer::StreamServer(Streams& search, const std::vector<StreamedUtterance>& utterances,
                           int64_t streams, bool partial, const StreamStarts& starts)
    : search_(search),
      utterances_(utterances),
      streams_(static_cast<size_t>(streams)),
      partial_(partial) {
  std::vector<size_t> requests;
  for (const StreamedUtterance& one : utterances_) requests.push_back(one.ends.size());
  const std::vector<size_t> first = starts.of(streams, requests);
  for (size_t i = 0; i < streams_.size(); ++i)
    streams_[i] = {i % utterances_.size(), first[i], -1, first[i] == 0};
}

StreamServer::~StreamServer() {
  for (const Stream& stream : streams_)
    if (stream.number >= 0) search_.close(stream.number);
}

Work StreamServer::work(const std::vector<Request>& requests) {
  std::vector<int64_t> numbers;
  std::vector<at::Tensor> rows;
  EncodedBatch pieces;
  for (const Request& request : requests) {
    Stream& stream = streams_[static_cast<size_t>(request.stream)];
    if (stream.number < 0) stream.number = search_.open();
    numbers.push_back(stream.number);
    const auto& [frames, ends] = utterances_[stream.utterance];
    const int64_t begin = stream.request == 0 ? 0 : ends[stream.request - 1];
    const int64_t length = ends[stream.request] - begin;
    rows.push_back(frames.narrow(0, begin, length));
    pieces.lengths_host.push_back(length);
  }
  pieces.frames = at::empty({static_cast<int64_t>(rows.size()), pieces.longest(), rows[0].size(1)},
                            rows[0].options());
  for (size_t row = 0; row < rows.size(); ++row)
    pieces.frames[static_cast<int64_t>(row)].narrow(0, 0, rows[row].size(0)).copy_(rows[row]);
  search_.push(numbers, pieces);
  partial_results_.clear();
  Work work;
  for (const Request& request : requests) {
    Stream& stream = streams_[static_cast<size_t>(request.stream)];
    if (++stream.request < utterances_[stream.utterance].ends.size()) {
      if (partial_) partial_results_.push_back(search_.partial(stream.number));
      work.served.push_back({request, false});
      continue;
    }
    work.served.push_back({request, true});
    finished_.push_back({stream.utterance, search_.finish(stream.number), stream.whole,
                         borders_of(utterances_[stream.utterance])});
    stream = {(stream.utterance + streams_.size()) % utterances_.size(), 0, -1, true};
  }
  return work;
}

void ShownText::show(int64_t stream, size_t samples, const Hypothesis& result) {
  const double audio_seconds = static_cast<double>(samples) / sample_rate_;
  std::vector<int32_t>& before = tokens_[stream];
  const auto [gone, fresh] = std::ranges::mismatch(before, result.tokens);
  changed_ += before.end() - gone;
  shown_ += result.tokens.end() - fresh;
  if (!result.tokens.empty()) {
    if (before.empty()) {
      const int64_t first = result.frames.front() + 1;
      first_delays_.push_back(audio_seconds - static_cast<double>(first) * frame_seconds_);
    }
    lags_.push_back(audio_seconds - static_cast<double>(end_of(result)) * frame_seconds_);
  }
  before = result.tokens;
}

double ShownText::changed() const {
  return shown_ == 0 ? 0 : static_cast<double>(changed_) / static_cast<double>(shown_);
}

SpeechServer::SpeechServer(SpeechStreams& speech, const Clips& audio, int64_t streams,
                           int64_t samples, bool partial, const StreamStarts& starts)
    : speech_(speech),
      audio_(audio),
      streams_(static_cast<size_t>(streams)),
      samples_(static_cast<size_t>(samples)),
      partial_(partial),
      before_{speech.encoder_seconds(), speech.search_seconds()} {
  std::vector<size_t> requests;
  for (const ClipOfBatch& one : audio_)
    requests.push_back(std::max<size_t>(1, (one.samples.size() + samples_ - 1) / samples_));
  const std::vector<size_t> first = starts.of(streams, requests);
  for (size_t i = 0; i < streams_.size(); ++i)
    streams_[i] = {i % audio_.size(), first[i] * samples_, -1, first[i] == 0};
}

SpeechServer::~SpeechServer() {
  for (const Outstanding& one : outstanding_)
    if (one.ends) speech_.close(one.number);
  for (const Stream& stream : streams_)
    if (stream.number >= 0) speech_.close(stream.number);
}

StageSeconds SpeechServer::stage_seconds() const {
  return {speech_.encoder_seconds() - before_.encoder, speech_.search_seconds() - before_.search};
}

void SpeechServer::watch(const SpeechUpdate& update) {
  auto& [given, borders] = watched_.at(update.stream);
  shown_->show(update.stream, given, update.result.best);
  const int64_t end = update.first + update.frames;
  const int64_t last = borders.empty() ? 0 : borders.back();
  if (!update.closed && end > last) borders.push_back(end);
  // The last step may bring no frame. Then the utterance ended with the step before.
  if (update.closed && end == last && !borders.empty()) borders.pop_back();
}

std::vector<int64_t> SpeechServer::take_borders(int64_t number) {
  const auto watched = watched_.extract(number);
  return watched.empty() ? std::vector<int64_t>{} : std::move(watched.mapped().borders);
}

std::vector<Request> SpeechServer::admit(const std::vector<Request>& requests) {
  waiting_.insert(waiting_.end(), requests.begin(), requests.end());
  int64_t room = speech_.encoder().free_streams();
  std::vector<Request> admitted;
  std::set<int64_t> seen;  // indices of streams
  std::erase_if(waiting_, [&](const Request& request) {
    if (!seen.insert(request.stream).second) return false;
    const bool begins = streams_[static_cast<size_t>(request.stream)].number < 0;
    if (begins && room == 0) return false;
    if (begins) --room;
    admitted.push_back(request);
    return true;
  });
  return admitted;
}

Work SpeechServer::work(const std::vector<Request>& requests) {
  const std::vector<Request> admitted = admit(requests);
  std::vector<NewSamples> pieces;
  for (const Request& request : admitted) {
    Stream& stream = streams_[static_cast<size_t>(request.stream)];
    const auto& [audio, prompt] = audio_[stream.utterance];
    if (stream.number < 0) stream.number = speech_.open(prompt);
    const size_t end = std::min(audio.size(), stream.given + samples_);
    pieces.push_back({stream.number, audio.subspan(stream.given, end - stream.given)});
    stream.given = end;
    if (shown_ != nullptr) watched_[stream.number].given = end;
  }
  speech_.push(pieces);
  for (const Request& request : admitted) {
    Stream& stream = streams_[static_cast<size_t>(request.stream)];
    const std::span<const float> audio = audio_[stream.utterance].samples;
    const bool ends = stream.given == audio.size();
    outstanding_.push_back({request, stream.number, stream.utterance, ends, stream.whole});
    if (!ends) continue;
    speech_.finish(stream.number);
    stream = {(stream.utterance + streams_.size()) % audio_.size(), 0, -1, true};
  }
  std::map<int64_t, Hypothesis> closed;
  for (SpeechUpdate& update : speech_.step(partial_)) {
    if (shown_ != nullptr) watch(update);
    if (update.closed) closed.emplace(update.stream, std::move(update.result.best));
  }
  Work work;
  std::erase_if(outstanding_, [&](const Outstanding& one) {
    const auto found = closed.find(one.number);
    if (one.ends && found != closed.end())
      finished_.push_back(
          {one.utterance, std::move(found->second), one.whole, take_borders(one.number)});
    if (found == closed.end() && speech_.ready(one.number)) return false;
    work.served.push_back({one.request, one.ends});
    return true;
  });
  work.pending = outstanding_.size() + waiting_.size();
  return work;
}

std::vector<FinishedUtterance> serve_all(LoadServer& server, int64_t streams, int64_t max_batch,
                                         size_t utterances) {
  std::vector<std::optional<FinishedUtterance>> found(utterances);
  size_t read = 0, missing = utterances, pending = 0;
  // Streams whose utterances are all done go on with the same utterances.
  for (int64_t next = 0; missing > 0;) {
    check_interrupt();
    std::vector<Request> requests;
    if (pending == 0) {
      const int64_t end = std::min(streams, next + max_batch);
      for (; next < end; ++next) requests.push_back({0, next});
      if (next == streams) next = 0;
    }
    pending = server.work(requests).pending;
    for (const auto& all = server.finished(); read < all.size(); ++read) {
      std::optional<FinishedUtterance>& result = found[all[read].utterance];
      if (result || !all[read].whole) continue;
      result = all[read];
      --missing;
    }
  }
  std::vector<FinishedUtterance> results;
  for (std::optional<FinishedUtterance>& result : found) results.push_back(std::move(*result));
  return results;
}

std::vector<Hypothesis> in_one_piece(SpeechStreams& speech, const Clips& audio, int64_t streams) {
  std::vector<Hypothesis> results(audio.size());
  std::map<int64_t, size_t> open;
  for (size_t next = 0; next < audio.size() || !open.empty();) {
    check_interrupt();
    while (next < audio.size() && static_cast<int64_t>(open.size()) < streams) {
      const int64_t number = speech.open(audio[next].prompt);
      speech.push(number, audio[next].samples);
      speech.finish(number);
      open.emplace(number, next++);
    }
    for (SpeechUpdate& update : speech.step(/*partial=*/false)) {
      if (!update.closed) continue;
      results[open.at(update.stream)] = std::move(update.result.best);
      open.erase(update.stream);
    }
  }
  return results;
}

}  // namespace rtfx
