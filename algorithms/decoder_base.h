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
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "algorithms/registry.h"

namespace rtfx {

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
  Register(std::string name, std::string summary, bool needs_gpu = false)
      : RegisterDecoder({std::move(name), std::move(summary), SomeDecoder::table().info(),
                         [](const nlohmann::json& options, std::string_view where) {
                           return std::make_unique<SomeDecoder>(
                               SomeDecoder::table().fill(options, where));
                         },
                         needs_gpu}) {}
};

}  // namespace rtfx
