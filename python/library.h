/* The C interface of librtfx, which the Python package in rtfx/ calls through ctypes: no Python
 * header takes part, so one library serves every Python. It serves the LibTorch that it was built
 * against, and those whose C++ symbols are the same (docs/python.md says which were tried).
 *
 * Tensors cross as DLPack (https://dmlc.github.io/dlpack): nothing is copied. Work is enqueued on
 * the calling thread's current CUDA stream, LibTorch's own, which PyTorch's `torch.cuda.stream`
 * sets. Strings are UTF-8; those that are returned live until the thread's next call. A function
 * that fails returns null (or -1), and rtfx_error() says why. Calls for one model, its decoders and
 * streams must not overlap in time. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RTFX_API __attribute__((visibility("default")))

typedef struct rtfx_model rtfx_model;     /* features, encoder and heads on a device */
typedef struct rtfx_decoder rtfx_decoder; /* of one model */
typedef struct rtfx_result rtfx_result;   /* hypotheses of a batch */
typedef struct rtfx_streams rtfx_streams; /* utterances that come in pieces */
struct DLManagedTensor;

/* The last failure on this thread; rtfx_error_is_input(): 1 if the caller's input was wrong. */
RTFX_API const char* rtfx_error(void);
RTFX_API int rtfx_error_is_input(void);

/* "rtfx 0.1.0 (revision, build type, LibTorch version)" */
RTFX_API const char* rtfx_version(void);

/* A shared library with further decoders. 0, or -1. */
RTFX_API int rtfx_load_plugin(const char* path);

/* `path`: a .nemo file or a Hugging Face folder. `device`: "auto", "cpu", "cuda", "cuda:N".
 * `dtype`: "fp32", "bf16", "fp16". `context`: `contexts` numbers that select an attention context;
 * none: the model's. */
RTFX_API rtfx_model* rtfx_model_load(const char* path, const char* device, const char* dtype,
                                     const int64_t* context, int64_t contexts);
/* {"kind", "device", "dtype", "sample_rate", "frame_seconds", "blank", "durations", "pieces",
 * "notices"} */
RTFX_API const char* rtfx_model_json(const rtfx_model* model);
RTFX_API void rtfx_model_free(rtfx_model* model);
/* A JSON list of [word, start, end], in seconds, of `count` tokens at these encoder frames;
 * `durations`, in frames, may be null. `found`: null, or a JSON list of [word, frame], the words of
 * a search with a word table. As speech/transcript/transcript.h has them. */
RTFX_API const char* rtfx_words(const rtfx_model* model, const int64_t* tokens,
                                const int64_t* frames, const int64_t* durations, int64_t count,
                                const char* found);

/* `options`: a JSON object. Without `name` the fastest exact greedy search
 * (speech/pipeline/default_decoder.h). */
RTFX_API rtfx_decoder* rtfx_decoder_new(const rtfx_model* model, const char* name,
                                        const char* options);
/* {"name", "options", "score_kind", "counters"}, the counters of the last call. */
RTFX_API const char* rtfx_decoder_json(const rtfx_decoder* decoder);
RTFX_API void rtfx_decoder_free(rtfx_decoder* decoder);

/* Mono samples [n] float32 at `sample_rate` of an audio file; `notices` becomes a JSON list of what
 * was changed. */
RTFX_API struct DLManagedTensor* rtfx_read_audio(const char* path, int sample_rate,
                                                 const char** notices);

/* Encoder frames [B, T, D] of `rows` >= 1 clips, samples[b] of counts[b] floats at the model's
 * rate, on the model's device; lengths[b] becomes the number of frames of row b. Waits for the
 * device. */
RTFX_API struct DLManagedTensor* rtfx_encode(rtfx_model* model, const float* const* samples,
                                             const int64_t* counts, int64_t rows, int64_t* lengths);

/* frames [B, T, D] in the model's dtype and on its device, of which lengths[b] frames of row b
 * count; the tensor is taken over, whatever comes of it. Waits as often as the decoder does. */
RTFX_API rtfx_result* rtfx_decode(rtfx_decoder* decoder, struct DLManagedTensor* frames,
                                  const int64_t* lengths, int64_t rows);
/* `name`: "lengths" [B] int32, "tokens", "frames", "durations" [B, capacity] int32, "scores" [B]
 * float32, where they were made. "durations" is null, without an error, but for TDT. */
RTFX_API struct DLManagedTensor* rtfx_result_tensor(const rtfx_result* result, const char* name);
/* A JSON list: "text", "tokens", "frames", "score", "durations" (TDT), "nbest" where there is one,
 * "words" and "word_frames" of a search with a word table; null for a row that NaN reached. Waits
 * for the device. */
RTFX_API const char* rtfx_result_json(rtfx_result* result);
RTFX_API void rtfx_result_free(rtfx_result* result);

/* Live speech: up to `streams` utterances at a time, encoded and searched in batches of always
 * `rows` rows, 0 for as many as streams. `buffer`: null, or seconds of chunk, left and right
 * context. Null: by caches where the model is made for it, else on buffers of 2, 10 and 2 s. On a
 * GPU, caches may need the weights a second time. The handles of model and decoder may be freed
 * before. */
RTFX_API rtfx_streams* rtfx_streams_of_speech(rtfx_model* model, rtfx_decoder* decoder,
                                              int64_t streams, int64_t rows, const double* buffer);
/* The search alone, in batches of always `rows` rows of `frames` encoder frames; any number of
 * utterances at a time. */
RTFX_API rtfx_streams* rtfx_streams_of_frames(rtfx_decoder* decoder, int64_t rows, int64_t frames);
/* {"notices"}; of speech "chunk_samples" and "look_ahead_samples", those behind a chunk that it
 * waits for. */
RTFX_API const char* rtfx_streams_json(const rtfx_streams* streams);
RTFX_API void rtfx_streams_free(rtfx_streams* streams);

/* A new utterance: its number, or -1. `request`: a JSON object of phrases and characters of its
 * own, {"boost": ["new york", {"phrase": "kubernetes", "weight": 2}], "allowed": ["latin"]}. */
RTFX_API int64_t rtfx_streams_open(rtfx_streams* streams, const char* request);
/* The next samples of `rows` utterances, samples[i] of counts[i] floats at the model's rate, 0 too.
 * A JSON list, of each utterance {"stream", "hypothesis" as if no more came, "stable": so many of
 * its first tokens stay, "stable_text"}. Bad samples change nothing. Waits for the device. */
RTFX_API const char* rtfx_streams_push(rtfx_streams* streams, const int64_t* numbers,
                                       const float* const* samples, const int64_t* counts,
                                       int64_t rows);
/* The same with encoder frames, which are as rtfx_decode() takes them. */
RTFX_API const char* rtfx_streams_push_frames(rtfx_streams* streams, const int64_t* numbers,
                                              struct DLManagedTensor* frames,
                                              const int64_t* lengths, int64_t rows);
/* The result of an utterance, a row of rtfx_result_json(); "null" for one that NaN reached. The
 * utterance is closed with that. Waits for the device. */
RTFX_API const char* rtfx_streams_finish(rtfx_streams* streams, int64_t number);
/* Forgets an utterance. 0, or -1. */
RTFX_API int rtfx_streams_close(rtfx_streams* streams, int64_t number);

#ifdef __cplusplus
}
#endif
