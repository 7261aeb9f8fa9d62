#include <cmath>
#include <nlohmann/json.hpp>

#include "speech/transcript/formats.h"

namespace rtfx {
namespace {

using nlohmann::ordered_json;

/// Milliseconds, as seconds.
double to_the_millisecond(double seconds) { return std::round(seconds * 1000) / 1000; }

void add_confidence(ordered_json& object, double confidence) {
  if (!std::isnan(confidence)) object["confidence"] = std::round(confidence * 1e6) / 1e6;
}

ordered_json span_json(double start, double end) {
  return {{"start", to_the_millisecond(start)}, {"end", to_the_millisecond(end)}};
}

ordered_json words_json(const Transcript& transcript) {
  ordered_json list = ordered_json::array();
  for (const TimedWord& word : transcript.words) {
    ordered_json object = {{"text", word.text}};
    object.update(span_json(word.start, word.end));
    add_confidence(object, word.confidence);
    list.push_back(std::move(object));
  }
  return list;
}

ordered_json segments_json(const Transcript& transcript) {
  ordered_json list = ordered_json::array();
  for (const TimedSegment& segment : transcript.segments) {
    const TimedWord* const first = &transcript.words[segment.first];
    std::string text;
    for (const TimedWord* word = first; word != first + segment.count; ++word)
      text += (word == first ? "" : " ") + word->text;
    ordered_json object = {{"text", text}};
    object.update(span_json(first->start, first[segment.count - 1].end));
    list.push_back(std::move(object));
  }
  return list;
}

ordered_json tokens_json(const Transcript& transcript) {
  ordered_json list = ordered_json::array();
  for (const TimedToken& token : transcript.tokens) {
    ordered_json object = {{"id", token.id}, {"piece", token.piece}};
    object.update(span_json(token.start, token.end));
    add_confidence(object, token.confidence);
    list.push_back(std::move(object));
  }
  return list;
}

/// Adds the members that the best result and each alternative have.
void add_transcript(ordered_json& object, const Transcript& transcript, bool with_tokens) {
  object["text"] = transcript.text;
  object["score"] = transcript.score;
  add_confidence(object, transcript.confidence);
  object["words"] = words_json(transcript);
  if (with_tokens) object["tokens"] = tokens_json(transcript);
}

void add_alternatives(ordered_json& object, const std::vector<Transcript>& alternatives,
                      bool with_tokens) {
  for (const Transcript& alternative : alternatives) {
    ordered_json entry;
    add_transcript(entry, alternative, with_tokens);
    object["alternatives"].push_back(std::move(entry));
  }
}

}  // namespace

std::string transcript_json(const TranscribedFile& file) {
  ordered_json object = {{"schema", "rtfx.transcript/1"},
                         {"file", file.file},
                         {"seconds", to_the_millisecond(file.seconds)}};
  if (file.has_reference) object["reference"] = file.reference;
  add_transcript(object, file.transcript, file.with_tokens);
  object["segments"] = segments_json(file.transcript);
  add_alternatives(object, file.transcript.alternatives, file.with_tokens);
  for (const TranscriptSection& section : file.transcript.sections) {
    ordered_json entry = span_json(section.start, section.end);
    add_alternatives(entry, section.alternatives, file.with_tokens);
    object["sections"].push_back(std::move(entry));
  }
  return object.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace rtfx
