/* The C interface of librtfx, which the Python package in rtfx/ calls through ctypes. It includes
 * no Python header, so one library serves every Python. It works with the LibTorch that it was
 * built against, and with those whose C++ symbols are the same (docs/python.md says which were
 * tried).
 *
 * Tensors cross as DLPack (https://dmlc.github.io/dlpack), without a copy. The caller owns a
 * returned tensor and calls its deleter once. It may outlive all handles. Work is enqueued on the
 * calling thread's current CUDA stream of LibTorch, which PyTorch's `torch.cuda.stream` sets.
 *
 * Strings are UTF-8. A returned string lives until the thread's next call. The function that
 * returns a struct says how long the memory lives to which the struct points. Pointers must not be
 * null unless this header allows it: "{}" stands for no options and no request, "" for no language.
 *
 * A function that fails returns null (or -1), and rtfx_error() says why. Calls for one model, its
 * decoders and its streams must not overlap in time. The functions rtfx_*_free() are an exception.
 * They may be called on any thread, also during a call for another object of the model, since a
 * garbage collector may call them at any time. */
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
typedef struct rtfx_streams rtfx_streams;         /* speech that comes in pieces */
struct DLManagedTensor;

/* The last failure on this thread. A success does not clear it, so read it after a call has failed.
 * rtfx_error_is_input() returns 1 if the caller's input was wrong. */
RTFX_API const char* rtfx_error(void);
RTFX_API int rtfx_error_is_input(void);

/* Returns "rtfx 0.1.0 (revision, build type, LibTorch version)". */
RTFX_API const char* rtfx_version(void);

/* Loads a shared library with further decoders. Returns 0, or -1. */
RTFX_API int rtfx_load_plugin(const char* path);

/* Loads a model. `path` is a .nemo file, a Hugging Face folder or the name of a downloaded model
 * (models/load_checkpoint.h). `device` is "auto", "cpu", "cuda" or "cuda:N". `dtype` is a label of
 * models/dtypes.h, such as "bf16", or "bf16+fp32" for an encoder in bf16 and a decoder in fp32.
 * With "fp8" on a GPU that is not made for it, the encoder computes in bf16, and a notice says so.
 * "fp64" is for CPUs only. The `contexts` numbers of `context` select an attention context; without
 * any, the model keeps its own. `language` selects the prompt of a prompt-conditioned model; an
 * empty one keeps the model's default. */
RTFX_API rtfx_model* rtfx_model_load(const char* path, const char* device, const char* dtype,
                                     const int32_t* context, int64_t contexts,
                                     const char* language);
/* Returns {"kind", "device", "dtype", "sample_rate", "frame_seconds", "blank", "durations",
 * "languages", "pieces", "notices"}. */
RTFX_API const char* rtfx_model_json(const rtfx_model* model);
RTFX_API void rtfx_model_free(rtfx_model* model);
/* Returns the number of words of a hypothesis, whose text, score and n-best list are not read.
 * `words` receives the words, which live until the thread's next call. */
RTFX_API int64_t rtfx_words(const rtfx_model* model, const rtfx_hypothesis* hypothesis,
                            const rtfx_word** words);

/* Makes a decoder. `options` is a JSON object. With a `name` that is null or empty, it is the
 * fastest exact greedy search (speech/pipeline/default_decoder.h). */
RTFX_API rtfx_decoder* rtfx_decoder_new(const rtfx_model* model, const char* name,
                                        const char* options);
/* Returns {"name", "options", "score_kind", "counters"}, with the counters of the last call. May
 * wait for the device, on which some decoders count. */
RTFX_API const char* rtfx_decoder_json(const rtfx_decoder* decoder);
RTFX_API void rtfx_decoder_free(rtfx_decoder* decoder);

/* Returns the mono samples [n] float32 of an audio file at `sample_rate`. `notices` receives a JSON
 * list of the changes that were necessary. */
RTFX_API struct DLManagedTensor* rtfx_read_audio(const char* path, int sample_rate,
                                                 const char** notices);

/* Returns the encoder frames [B, T, D] of `rows` >= 1 utterances, on the model's device. Utterance
 * b is the counts[b] floats at samples[b], at the model's rate. lengths[b] receives the number of
 * frames of row b. A sample that is NaN, infinite or beyond 1e12 is an error. Waits for the device.
 */
RTFX_API struct DLManagedTensor* rtfx_encode(rtfx_model* model, const float* const* samples,
                                             const int64_t* counts, int64_t rows, int64_t* lengths);

/* Decodes frames [B, T, D] in the model's dtype and on its device. The first lengths[b] frames of
 * row b count. The call takes the tensor over, even if it fails. The result keeps the tensor until
 * rtfx_result_free(). Frames that are not contiguous are copied. Waits once to copy the lengths to
 * a GPU, and as often as the decoder does. */
RTFX_API rtfx_result* rtfx_decode(rtfx_decoder* decoder, struct DLManagedTensor* frames,
                                  const int64_t* lengths, int64_t rows);
/* Returns a tensor of the result. `name` is "lengths" [B] int32, "tokens", "frames" or "durations"
 * [B, capacity] int32, or "scores" [B] float32. The tensor is on the device where it was made.
 * "durations" is null, without an error, except for TDT. */
RTFX_API struct DLManagedTensor* rtfx_result_tensor(const rtfx_result* result, const char* name);
/* Returns the number of rows. `rows` receives their hypotheses, which live as long as the result.
 * Waits for the device. */
RTFX_API int64_t rtfx_result_rows(rtfx_result* result, const rtfx_hypothesis** rows);
RTFX_API void rtfx_result_free(rtfx_result* result);

/* Transcribes recordings as speech/transcriber.h does. `batch_size` is a number of recordings, or 0
 * to fit the free memory. With `with_words`, there are words and their times. A stretch of
 * `decode_again` seconds, 0 to 3600, that has no token, but at least 1.5 s of speech, is decoded
 * again; 0 means none. For a recording that is not cut and has no token, 0.5 s of speech is enough,
 * whatever its length. The samples must live until the call returns. Waits for the device.
 *
 * Once another thread sets `*stop` to 1, the call returns null, and rtfx_error() is "interrupted".
 * On a GPU this happens after the batches in flight, on a CPU within a batch. */
RTFX_API rtfx_transcripts* rtfx_transcribe(rtfx_model* model, rtfx_decoder* decoder,
                                           const rtfx_recording* recordings, int64_t count,
                                           int64_t batch_size, int with_words, double decode_again,
                                           const int32_t* stop);
/* Aligns recordings with texts[i], one for each, as speech/aligner.h does. `head` is "ctc",
 * "transducer", or "auto" for CTC where the model has it. All else is as for rtfx_transcribe(). */
RTFX_API rtfx_transcripts* rtfx_align(rtfx_model* model, const rtfx_recording* recordings,
                                      const char* const* texts, int64_t count, const char* head,
                                      int64_t batch_size, const int32_t* stop);
/* Returns the number of transcripts, one for each recording in order. `list` receives the
 * transcripts, which live as long as the handle. */
RTFX_API int64_t rtfx_transcripts_list(const rtfx_transcripts* transcripts,
                                       const rtfx_transcript** list);
RTFX_API void rtfx_transcripts_free(rtfx_transcripts* transcripts);

/* Opens live speech for up to `streams` streams at a time. They are encoded and searched in batches
 * of always `rows` rows; 0 means as many as `streams`. `fewer_rows` has `fewer` smaller numbers of
 * rows. A step is then encoded with the smallest number that holds its streams, and frames are
 * equal only up to rounding.
 *
 * `buffer` is null, or has the seconds of chunk, left and right context. With null, the streams use
 * caches where the model is made for it, else buffers of 2, 10 and 2 s. On a GPU, caches may need
 * the weights a second time. A stream starts over after `decode_again` seconds, 0 to 20, without a
 * token, if at least 1.5 s of them are speech; with 0, none does. For a stream of at most 20 s that
 * ends without any token, 0.5 s of speech is enough. The handles of model and decoder may be freed
 * before the streams.
 *
 * `rules` end utterances, and the stream then goes on with the next one. With null, an utterance
 * ends with its stream. They are not read after the call. Frames of hypotheses and times count from
 * the start of the stream. */
RTFX_API rtfx_streams* rtfx_streams_of_speech(rtfx_model* model, rtfx_decoder* decoder,
                                              int64_t streams, int64_t rows,
                                              const int64_t* fewer_rows, int64_t fewer,
                                              const double* buffer, double decode_again,
                                              const rtfx_endpoint_rules* rules);
/* Opens streams of encoder frames, for the search alone. Batches always have `rows` rows of
 * `frames` frames. Any number of streams may be open at a time. Each is one utterance. */
RTFX_API rtfx_streams* rtfx_streams_of_frames(rtfx_decoder* decoder, int64_t rows, int64_t frames);
/* Returns {"notices"}. Streams of speech add "chunk_samples" and "look_ahead_samples", the samples
 * after a chunk for which it waits. */
RTFX_API const char* rtfx_streams_json(const rtfx_streams* streams);
RTFX_API void rtfx_streams_free(rtfx_streams* streams);

/* Opens a stream. Returns its number, or -1. `request` is a JSON object with phrases and characters
 * for all utterances of this stream:
 * {"boost": ["new york", {"phrase": "kubernetes", "weight": 2}], "allowed": ["latin"]}.
 * An empty list "allowed" allows all characters; without it, those of the decoder are allowed. */
RTFX_API int64_t rtfx_streams_open(rtfx_streams* streams, const char* request);

/* Takes the next samples of `rows` streams: counts[i] floats, or 0, at samples[i], at the model's
 * rate. partials[i] receives the text of each, and its utterances that have ended since its last
 * call. Both live until the next call for these streams. Utterances without text are left out.
 * Invalid samples are an error and change nothing. After another error, such as one of memory, the
 * streams may lack audio: close them. Utterances that ended before the error come with the next
 * call for their stream. Returns 0, or -1. Waits for the device. */
RTFX_API int rtfx_streams_push(rtfx_streams* streams, const int64_t* numbers,
                               const float* const* samples, const int64_t* counts, int64_t rows,
                               rtfx_partial* partials);
/* Does the same with encoder frames, in the form of rtfx_decode(). */
RTFX_API int rtfx_streams_push_frames(rtfx_streams* streams, const int64_t* numbers,
                                      struct DLManagedTensor* frames, const int64_t* lengths,
                                      int64_t rows, rtfx_partial* partials);
/* Closes a stream. `hypothesis` receives its last utterance. `again` receives the `again_count`
 * parts of the stream that were decoded again. `ended` receives the `ended_count` utterances that
 * have ended since the last push, before the last one. All live until the next call for these
 * streams. Returns 0, or -1. Waits for the device. */
RTFX_API int rtfx_streams_finish(rtfx_streams* streams, int64_t number, rtfx_hypothesis* hypothesis,
                                 const rtfx_decoded_again** again, int64_t* again_count,
                                 const rtfx_utterance** ended, int64_t* ended_count);
/* Forgets a stream. Returns 0, or -1. */
RTFX_API int rtfx_streams_close(rtfx_streams* streams, int64_t number);

#ifdef __cplusplus
}
#endif
