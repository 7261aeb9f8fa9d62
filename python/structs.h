/* The structs of library.h. They only point to their data. The function that returns a struct says
 * how long the data lives. Strings are UTF-8. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A text and how it was found. If a NaN reached the utterance, all other members are 0 or null. */
typedef struct rtfx_hypothesis {
  int32_t is_nan;
  int32_t has_words; /* the search found words, in a lexicon or a decoding graph */
  const char* text;
  float score;
  int64_t token_count;
  const int32_t* tokens;    /* [token_count] */
  const int32_t* frames;    /* [token_count]: the encoder frame of each token */
  const int32_t* durations; /* [token_count], in frames; null except for TDT with tokens */
  int64_t word_count;
  const char* const* words;            /* [word_count]: words that the search found */
  const int32_t* word_frames;          /* [word_count]: the encoder frame of each word */
  int64_t nbest_count;                 /* 0 where the decoder was not asked for a list */
  const struct rtfx_hypothesis* nbest; /* [nbest_count]: the first one is this hypothesis */
} rtfx_hypothesis;

/* A word and its begin and end in seconds, as speech/transcript/transcript.h defines them. */
typedef struct rtfx_word {
  const char* text;
  double start, end;
  double confidence; /* NaN where none was requested */
} rtfx_word;

/* A part that was decoded again (DecodedAgain of speech/transcript/transcript.h), in seconds. */
typedef struct rtfx_decoded_again {
  double start, end;
  int64_t words, decodes;
} rtfx_decoded_again;

/* The rules that end an utterance before its stream ends (speech/streams/endpointing.h). */
typedef struct rtfx_endpoint_rules {
  double pause;            /* seconds without a token, 0 to 3600; 0: no pause ends an utterance */
  int64_t end_token_count; /* 0 stands for <EOU> and <EOB>, where the vocabulary has them */
  const char* const* end_tokens; /* [end_token_count]: pieces; null: no token ends an utterance */
  const char* vad;               /* file of a voice activity detector; null: none */
  double vad_silence;            /* seconds without speech that the detector hears, 0.1 to 3600 */
} rtfx_endpoint_rules;

/* An utterance that a rule has ended. Times are seconds of its stream. */
typedef struct rtfx_utterance {
  rtfx_hypothesis hypothesis; /* of at least one token, or NaN */
  int64_t word_count;
  const rtfx_word* words; /* [word_count] */
  double start, end;      /* begin of the first token, end of the last one */
  const char* ended_by;   /* "pause", "vad", or the piece of the end token */
} rtfx_utterance;

/* The text so far of the utterance that a stream is in. */
typedef struct rtfx_partial {
  rtfx_hypothesis hypothesis; /* the best so far; rtfx_streams_finish() may give another one */
  int64_t stable;             /* number of first tokens that no later audio can change */
  const char* stable_text;    /* text of these tokens */
  int64_t ended_count;
  const rtfx_utterance* ended; /* [ended_count]: utterances that have ended before, in order */
} rtfx_partial;

/* A recording to transcribe: a file, or samples in memory. */
typedef struct rtfx_recording {
  const char* name;     /* messages use it for the recording */
  const char* path;     /* null for samples */
  const float* samples; /* [sample_count], mono at the model's rate */
  int64_t sample_count;
} rtfx_recording;

/* The result for a recording, or the reason why there is none. */
typedef struct rtfx_transcript {
  const char* failure; /* null where there is a result */
  int32_t bad_input;   /* for a failure: the recording or an option is at fault */
  rtfx_hypothesis hypothesis;
  int64_t word_count;
  const rtfx_word* words; /* [word_count] */
  int64_t notice_count;
  const char* const* notices; /* [notice_count]: changes and omissions */
  int64_t again_count;
  const rtfx_decoded_again* again; /* [again_count] */
} rtfx_transcript;

#ifdef __cplusplus
}
#endif
