#include "speech/aligner.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "algorithms/shared/alignment/ctc_alignment.h"
#include "algorithms/shared/alignment/transducer_alignment.h"
#include "base/error.h"
#include "base/nvtx.h"
#include "base/printable.h"
#include "base/text.h"
#include "models/tokenizers/pieces.h"
#include "speech/pipeline/default_decoder.h"
#include "speech/pipeline/encoder_memory.h"
#include "speech/pipeline/overlapped_pipeline.h"
#include "speech/pipeline/pipeline.h"
#include "speech/pipeline/read_ahead.h"
#include "speech/runtime/device.h"
#include "speech/runtime/stages.h"

namespace rtfx {
namespace {

constexpr int64_t kChunksOnGpu = 32;  // chunks of a long recording encoded together
constexpr int64_t kChunksOnCpu = 8;   // the same number on a CPU
constexpr double kGuideSeconds = 30;  // length of a row in the greedy search for a guide
constexpr int64_t kGuideRows = 8;
constexpr size_t kMostGuideBytes = size_t{4} << 30;  // memory of guide_from()

}  // namespace

Head head_named(const std::string& name, const std::string& where) {
  const std::vector<std::string> names = {"auto", "ctc", "transducer"};
  if (std::ranges::find(names, name) == names.end()) throw unknown_name(where, "head", name, names);
  if (name == "auto") return Head::none;
  return name == "ctc" ? Head::ctc : Head::transducer;
}

Head alignment_head(const ModelConfig& model, Head asked, const std::string& where) {
  if (asked == Head::ctc && !model.has_ctc) {
    throw UserError(where, "the model has no CTC head",
                    "leave it out, or choose a CTC or hybrid model");
  }
  if (asked == Head::transducer && !model.has_transducer) {
    throw UserError(where, "the model has no transducer",
                    "leave it out, or choose an RNN-T or TDT model");
  }
  const Head head = asked != Head::none ? asked : model.has_ctc ? Head::ctc : Head::transducer;
  if (head == Head::transducer && model.is_multiblank()) {
    throw UserError(where, "texts are not aligned with a multi-blank transducer",
                    "choose an RNN-T, TDT or CTC model");
  }
  return head;
}

std::vector<int32_t> spell_text(const Speller& speller, const std::string& text,
                                const std::string& where) {
  const std::string spaced = single_spaced(text);
  if (spaced.empty()) {
    throw UserError(where, "its text is missing",
                    "give it (--text, or \"text\" in a manifest), or leave the recording out");
  }
  std::vector<int32_t> ids = speller(spaced);
  if (!ids.empty()) return ids;
  constexpr const char* kRemedy =
      "write the text as the model does, which `rtfx transcribe` shows, or leave the word out";
  for (size_t begin = 0; begin < spaced.size();) {
    const size_t end = std::min(spaced.find(' ', begin), spaced.size());
    const std::string word = spaced.substr(begin, end - begin);
    begin = end + 1;
    if (!speller(word).empty()) continue;
    for (const std::string& character : parts_of(word, 1)) {
      if (!speller(character).empty()) continue;
      throw UserError(where,
                      fmt::format("the model's vocabulary cannot spell '{}' in the word '{}'",
                                  printable(character), printable(word)),
                      kRemedy);
    }
    throw UserError(
        where, fmt::format("the model's vocabulary cannot spell the word '{}'", printable(word)),
        kRemedy);
  }
  throw UserError(where, "the model's vocabulary cannot spell the text", kRemedy);
}

struct Aligner::Parts {
  Parts(const std::shared_ptr<const AcousticModel>& model, const AlignerOptions& options,
        std::shared_ptr<RecordedEncoder> shared)
      : head(alignment_head(model->config, options.head, "head")),
        speller(*model->tokenizer),
        encoder(shared ? std::move(shared)
                       : std::make_shared<RecordedEncoder>(model, /*graphs=*/true)),
        streams(PipelineStreams::of(model->device)),
        free_bytes(free_memory(model->device)) {
    if (head == Head::transducer) transducer.emplace(model, Transducer::Options());
  }

  Head head;
  Speller speller;
  std::shared_ptr<RecordedEncoder> encoder;
  const PipelineStreams* streams;  // null on the CPU
  std::optional<Transducer> transducer;
  std::unique_ptr<Decoder> greedy;  // finds guides; made when the first one is needed
  int64_t free_bytes;
};

/// The work of one call of run().
class Aligner::Pass {
 public:
  Pass(const std::shared_ptr<const AcousticModel>& model, const AlignerOptions& options,
       Parts& parts, const std::vector<Recording>& recordings,
       const std::vector<std::optional<std::string>>& texts, TranscriptionObserver& observer)
      : shared_model_(model),
        model_(*model),
        options_(options),
        parts_(parts),
        recordings_(recordings),
        texts_(texts),
        observer_(observer),
        clock_(model->device, RegionClock::Mode::overlapped),
        items_(
            recordings.size(), read_ahead(), [this](size_t index) { return read(index); },
            [](const Item& item) { return item.clip.bytes(); }) {}

  double run() {
    while (items_.more() && !observer_.stopped()) {
      const size_t index = items_.index();
      observer_.reading(index);
      std::optional<Item> item;
      RecordingFailure failure;
      try {
        item = items_.next();
      } catch (...) {
        failure = failure_of(recordings_[index]);
      }
      if (!item || item->clip.is_long || !has_room(*item)) flush();
      if (!item) {
        observer_.failure(index, failure.message, failure.bad_input);
      } else if (item->clip.is_long) {
        align_long(*item);
      } else {
        batch_.push_back(*std::move(item));
      }
    }
    if (!observer_.stopped()) flush();
    return seconds_;
  }

 private:
  /// A recording and its text.
  struct Item {
    Clip clip;
    std::vector<int32_t> tokens;
  };

  /// The result of one row. `notice` is empty if there is none.
  struct Aligned {
    Alignment alignment;
    std::string notice = {};
  };

  bool on_gpu() const { return model_.device.is_cuda(); }
  size_t readers() const { return reader_threads(model_.device); }
  ReadAheadLimits read_ahead() const {
    return {.threads = readers(), .items = 8 * readers(), .bytes = kReadAheadBytes};
  }
  int rate() const { return static_cast<int>(model_.config.features.sample_rate); }

  void require_memory(int64_t rows, double seconds, const std::string& where) const {
    require_encoder_memory(model_, rows, static_cast<int64_t>(seconds * rate()), parts_.free_bytes,
                           where);
  }

  /// Reads a recording. May be called from any thread.
  Item read(size_t index) const {
    const Recording& recording = recordings_[index];
    Item item;
    item.tokens = spell_text(parts_.speller, texts_[index].value_or(""), recording.name);
    item.clip = read_clip(
        recording, index,
        {.sample_rate = rate(),
         .prompts = &model_.config.prompt,
         .is_long = [this](double s) { return s > options_.cuts.long_above; },
         .require_memory = [this](double s,
                                  const std::string& where) { require_memory(1, s, where); }});
    if (!item.clip.is_long)
      require_path(item, model_.config.encoded_frames(std::ssize(item.clip.samples())));
    return item;
  }

  /// Throws UserError where the text is too long for this number of frames. A transducer can emit
  /// any number of tokens at a frame. It is therefore limited to the number that its greedy search
  /// may emit.
  void require_path(const Item& item, int64_t frames) const {
    const int64_t most = std::max<int64_t>(1, model_.config.max_symbols);
    const auto tokens = std::ssize(item.tokens);
    const int64_t least = parts_.head == Head::ctc
                              ? least_ctc_frames(item.tokens)
                              : std::max<int64_t>(1, (tokens + most - 1) / most);
    if (frames >= least) return;
    throw UserError(recordings_[item.clip.recording].name,
                    fmt::format("the text is too long for the audio: its {} tokens take {} encoder "
                                "frames at least, and the audio has {} ({:.2f} s)",
                                tokens, least, frames,
                                static_cast<double>(frames) * model_.config.frame_seconds()),
                    "check that the text belongs to this recording");
  }

  /// Returns whether one more recording fits into the batch.
  bool has_room(const Item& item) const {
    const auto rows = std::ssize(batch_) + 1;
    double longest = item.clip.seconds();
    for (const Item& other : batch_) longest = std::max(longest, other.clip.seconds());
    if (options_.batch_size > 0) return rows <= options_.batch_size;
    if (!on_gpu()) return rows == 1;
    const double fitting = fitting_batch_seconds(model_, parts_.free_bytes, 1);
    return rows <= kMostRecordings && static_cast<double>(rows) * longest <= fitting &&
           fits_easily(model_, rows, static_cast<int64_t>(longest * rate()), parts_.free_bytes);
  }

  Encoded encode(const Clips& clips, std::vector<int64_t>& lengths) {
    RegionTimes times;
    const CopiedBatch copied = copy_batch(model_, clips, clock_, times);
    lengths = copied.lengths_host;
    return encode_copied(model_, *parts_.encoder, copied, clock_, times);
  }

  /// Aligns the batch and reports its results.
  void flush() {
    if (batch_.empty()) return;
    const std::vector<Item> batch = std::exchange(batch_, {});
    std::vector<size_t> indices;
    Clips clips;
    double longest = 0;
    for (const Item& item : batch) {
      indices.push_back(item.clip.recording);
      clips.push_back(item.clip.of_batch());
      longest = std::max(longest, item.clip.seconds());
    }
    observer_.started(indices);
    std::vector<Aligned> aligned;
    try {
      require_memory(std::ssize(batch), longest, "batch size");
      const ScopedRange range(batch_size(model_, clips));
      std::vector<int64_t> lengths;
      const at::Tensor frames = encode(clips, lengths).frames;
      aligned = align(frames, lengths, batch);
    } catch (...) {
      for (const size_t index : indices) tell_failure(index);
      return;
    }
    for (size_t i = 0; i < batch.size(); ++i) {
      const Clip& clip = batch[i].clip;
      tell(clip.recording, clip.seconds(), clip.audio.notices, aligned[i]);
    }
  }

  void align_long(const Item& item) {
    const size_t index = item.clip.recording;
    observer_.started({index});
    int64_t count = 0;
    std::vector<std::string> notices;
    std::vector<Aligned> aligned;
    try {
      LongClip samples(item.clip, recordings_[index], rate(), readers());
      const at::Tensor frames = encode_long(samples.source(), item.clip, count);
      notices = samples.notices();
      require_path(item, frames.size(0));
      aligned = align(frames.unsqueeze(0), {frames.size(0)}, {&item, 1});
    } catch (const Interrupted&) {
      return;
    } catch (...) {
      return tell_failure(index);
    }
    tell(index, static_cast<double>(count) / rate(), notices, aligned.front());
  }

  /// Returns how many chunks of a long recording are encoded together.
  int64_t chunks_at_once(const Clip& clip) const {
    const double seconds =
        std::min(options_.cuts.chunk_seconds + 2 * options_.cuts.context_seconds, clip.seconds());
    int64_t chunks = kChunksOnCpu;
    if (on_gpu()) {
      const double fitting = fitting_batch_seconds(model_, parts_.free_bytes, 1);
      chunks = std::clamp<int64_t>(static_cast<int64_t>(fitting / seconds), 1, kChunksOnGpu);
    }
    return fitting_chunks(model_, chunks, static_cast<int64_t>(seconds * rate()), parts_.free_bytes,
                          recordings_[clip.recording].name);
  }

  /// Returns the frames of a long recording, [T, D]. They are each chunk's own frames, without
  /// those of its contexts.
  at::Tensor encode_long(const ChunkSource& source, const Clip& clip, int64_t& samples) {
    const ModelConfig& config = model_.config;
    const auto frames_of = [&](double seconds) {
      return static_cast<size_t>(std::lround(seconds / config.frame_seconds()));
    };
    ChunkReader chunks(source, {static_cast<size_t>(config.features.hop * config.encoder.factor()),
                                std::max<size_t>(2, frames_of(options_.cuts.chunk_seconds)),
                                frames_of(options_.cuts.context_seconds),
                                [&](int64_t count) { return config.encoded_frames(count); }});
    const auto at_once = static_cast<size_t>(chunks_at_once(clip));
    std::vector<at::Tensor> parts = {at::empty(
        {0, config.encoder.frame_width()}, at::TensorOptions(model_.device).dtype(model_.dtype))};
    for (;;) {
      const std::vector<AudioChunk> some = chunks.next(at_once);
      if (some.empty()) break;
      Clips clips;
      for (const AudioChunk& chunk : some) clips.emplace_back(chunk.samples, clip.prompt);
      const ScopedRange range(batch_size(model_, clips));
      std::vector<int64_t> lengths;
      const at::Tensor frames = encode(clips, lengths).frames;
      for (size_t i = 0; i < some.size(); ++i) {
        const auto row = static_cast<int64_t>(i);
        parts.push_back(frames[row].narrow(0, some[i].left, some[i].frames).clone());
      }
      const AudioChunk& last = some.back();
      observer_.progress(clip.recording,
                         static_cast<double>(last.first + last.frames) * config.frame_seconds());
      if (observer_.stopped()) throw Interrupted();
    }
    samples = chunks.samples();
    return at::cat(parts);
  }

  /// Aligns frames [B, T, D], of which the first lengths[b] count in row b.
  std::vector<Aligned> align(const at::Tensor& frames, const std::vector<int64_t>& lengths,
                             std::span<const Item> items) {
    const ScopedRange range(RangeName::align, std::ssize(items));
    std::vector<Aligned> all;
    if (parts_.head == Head::transducer) {
      for (size_t b = 0; b < items.size(); ++b) {
        const auto row = static_cast<int64_t>(b);
        all.push_back(align_lattice(frames[row].narrow(0, 0, lengths[b]), items[b]));
      }
    } else if (items.size() == 1 && (!on_gpu() || items[0].clip.is_long)) {
      all.push_back({align_ctc(emissions_of(frames[0].narrow(0, 0, lengths[0])), items[0].tokens)});
    } else {
      std::vector<std::vector<int32_t>> texts;
      for (const Item& item : items) texts.push_back(item.tokens);
      for (Alignment& one : align_ctc_batch(log_probabilities(frames), lengths, texts))
        all.push_back({std::move(one)});
    }
    return all;
  }

  at::Tensor log_probabilities(const at::Tensor& frames) const {
    return model_.ctc_head->logits(frames).to(at::kFloat).log_softmax(-1);
  }

  /// Returns the emissions of frames [T, D], which are computed when they are read.
  EmissionSource emissions_of(const at::Tensor& frames) const {
    return {frames.size(0), model_.config.vocabulary + 1, [this, frames](int64_t first, int64_t n) {
              const at::Tensor part = frames.narrow(0, first, n).unsqueeze(0);
              return log_probabilities(part).squeeze(0).to(at::kCPU).contiguous();
            }};
  }

  Aligned align_lattice(const at::Tensor& frames, const Item& item) {
    const std::vector<int32_t>& tokens = item.tokens;
    const int64_t total = frames.size(0);
    const int64_t width =
        std::max<int64_t>(1, std::lround(options_.band_seconds / model_.config.frame_seconds()));
    if (options_.band_seconds <= 0 || width >= total) {
      const LatticeBand band = whole_lattice(total, std::ssize(tokens));
      return {align_transducer(*parts_.transducer, frames, tokens, band)};
    }
    const std::vector<int32_t> guide =
        guide_of(frames, tokens, recordings_[item.clip.recording].name);
    const LatticeBand band = band_around(guide, total, width);
    Aligned aligned{align_transducer(*parts_.transducer, frames, tokens, band)};
    const std::vector<int32_t>& found = aligned.alignment.hypothesis.frames;
    size_t at_the_edge = 0;
    for (size_t i = 0; i < found.size(); ++i) at_the_edge += std::abs(found[i] - guide[i]) >= width;
    if (at_the_edge > 0) {
      aligned.notice = fmt::format(
          "{} of {} tokens lie at the edge of the searched part of the lattice, {:g} s from where "
          "they were expected; give a larger --band, or check the text",
          at_the_edge, found.size(), options_.band_seconds);
    }
    return aligned;
  }

  /// Returns the approximate frame of each token.
  std::vector<int32_t> guide_of(const at::Tensor& frames, const std::vector<int32_t>& tokens,
                                const std::string& name) {
    if (model_.ctc_head && frames.size(0) >= least_ctc_frames(tokens)) {
      const Alignment path = align_ctc(emissions_of(frames), tokens);
      if (!path.hypothesis.nan) return path.hypothesis.frames;
    }
    const Hypothesis found = greedy(frames);
    if (tokens.size() + 1 > kMostGuideBytes / (found.tokens.size() + 1)) {
      throw UserError(name,
                      fmt::format("the {} tokens of its text and the {} that were found take too "
                                  "much memory to be compared",
                                  tokens.size(), found.tokens.size()),
                      "cut the recording, or use a model with a CTC head");
    }
    return guide_from(found, tokens, frames.size(0));
  }

  /// Searches frames [T, D] greedily, in parts of kGuideSeconds that do not depend on each other.
  Hypothesis greedy(const at::Tensor& frames) {
    const auto length =
        static_cast<int64_t>(std::ceil(kGuideSeconds / model_.config.frame_seconds()));
    if (!parts_.greedy) {
      parts_.greedy = default_greedy(model_, nlohmann::json::object(), "align", [&](Decoder& one) {
        one.prepare(shared_model_, {kGuideRows, length});
      });
    }
    Hypothesis all;
    for (int64_t first = 0; first < frames.size(0); first += kGuideRows * length) {
      const int64_t count = std::min(kGuideRows * length, frames.size(0) - first);
      EncodedBatch rows;
      for (int64_t begin = 0; begin < count; begin += length)
        rows.lengths_host.push_back(std::min(length, count - begin));
      const auto batch = std::ssize(rows.lengths_host);
      const at::Tensor part = frames.narrow(0, first, count);
      rows.frames = at::constant_pad_nd(part, {0, 0, 0, batch * length - count})
                        .view({batch, length, frames.size(1)});
      rows.lengths = at::tensor(rows.lengths_host, at::kLong).to(model_.device);
      const std::vector<Hypothesis> found = parts_.greedy->decode(rows).to_host();
      for (size_t b = 0; b < found.size(); ++b) {
        const auto offset = static_cast<int32_t>(first + static_cast<int64_t>(b) * length);
        for (size_t i = 0; i < found[b].tokens.size(); ++i) {
          all.tokens.push_back(found[b].tokens[i]);
          all.frames.push_back(found[b].frames[i] + offset);
        }
      }
    }
    return all;
  }

  /// Reports the exception that is being handled.
  void tell_failure(size_t index) {
    const RecordingFailure failure = failure_of(recordings_[index]);
    observer_.failure(index, failure.message, failure.bad_input);
  }

  void tell(size_t index, double seconds, const std::vector<std::string>& notices,
            const Aligned& aligned) {
    for (const std::string& notice : notices) observer_.notice(index, notice);
    const Hypothesis& hypothesis = aligned.alignment.hypothesis;
    if (hypothesis.nan) {
      observer_.failure(index,
                        recordings_[index].name + ": the text has no path of finite probability; " +
                            remedy_for_nan(model_),
                        false);
      return;
    }
    if (!aligned.notice.empty()) observer_.notice(index, aligned.notice);
    seconds_ += seconds;
    observer_.result(index,
                     {seconds, hypothesis,
                      transcript_of(hypothesis, aligned.alignment.evidence, *model_.tokenizer,
                                    {.frame_seconds = model_.config.frame_seconds(),
                                     .audio_seconds = seconds,
                                     .pause = options_.pause,
                                     .aggregation = "mean"})});
  }

  const std::shared_ptr<const AcousticModel>& shared_model_;
  const AcousticModel& model_;
  const AlignerOptions& options_;
  Parts& parts_;
  const std::vector<Recording>& recordings_;
  const std::vector<std::optional<std::string>>& texts_;
  TranscriptionObserver& observer_;
  RegionClock clock_;
  std::vector<Item> batch_;  // not aligned yet
  double seconds_ = 0;
  ReadAhead<Item> items_;  // must be the last member: its threads use the others
};

Aligner::Aligner(std::shared_ptr<const AcousticModel> model, const AlignerOptions& options,
                 std::shared_ptr<RecordedEncoder> encoder)
    : model_(std::move(model)),
      options_(options),
      parts_(std::make_unique<Parts>(model_, options, std::move(encoder))) {}

Aligner::~Aligner() = default;

double Aligner::run(const std::vector<Recording>& recordings,
                    const std::vector<std::optional<std::string>>& texts,
                    TranscriptionObserver& observer) {
  RTFX_CHECK(recordings.size() == texts.size(), "each recording has a text");
  synchronize(model_->device);  // weights may come from another stream
  double seconds = 0;
  on_stream(parts_->streams, &PipelineStreams::encode,
            [&] { seconds = Pass(model_, options_, *parts_, recordings, texts, observer).run(); });
  return seconds;
}

}  // namespace rtfx
