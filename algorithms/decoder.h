// The contract of a decoder. One small class behind four verbs; no CUDA header in sight.
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
  std::vector<int64_t> lengths_host;  // the same on the host, so that no decoder must read back
  /// Results of this decoder's compile_bias(), one per row. A row with null, and every row of an
  /// empty list, is biased by the decoder's options alone.
  std::vector<std::shared_ptr<const CompiledBias>> biases = {};

  /// The largest of lengths_host; 0 without rows.
  int64_t longest() const;
};

/// Contextual biasing that one utterance asks for, beside the decoder's options.
struct BiasRequest {
  std::vector<Phrase> phrases;  // boosted beside those of the decoder's options
  /// Scripts, ranges and characters (models/tokenizers/spelling.h) in place of the decoder's. An
  /// empty list allows all, and nothing leaves the decoder's.
  std::optional<std::vector<std::string>> allowed;
  std::string where;  // of `allowed`, for errors

  bool empty() const { return phrases.empty() && !allowed; }
};

/// The part of a model that a decoder reads.
enum class Head { none, ctc, transducer };

/// The kind of score of a beam search: the logarithm of a text's probability, summed over the
/// alignments that the beam kept. Blanks, durations and language model count.
inline constexpr char kBeamScore[] = "text_logprob";

/// The kind of score of a beam search whose alignments have at most one token at a frame.
inline constexpr char kMonotonicBeamScore[] = "monotonic_text_logprob";

struct Description {
  /// `exact`: the result is that of greedy search up to rounding, and its grade must reach
  /// `verify.required`. `approximate`: the search prunes, or an option changes what is chosen, such
  /// as a language model, phrases or a blank penalty; its grade is reported alone.
  enum class Exactness { exact, approximate };
  std::string name;
  Head head = Head::none;
  Exactness exactness = Exactness::exact;
  /// A subset of {"ctc", "rnnt", "multiblank", "tdt"}; empty = any.
  std::vector<std::string> model_kinds;
  /// "logit", "logprob", kBeamScore, kMonotonicBeamScore, or "" without a score. Results with
  /// another kind are not replayed.
  std::string score_kind;
  bool streams = false;       // takes utterances in pieces, too: Decoder::streams()
  bool has_own_rule = false;  // decides by a rule that replays do not know
};

/// Counts of the work of the last decode(), by name. They are added up over the batches of a round.
/// A count that does not apply is absent. Several decoders use these names:
///
///   frames_visited                frames that the search looked at. frame_looping counts each
///                                 joint call of TDT and multi-blank RNN-T.
///   frames, frames_skipped        frames of the batch, and those dropped before the search
///   outer_iters, inner_iters      rounds of the loops
///   joint_calls, joint_rows       evaluations of the joint network, and their rows in sum
///   pred_calls, pred_rows         evaluations of the prediction network, and their rows
///   joint_rows_needed, pred_rows_needed  rows whose results the search used
///   merge_pairs                   pairs of hypotheses that were compared for being equal
///   hash_collisions, wrong_merges  those of equal hash and other tokens, and those merged
///   host_reads                    waits for the device
///   graph_launches, graph_captures  launches and recordings of CUDA graphs
///   uploads                       transfers of a step's inputs to the device
///   joint_us                      microseconds of joint calls
///   objects_us, results_us        microseconds in which Python made objects
///                                 (docs/own_decoder.md)
using Counters = std::map<std::string, int64_t>;

/// Upper bounds of the batches to come, for decoders that allocate in advance. 0: no bound is
/// known.
struct Limits {
  int64_t max_batch = 0;   // utterances
  int64_t max_frames = 0;  // encoder frames of an utterance
};

class Decoder {
 public:
  virtual ~Decoder() = default;

  virtual Description describe() const = 0;

  /// Every option with its resolved value, as a JSON object (base/options.h). Valid before
  /// prepare(), which may change it. So is describe().
  virtual nlohmann::json options() const = 0;

  /// Takes the model (kept alive by the decoder) and does everything that is not decoding: buffers,
  /// graphs, tables. Called once, outside any timed pass. Throws UserError when the model lacks the
  /// head or is of a kind that the decoder cannot serve.
  virtual void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) = 0;

  /// Decodes one batch, in inference mode and perhaps on another thread than prepare(), but never
  /// at the same time. An earlier result may still be read on another stream. Enqueues on the
  /// current stream; each decoder states in its header when and how often it waits for the device.
  /// Deliberate waits go through HostReads of algorithms/gpu/host_read.h, which counts them as
  /// "host_reads". Not counted are recordings, and the uploads and results of step_replay: they
  /// wait under AllowSync.
  virtual Hypotheses decode(const EncodedBatch& batch) = 0;

  /// Counters of the last decode(), called on its thread and outside of timed regions. May wait for
  /// the device.
  virtual Counters counters() const { return {}; }

  /// Utterances in pieces, searched with the decoder's options and tables. The decoder must outlive
  /// the streams.
  /// Null where describe() says that there are none. Valid after prepare().
  virtual std::unique_ptr<Streams> streams(const StreamLimits&) { return nullptr; }

  /// The words of the option that boosts words, verbatim, at a strength of 0 too: results with and
  /// without boosting are compared on the same words. Valid after prepare().
  virtual std::vector<std::string> boosted_words() const { return {}; }

  /// Phrases and allowed characters of single utterances, beside or in place of the options', for
  /// EncodedBatch::biases of any batch. Valid after prepare(); may be called while another thread
  /// decodes. Throws UserError, also where the decoder has no such thing.
  virtual std::shared_ptr<const CompiledBias> compile_bias(const BiasRequest& request) const;

  /// Whether its code is no part of rtfx: that of a plug-in, or in Python. Then prepare() and
  /// decode() are called through call_decoder() of algorithms/foreign_code.h; streams are not.
  bool is_foreign() const { return is_foreign_; }

 private:
  friend struct RegisterDecoder;
  bool is_foreign_ = false;
};

/// Throws UserError where `description` does not serve the model's kind. Decoders call it in
/// prepare().
void require_model_kind(const Description& description, const AcousticModel& model);

// Decoders by name. A decoder registers itself from its own source file, with a static object:
// Register, or RegisterDecoder if it is made in another way.

struct DecoderEntry {
  std::string name;
  std::string summary;              // one line for `rtfx list`
  std::vector<OptionInfo> options;  // for `rtfx list`, validation and documentation
  /// Builds a decoder from a JSON object of options; `where` names it in error messages.
  std::function<std::unique_ptr<Decoder>(const nlohmann::json& options, std::string_view where)>
      make;
  bool needs_gpu = false;   // prepare() refuses a model on a CPU
  bool is_foreign = false;  // Decoder::is_foreign()
};

struct RegisterDecoder {
  explicit RegisterDecoder(DecoderEntry entry);
};

/// All registered decoders, sorted by name.
std::vector<const DecoderEntry*> decoder_entries();

/// Throws UserError with the nearest name when there is no such decoder. `where`: JSON pointer.
const DecoderEntry& find_decoder(std::string_view name, std::string_view where);

/// find_decoder + make.
std::unique_ptr<Decoder> make_decoder(std::string_view name, const nlohmann::json& options,
                                      std::string_view where);

/// Makes a decoder for a model. Where `options` leave out max_symbols and the decoder has that
/// option, it is the one that the checkpoint states.
std::unique_ptr<Decoder> make_decoder(std::string_view name, const nlohmann::json& options,
                                      std::string_view where, const ModelConfig& model);

/// Loads a shared library whose static initialisers register decoders, which become foreign ones.
/// Throws UserError.
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

/// A decoder with options. `table` gives their names, ranges and help; it is the static member
/// `table` of the struct, unless two decoders share a struct.
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
