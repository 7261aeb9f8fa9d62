#include "harness/stream/speech_server.h"

#include <algorithm>
#include <map>

namespace rtfx {

SpeechServer::SpeechServer(SpeechStreams& speech,
                           const std::vector<const std::vector<float>*>& audio, int64_t streams,
                           int64_t samples, bool partial)
    : speech_(speech),
      audio_(audio),
      streams_(static_cast<size_t>(streams)),
      samples_(static_cast<size_t>(samples)),
      partial_(partial),
      before_{speech.encoder_seconds(), speech.search_seconds()} {
  for (size_t i = 0; i < streams_.size(); ++i) streams_[i].utterance = i % audio_.size();
}

SpeechServer::~SpeechServer() {
  for (const Stream& stream : streams_)
    if (stream.number >= 0) speech_.close(stream.number);
}

StageSeconds SpeechServer::stage_seconds() const {
  return {speech_.encoder_seconds() - before_.encoder, speech_.search_seconds() - before_.search};
}

std::vector<bool> SpeechServer::work(const std::vector<Request>& requests) {
  std::map<int64_t, size_t> ending;  // numbers whose last samples have come, and their requests
  for (size_t i = 0; i < requests.size(); ++i) {
    Stream& stream = streams_[static_cast<size_t>(requests[i].stream)];
    if (stream.number < 0) stream.number = speech_.open();
    const std::vector<float>& audio = *audio_[stream.utterance];
    const size_t end = std::min(audio.size(), stream.given + samples_);
    speech_.push(stream.number, std::span(audio).subspan(stream.given, end - stream.given));
    stream.given = end;
    if (end < audio.size()) continue;
    speech_.finish(stream.number);
    ending.emplace(stream.number, i);
  }
  std::vector<bool> ended(requests.size());
  for (auto updates = speech_.step(partial_); !updates.empty(); updates = speech_.step(partial_)) {
    for (SpeechUpdate& update : updates) {
      if (!update.closed) continue;
      const size_t i = ending.at(update.stream);
      ended[i] = true;
      Stream& stream = streams_[static_cast<size_t>(requests[i].stream)];
      finished_.push_back({stream.utterance, std::move(update.result.best)});
      stream = {(stream.utterance + streams_.size()) % audio_.size(), 0, -1};
    }
  }
  return ended;
}

std::vector<Hypothesis> in_one_piece(SpeechStreams& speech,
                                     const std::vector<const std::vector<float>*>& audio,
                                     int64_t streams) {
  std::vector<Hypothesis> results(audio.size());
  std::map<int64_t, size_t> open;
  for (size_t next = 0; next < audio.size() || !open.empty();) {
    while (next < audio.size() && static_cast<int64_t>(open.size()) < streams) {
      const int64_t number = speech.open();
      speech.push(number, *audio[next]);
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
