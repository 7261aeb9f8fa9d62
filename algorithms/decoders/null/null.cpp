// This decoder does no search, so its measured time is that of the harness. A template for new
// decoders is examples/plugin/plain_greedy.cpp.
#include "algorithms/decoder.h"

namespace rtfx {
namespace {

struct NullOptions {
  static const OptionTable<NullOptions>& table() {
    static const OptionTable<NullOptions> table{};
    return table;
  }
};

/// Every result is empty, with score 0. Never waits for the device.
class NullDecoder : public DecoderBase<NullOptions> {
 public:
  using DecoderBase::DecoderBase;

  Description describe() const override {
    return {"null", Head::none, Description::Exactness::approximate, {}, ""};
  }
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override {}
  Hypotheses decode(const EncodedBatch& batch) override {
    return Hypotheses::empty(batch.frames.size(0), batch.frames.device());
  }
};

const Register<NullDecoder> registered{
    "null", "No search: all results are empty, so the measured time is that of the harness"};

}  // namespace
}  // namespace rtfx
