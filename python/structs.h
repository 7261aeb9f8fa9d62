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

/* The text of an utterance so far. */
typedef struct rtfx_partial {
  rtfx_hypothesis hypothesis; /* the best so far; rtfx_streams_finish() may give another one */
  int64_t stable;             /* number of first tokens that no later audio can change */
  const char* stable_text;    /* text of these tokens */
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
