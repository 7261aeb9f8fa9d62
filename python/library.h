/* The C interface of librtfx, which the Python package in rtfx/ calls through ctypes: no Python
 * header takes part, so one library serves every Python. It serves the LibTorch that it was built
 * against, and those whose C++ symbols are the same (docs/python.md says which were tried).
 *
 * Tensors cross as DLPack (https://dmlc.github.io/dlpack): nothing is copied. Work is enqueued on
 * the calling thread's current CUDA stream, LibTorch's own, which PyTorch's `torch.cuda.stream`
 * sets. Strings are UTF-8; those that are returned live until the thread's next call. What structs
 * point to lives as the function that gives them says. A function that fails returns null (or -1),
 * and rtfx_error() says why. Pointers must not be null unless it is said here: "{}" stands for no
 * options and no request, "" for no language. Calls for one model, its decoders and streams must
 * not overlap in time. */
#pragma once

#include <stdint.h>

#include "python/structs.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RTFX_API __attribute__((visibility("default")))

typedef struct rtfx_model rtfx_model;             /* features, encoder and heads on a device */
typedef struct rtfx_decoder rtfx_decoder;         /* of one model */
typedef struct rtfx_result rtfx_result;           /* hypotheses of a batch */
typedef struct rtfx_transcripts rtfx_transcripts; /* results for recordings */
typedef struct rtfx_streams rtfx_streams;         /* utterances that come in pieces */
struct DLManagedTensor;

/* The last failure on this thread, which a success does not clear: read it after a call has failed.
 * rtfx_error_is_input(): 1 if the caller's input was wrong. */
RTFX_API const char* rtfx_error(void);
RTFX_API int rtfx_error_is_input(void);

/* "rtfx 0.1.0 (revision, build type, LibTorch version)" */
RTFX_API const char* rtfx_version(void);

/* A shared library with further decoders. 0, or -1. */
RTFX_API int rtfx_load_plugin(const char* path);

/* `path`: a .nemo file or a Hugging Face folder. `device`: "auto", "cpu", "cuda", "cuda:N".
 * `dtype`: "fp32", "bf16", "fp16", "fp8" (models/dtypes.h). `context`: `contexts` numbers that
 * select an attention context; none: the model's. `language`: of a prompt-conditioned model; empty:
 * the model's default. */
RTFX_API rtfx_model* rtfx_model_load(const char* path, const char* device, const char* dtype,
                                     const int32_t* context, int64_t contexts,
                                     const char* language);
/* {"kind", "device", "dtype", "sample_rate", "frame_seconds", "blank", "durations", "languages",
 * "pieces", "notices"} */
RTFX_API const char* rtfx_model_json(const rtfx_model* model);
RTFX_API void rtfx_model_free(rtfx_model* model);
/* The number of words of a hypothesis, whose text, score and list do not matter. `words` become
 * these, which live until the thread's next call. */
RTFX_API int64_t rtfx_words(const rtfx_model* model, const rtfx_hypothesis* hypothesis,
                            const rtfx_word** words);

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
 * count; the tensor is taken over, whatever comes of it. The result keeps it until
 * rtfx_result_free(). Frames that are not contiguous are copied. Waits once to copy the lengths to
 * a GPU, and as often as the decoder does. */
RTFX_API rtfx_result* rtfx_decode(rtfx_decoder* decoder, struct DLManagedTensor* frames,
                                  const int64_t* lengths, int64_t rows);
/* `name`: "lengths" [B] int32, "tokens", "frames", "durations" [B, capacity] int32, "scores" [B]
 * float32, where they were made. "durations" is null, without an error, but for TDT. */
RTFX_API struct DLManagedTensor* rtfx_result_tensor(const rtfx_result* result, const char* name);
/* The number of rows. `rows` become their hypotheses, which live as long as the result. Waits for
 * the device. */
RTFX_API int64_t rtfx_result_rows(rtfx_result* result, const rtfx_hypothesis** rows);
RTFX_API void rtfx_result_free(rtfx_result* result);

/* Transcribes recordings as speech/transcriber.h does. `batch_size`: recordings; 0: by the free
 * memory. `with_words`: with words and their times. `decode_again`: seconds of speech without a
 * word that are decoded again, 0 to 3600; 0: none are. Once another thread sets `*stop` to 1, the
 * call returns null, and rtfx_error() is "interrupted": on a GPU after the batches in flight, on a
 * CPU within a batch. The samples must live until it returns. Waits
 * for the device. */
RTFX_API rtfx_transcripts* rtfx_transcribe(rtfx_model* model, rtfx_decoder* decoder,
                                           const rtfx_recording* recordings, int64_t count,
                                           int64_t batch_size, int with_words, double decode_again,
                                           const int32_t* stop);
/* Aligns recordings with texts[i], one for each, as speech/aligner.h does. `head`: "ctc",
 * "transducer", or "auto" for CTC where the model has it. Everything else is as above. */
RTFX_API rtfx_transcripts* rtfx_align(rtfx_model* model, const rtfx_recording* recordings,
                                      const char* const* texts, int64_t count, const char* head,
                                      int64_t batch_size, const int32_t* stop);
/* The number of transcripts, one for each recording in order. `list` becomes these, which live as
 * long as the handle. */
RTFX_API int64_t rtfx_transcripts_list(const rtfx_transcripts* transcripts,
                                       const rtfx_transcript** list);
RTFX_API void rtfx_transcripts_free(rtfx_transcripts* transcripts);

/* Live speech: up to `streams` utterances at a time, encoded and searched in batches of always
 * `rows` rows, 0 for as many as streams. `fewer_rows`: `fewer` smaller numbers of rows; a step is
 * encoded with the smallest that holds its utterances, and frames are then equal up to rounding
 * alone. `buffer`: null, or seconds of chunk, left and right
 * context. Null: by caches where the model is made for it, else on buffers of 2, 10 and 2 s. On a
 * GPU, caches may need the weights a second time. `decode_again`: seconds of speech without a word
 * after which a stream starts over, 0 to 20; 0: none does. The handles of model and decoder may be
 * freed before. */
RTFX_API rtfx_streams* rtfx_streams_of_speech(rtfx_model* model, rtfx_decoder* decoder,
                                              int64_t streams, int64_t rows,
                                              const int64_t* fewer_rows, int64_t fewer,
                                              const double* buffer, double decode_again);
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
 * partials[i] becomes the text of each, which lives until the next call for these streams. Bad
 * samples are an error and change nothing. After another error, such as one of memory, the streams
 * may lack audio: close them. 0, or -1. Waits for the device. */
RTFX_API int rtfx_streams_push(rtfx_streams* streams, const int64_t* numbers,
                               const float* const* samples, const int64_t* counts, int64_t rows,
                               rtfx_partial* partials);
/* The same with encoder frames, which are as rtfx_decode() takes them. */
RTFX_API int rtfx_streams_push_frames(rtfx_streams* streams, const int64_t* numbers,
                                      struct DLManagedTensor* frames, const int64_t* lengths,
                                      int64_t rows, rtfx_partial* partials);
/* `hypothesis` becomes the result of an utterance, which is closed with that, and `again` the
 * `again_count` parts of it that were decoded again. They live until the next call for these
 * streams. 0, or -1. Waits for the device. */
RTFX_API int rtfx_streams_finish(rtfx_streams* streams, int64_t number, rtfx_hypothesis* hypothesis,
                                 const rtfx_decoded_again** again, int64_t* again_count);
/* Forgets an utterance. 0, or -1. */
RTFX_API int rtfx_streams_close(rtfx_streams* streams, int64_t number);

#ifdef __cplusplus
}
#endif
