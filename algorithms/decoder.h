// The contract of a decoder. It needs no CUDA header.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "algorithms/hypotheses.h"
#include "algorithms/streams.h"
#include "base/options.h"
#include "base/phrases.h"
#include "models/checkpoint/config.h"

namespace rtfx {

struct AcousticModel;
struct CompiledBias;  // algorithms/shared/biasing/compiled_bias.h

/// The encoder's output for a batch of utterances. Frames at or beyond a row's length are undefined
/// (they may hold NaN) and must not influence any result.
struct EncodedBatch {
  at::Tensor frames;                  // [B, T', D], dtype of the decoder, on its device
  at::Tensor lengths;                 // [B] int64, same device, 0 <= length <= T'
  std::vector<int64_t> lengths_host;  // a copy on the host, so that no decoder must read back
  /// Results of this decoder's compile_bias(), one per row. A row with null, and every row of an
  /// empty list, is biased by the decoder's options alone.
  std::vector<std::shared_ptr<const CompiledBias>> biases = {};

  /// Returns the largest of lengths_host, or 0 without rows.
  int64_t longest() const;
};

/// Contextual biasing that one utterance asks for.
struct BiasRequest {
  std::vector<Phrase> phrases;  // boosted in addition to those of the decoder's options
  /// The characters that the utterance may contain, as scripts, ranges and characters
  /// (models/tokenizers/spelling.h). They replace those of the decoder's options. An empty list
  /// allows all characters, and nullopt keeps those of the options.
  std::optional<std::vector<std::string>> allowed;
  std::string where;  // the place of `allowed`, for error messages

  bool empty() const { return phrases.empty() && !allowed; }
};

/// The part of a model that a decoder reads.
enum class Head { none, ctc, transducer };

/// The kind of score of a beam search: the logarithm of a text's probability, summed over the
/// alignments that the beam kept. It includes blanks, durations and the language model.
inline constexpr char kBeamScore[] = "text_logprob";

/// The kind of score of a beam search whose alignments have at most one token at a frame.
inline constexpr char kMonotonicBeamScore[] = "monotonic_text_logprob";

struct Description {
  /// `exact`: the result is that of greedy search up to rounding, and its grade must reach
  /// `verify.required`. `approximate`: the search prunes, or an option changes what is chosen, such
  /// as a language model, phrases or a blank penalty. Then the grade is only reported.
  enum class Exactness { exact, approximate };
  std::string name;
  Head head = Head::none;
  Exactness exactness = Exactness::exact;
  /// A subset of {"ctc", "rnnt", "multiblank", "tdt"}; empty = any.
  std::vector<std::string> model_kinds;
  /// "logit", "logprob", kBeamScore, kMonotonicBeamScore, or "" without a score. Results with
  /// another kind are not replayed.
  std::string score_kind;
  bool streams = false;       // Decoder::streams() returns streams
  bool has_own_rule = false;  // uses a rule that replays do not know
};

/// Counts of the work of the last decode(), by name. They are added up over the batches of a round.
/// A count that does not apply is absent. Several decoders use these names:
///
///   frames_visited                frames that the search looked at. frame_looping counts each
///                                 joint call of TDT and multi-blank RNN-T.
///   frames, frames_skipped        frames of the batch, and those dropped before the search
///   outer_iters, inner_iters      passes through the loops
///   joint_calls, joint_rows       evaluations of the joint network, and the sum of their rows
///   pred_calls, pred_rows         evaluations of the prediction network, and their rows
///   joint_rows_needed, pred_rows_needed  rows whose results the search used
///   merge_pairs                   pairs of hypotheses that were compared for being equal
///   hash_collisions               pairs of equal hash whose tokens differ
///   wrong_merges                  pairs that were merged though their tokens differ
///   host_reads                    waits for the device
///   graph_launches, graph_captures  launches and recordings of CUDA graphs
///   uploads                       transfers of a step's inputs to the device
///   joint_us                      microseconds of joint calls
///   objects_us, results_us        microseconds of objects() and results() of a decoder in Python
///                                 (docs/own_decoder.md)
using Counters = std::map<std::string, int64_t>;

/// Upper bounds of the batches to come, for decoders that allocate in advance. 0 means that no
/// bound is known.
struct Limits {
  int64_t max_batch = 0;   // utterances
  int64_t max_frames = 0;  // encoder frames of an utterance
};

class Decoder {
 public:
  /// In the Python package, a garbage collector may destroy a decoder on any thread, while another
  /// decoder of the model decodes.
  virtual ~Decoder() = default;

  virtual Description describe() const = 0;

  /// Returns every option with its resolved value, as a JSON object (base/options.h). Both
  /// options() and describe() may be called before prepare(), which may change their results.
  virtual nlohmann::json options() const = 0;

  /// Takes the model (kept alive by the decoder) and does everything that is not decoding: buffers,
  /// graphs, tables. It is called once, outside any timed pass. Throws UserError when the model
  /// lacks the head or is of a kind that the decoder cannot serve.
  virtual void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) = 0;

  /// Decodes one batch. It is called in inference mode, perhaps on another thread than prepare(),
  /// but never at the same time as another call. Another stream may still read an earlier result.
  /// Enqueues on the current stream; each decoder states in its header when and how often it waits
  /// for the device. Deliberate waits go through HostReads of algorithms/gpu/host_read.h, which
  /// counts them as "host_reads". Recordings of graphs, and the uploads and results of step_replay,
  /// wait under AllowSync and are not counted. The loops of label_looping with "loop": "script"
  /// wait there, too, and their "host_reads" are computed from the counts of iterations.
  virtual Hypotheses decode(const EncodedBatch& batch) = 0;

  /// Returns counters of the last decode(). It is called on the thread of decode(), outside of
  /// timed regions. May wait for the device.
  virtual Counters counters() const { return {}; }

  /// Returns a search for utterances in pieces, with the decoder's options and tables. The decoder
  /// must outlive it. Returns null where describe() says that there are no streams. Valid after
  /// prepare().
  virtual std::unique_ptr<Streams> streams(const StreamLimits&) { return nullptr; }

  /// Returns the words of the option that boosts words, verbatim, even at a strength of 0. Results
  /// with and without boosting are compared on these words. Valid after prepare().
  virtual std::vector<std::string> boosted_words() const { return {}; }

  /// Compiles the phrases and allowed characters of one utterance, for EncodedBatch::biases of any
  /// batch. The phrases are boosted in addition to those of the options, and the characters replace
  /// those of the options. Valid after prepare(); may be called while another thread decodes.
  /// Throws UserError, also where the decoder has no contextual biasing for single utterances.
  virtual std::shared_ptr<const CompiledBias> compile_bias(const BiasRequest& request) const;

  /// Returns whether the decoder's code is no part of rtfx: it is in a plug-in or in Python. Its
  /// prepare() and decode() are then called through call_decoder() of algorithms/foreign_code.h.
  /// Its streams are called directly.
  bool is_foreign() const { return is_foreign_; }

 private:
  friend struct RegisterDecoder;
  bool is_foreign_ = false;
};

/// Throws UserError where `description` does not serve the model's kind. Decoders call it in
/// prepare().
void require_model_kind(const Description& description, const AcousticModel& model);

// The registry of decoders by name. A decoder registers itself from its own source file, with a
// static object: Register, or RegisterDecoder if it is made in another way.

/// The options of a decoder that decide what describe() returns, for the documentation. All members
/// are empty where the decoder's options do not choose the kinds of models that it serves.
struct DecidingOptions {
  std::string kinds;                   // name of the option that chooses model_kinds
  std::vector<std::string> all_kinds;  // the kinds of models that its values serve together
  std::string exactness;               // name of the option that chooses the exactness
};

struct DecoderEntry {
  std::string name;
  std::string summary;              // one line for `rtfx list`
  std::vector<OptionInfo> options;  // for `rtfx list`, validation and documentation
  /// Builds a decoder from a JSON object of options; `where` names the object in error messages.
  std::function<std::unique_ptr<Decoder>(const nlohmann::json& options, std::string_view where)>
      make;
  bool needs_gpu = false;   // prepare() refuses a model on a CPU
  bool is_foreign = false;  // Decoder::is_foreign()
  DecidingOptions deciding = {};

  /// Returns the kinds of models that the decoder serves with any of its options; empty = any.
  std::vector<std::string> model_kinds() const;
};

struct RegisterDecoder {
  explicit RegisterDecoder(DecoderEntry entry);
};

/// Returns all registered decoders, sorted by name.
std::vector<const DecoderEntry*> decoder_entries();

/// Returns the decoder of that name. Throws UserError with the nearest name when there is no such
/// decoder. `where` is a JSON pointer.
const DecoderEntry& find_decoder(std::string_view name, std::string_view where);

/// Finds the decoder of that name and makes it with `options`.
std::unique_ptr<Decoder> make_decoder(std::string_view name, const nlohmann::json& options,
                                      std::string_view where);

/// Makes a decoder for a model. If the decoder has the option max_symbols and `options` lack it,
/// the value of the checkpoint is used.
std::unique_ptr<Decoder> make_decoder(std::string_view name, const nlohmann::json& options,
                                      std::string_view where, const ModelConfig& model);

/// Loads a shared library whose static initialisers register decoders. They are foreign decoders
/// (Decoder::is_foreign()). Throws UserError if the library cannot be loaded.
void load_plugin(const std::string& path);

// The base class of decoders, and the line that registers one. A decoder writes its options,
// describe(), prepare() and decode():
//
//   struct PlainOptions {
//     int64_t max_symbols = 10;
//     static const OptionTable<PlainOptions>& table();
//   };
//
//   class Plain : public DecoderBase<PlainOptions> {
//    public:
//     using DecoderBase::DecoderBase;
//     Description describe() const override;
//     void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override;
//     Hypotheses decode(const EncodedBatch& batch) override;
//   };
//
//   const Register<Plain> registered{"plain", "one line for `rtfx list`"};
//
// BiasedDecoder (algorithms/shared/biasing) adds contextual biasing. GreedySearch and BeamSearch
// (algorithms/shared/batched) also add the loops and the streams of a batched search.

/// The base class of a decoder with options. `option_table` returns the table of their names,
/// ranges and help. It is the static function `table` of the struct, unless two decoders share a
/// struct.
template <class OptionStruct,
          const OptionTable<OptionStruct>& (*option_table)() = &OptionStruct::table>
class DecoderBase : public Decoder {
 public:
  using Options = OptionStruct;

  explicit DecoderBase(Options options) : options_(std::move(options)) {}

  static const OptionTable<Options>& table() { return option_table(); }

  nlohmann::json options() const override { return table().resolved(options_); }

 protected:
  Options options_;
};

/// The last argument of Register for a decoder that runs on a GPU only.
constexpr bool kNeedsGpu = true;

/// Registers the decoder class `SomeDecoder`, which derives from DecoderBase.
template <class SomeDecoder>
struct Register : RegisterDecoder {
  static_assert(
      !requires(typename SomeDecoder::Options o) { o.skip_blank; },
      "the option skip_blank is read by RegisterSkipping");

  Register(std::string name, std::string summary, bool needs_gpu = false)
      : RegisterDecoder({std::move(name), std::move(summary), SomeDecoder::table().info(),
                         [](const nlohmann::json& options, std::string_view where) {
                           return std::make_unique<SomeDecoder>(
                               SomeDecoder::table().fill(options, where));
                         },
                         needs_gpu}) {}
};

}  // namespace rtfx
