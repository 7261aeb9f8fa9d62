#include "models/settings/encoder_settings.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <charconv>

#include "models/settings/contexts.h"

namespace rtfx {
namespace {

const std::string kEncoder = "encoder.";
const std::string kLayer = "encoder.layers.0.";
constexpr int64_t kMostFactor = 256;
constexpr size_t kMostContexts = 1000;
constexpr int64_t kMostTokens = 100'000;  // of global attention, and frames between them

class EncoderReader {
 public:
  EncoderReader(const ConfigSource& source, int64_t mel_bins)
      : source_(source), yaml_(source.yaml), mel_bins_(mel_bins) {}

  EncoderConfig read() {
    read_sizes();
    read_front_end();
    read_convolution();
    read_attention();
    read_contexts();
    if (source_.has("encoder.out_proj.weight")) {
      e_.output_width =
          source_.decide(kEncoder + "feat_out", source_.extent("encoder.out_proj.weight", 2, 0));
    }
    read_reduction();
    return e_;
  }

 private:
  bool flag(const std::string& key, bool otherwise) const {
    return yaml_.boolean(kEncoder + key).value_or(otherwise);
  }

  void read_sizes() {
    e_.layers =
        source_.decide(kEncoder + "n_layers", source_.count("encoder.layers.", ".norm_out.weight"));
    const std::string linear = kLayer + "feed_forward1.linear1.weight";
    e_.width = source_.decide(kEncoder + "d_model", source_.extent(linear, 2, 1));
    e_.feed_forward_expansion =
        source_.decide(kEncoder + "ff_expansion_factor", source_.extent(linear, 2, 0) / e_.width);
    e_.use_bias = source_.has(kLayer + "feed_forward1.linear1.bias");
    if (const auto stated = yaml_.boolean(kEncoder + "use_bias");
        stated && *stated != e_.use_bias) {
      source_.notices.push_back(
          fmt::format("encoder.use_bias: the YAML says {}, the tensors {}", *stated, e_.use_bias));
    }
    e_.x_scaling = flag("xscaling", true);
  }

  void read_front_end() {
    // NeMo 2.5 and later fails on its own vggnet, striding_conv1d and dw_striding_conv1d: its masks
    // know two-dimensional convolutions only.
    yaml_.require(kEncoder + "subsampling",
                  {"dw_striding", "striding", "stacking", "stacking_norm"});
    if (source_.has("encoder.pre_encode.weight") ||
        source_.has("encoder.pre_encode.proj_out.weight")) {
      return read_stacking();
    }
    const std::string conv = "encoder.pre_encode.conv.";
    e_.depthwise_subsampling = source_.has(conv + "3.weight");
    e_.causal_downsampling = flag("causal_downsampling", false);
    e_.subsampling_channels = source_.extent(conv + "0.weight", 4, 0);
    e_.subsampling_factor = 2;
    const int64_t step = e_.depthwise_subsampling ? 3 : 2;
    for (int64_t i = 2; source_.has(fmt::format("{}{}.weight", conv, i)); i += step) {
      e_.subsampling_factor *= 2;
      if (e_.subsampling_factor > kMostFactor)
        source_.refuse("the encoder sub-samples too much",
                       fmt::format("at most {} times is possible", kMostFactor));
    }
    source_.decide(kEncoder + "subsampling_factor", e_.subsampling_factor);
  }

  void read_stacking() {
    e_.front_end = EncoderConfig::FrontEnd::stacking;
    e_.stacking_norm = source_.has("encoder.pre_encode.pre_norm.weight");
    e_.subsampling_factor = 1;
    if (!source_.has("encoder.pre_encode.proj_out.weight")) return;
    const int64_t stacked = source_.extent("encoder.pre_encode.proj_out.weight", 2, 1);
    if (stacked % mel_bins_ != 0 || stacked / mel_bins_ > kMostFactor) {
      source_.refuse(fmt::format("stacks of {} numbers, {} mel bins", stacked, mel_bins_),
                     "the checkpoint and its YAML do not belong together");
    }
    e_.subsampling_factor = source_.decide(kEncoder + "subsampling_factor", stacked / mel_bins_);
  }

  void read_convolution() {
    using Norm = EncoderConfig::ConvolutionNorm;
    e_.conv_kernel = source_.decide(kEncoder + "conv_kernel_size",
                                    source_.extent(kLayer + "conv.depthwise_conv.weight", 3, 2));
    const std::string norm = yaml_.text(kEncoder + "conv_norm_type").value_or("batch_norm");
    const std::string group = "group_norm";
    if (norm == "batch_norm") {
      e_.conv_norm = Norm::batch;
    } else if (norm == "fused_batch_norm") {
      e_.conv_norm = Norm::fused_batch;
    } else if (norm == "layer_norm") {
      e_.conv_norm = Norm::layer;
    } else if (norm == "instance_norm") {
      e_.conv_norm = Norm::instance;
    } else {
      e_.conv_norm = Norm::group;
      const char* const end = norm.data() + norm.size();
      const bool named =
          norm.starts_with(group) && norm.size() > group.size() &&
          std::from_chars(norm.data() + group.size(), end, e_.norm_groups).ptr == end;
      if (!named || e_.norm_groups < 1 || e_.width % e_.norm_groups != 0) {
        source_.refuse("unsupported setting encoder.conv_norm_type: " + norm,
                       "rtfx supports: batch_norm, fused_batch_norm, layer_norm, instance_norm, "
                       "group_norm<N> with N groups of equal width");
      }
    }
    read_convolution_context();
  }

  void read_convolution_context() {
    const std::string path = kEncoder + "conv_context_size";
    if (e_.conv_kernel % 2 == 0)
      source_.refuse(fmt::format("conv_kernel_size is {}", e_.conv_kernel), "it must be odd");
    e_.conv_right_context = (e_.conv_kernel - 1) / 2;
    if (!yaml_.has(path)) return;
    if (!yaml_.is_list(path)) {
      yaml_.require(path, {"causal"});
      e_.conv_right_context = 0;
      return;
    }
    const auto sides = *yaml_.integers(path);
    if (sides.size() != 2 || sides[0] < 0 || sides[1] < 0 || sides[0] >= e_.conv_kernel ||
        sides[0] + sides[1] + 1 != e_.conv_kernel) {
      source_.refuse(fmt::format("{} does not fit a kernel of {}", path, e_.conv_kernel),
                     "give causal, or [left, right] that together are one less than the kernel");
    }
    e_.conv_right_context = sides[1];
  }

  void read_attention() {
    using Positions = EncoderConfig::Positions;
    const std::string path = kEncoder + "self_attention_model";
    yaml_.require(path, {"rel_pos", "rel_pos_local_attn", "abs_pos"});
    const std::string model = yaml_.text(path).value_or("rel_pos");
    e_.positions = model == "abs_pos"              ? Positions::absolute
                   : model == "rel_pos_local_attn" ? Positions::local
                                                   : Positions::relative;
    if (e_.positions == Positions::absolute) {
      e_.heads = source_.integer(kEncoder + "n_heads", 4, 1, e_.width);
    } else {
      e_.heads = source_.decide(kEncoder + "n_heads",
                                source_.extent(kLayer + "self_attn.pos_bias_u", 2, 0));
    }
    if (e_.width % e_.heads != 0) {
      source_.refuse(fmt::format("{} heads do not divide a width of {}", e_.heads, e_.width),
                     "the checkpoint is damaged");
    }
    if (e_.positions != Positions::local) return;
    e_.global_tokens = source_.integer(kEncoder + "global_tokens", 0, 0, kMostTokens);
    e_.global_tokens_spacing =
        source_.integer(kEncoder + "global_tokens_spacing", 1, 1, kMostTokens);
    e_.global_attn_separate = flag("global_attn_separate", false);
  }

  void read_contexts() {
    using Style = EncoderConfig::ContextStyle;
    const std::string style = kEncoder + "att_context_style", sizes = kEncoder + "att_context_size";
    yaml_.require(style, {"regular", "chunked_limited", "chunked_limited_with_rc"});
    const std::string name = yaml_.text(style).value_or("regular");
    const bool local = e_.positions == EncoderConfig::Positions::local;
    ModelConfig chosen;
    if (const auto lists = yaml_.integer_lists(sizes); lists && !lists->empty())
      e_.contexts = *lists;
    if (name == "chunked_limited" && !local) e_.context_style = Style::chunked;
    if (name == "chunked_limited_with_rc" && !local) {
      e_.context_style = Style::chunked_with_right;
      e_.contexts = trained_contexts();
    }
    chosen.encoder = e_;
    // The first one last: it is the default.
    for (auto context = e_.contexts.rbegin(); context != e_.contexts.rend(); ++context)
      select_context(chosen, *context, fmt::format("{}: {}", yaml_.where(), sizes));
    e_ = chosen.encoder;
  }

  /// Everything first, which is what NeMo starts with whatever att_context_size says; then what the
  /// model was trained with: one of each of the three lists.
  std::vector<std::vector<int64_t>> trained_contexts() const {
    std::vector<std::vector<int64_t>> all = {{-1, -1, -1}};
    const auto lists = yaml_.integer_lists(kEncoder + "att_chunk_context_size");
    if (!lists || lists->size() != 3) return all;
    for (const int64_t left : (*lists)[0]) {
      for (const int64_t chunk : (*lists)[1]) {
        for (const int64_t right : (*lists)[2]) {
          if (left >= 0 && chunk >= 1 && right >= 0 && all.size() < kMostContexts)
            all.push_back({left, chunk, right});
        }
      }
    }
    return all;
  }

  void read_reduction() {
    using Reduction = EncoderConfig::Reduction;
    using Norm = EncoderConfig::ConvolutionNorm;
    const std::string path = kEncoder + "reduction";
    yaml_.require(path, {"pooling", "striding"});
    e_.reduction_factor =
        yaml_.has(path) ? source_.integer(kEncoder + "reduction_factor", 1, 1, kMostFactor) : 1;
    if (e_.reduction_factor == 1) return;
    if ((e_.reduction_factor & (e_.reduction_factor - 1)) != 0)
      source_.refuse(fmt::format("{}_factor is {}", path, e_.reduction_factor),
                     "a power of 2 is possible");
    if (e_.conv_norm == Norm::group || e_.conv_norm == Norm::instance)
      source_.refuse(path + " with a norm over time in the convolutions",
                     "rtfx supports one or the other");
    e_.reduction = yaml_.text(path) == "pooling" ? Reduction::pooling : Reduction::striding;
    e_.reduction_position = source_.integer(kEncoder + "reduction_position", -1, -1, e_.layers - 1);
    if (e_.reduction == Reduction::striding && e_.reduction_position < 0 && e_.output_width > 0)
      source_.refuse(path + ": striding behind encoder.feat_out", "NeMo cannot run that either");
  }

  const ConfigSource& source_;
  const YamlView& yaml_;
  int64_t mel_bins_;
  EncoderConfig e_;
};

}  // namespace

EncoderConfig read_encoder(const ConfigSource& source, int64_t mel_bins) {
  return EncoderReader(source, mel_bins).read();
}

}  // namespace rtfx
