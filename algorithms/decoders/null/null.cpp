// Returns nothing: measures the harness itself, and is the smallest decoder to copy from.
#include "algorithms/registry.h"

namespace rtfx {
namespace {

struct Options {};
const OptionTable<Options> kOptions{};

/// Every result is empty, with score 0. Never waits for the device.
class NullDecoder : public Decoder {
 public:
  Description describe() const override {
    return {"null", Head::none, Description::Exactness::approximate, {}, ""};
  }
  nlohmann::json options() const override { return nlohmann::json::object(); }
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override {}
  Hypotheses decode(const EncodedBatch& batch) override {
    return Hypotheses::empty(batch.frames.size(0), batch.frames.device());
  }
};

const RegisterDecoder registered{{"null", "returns nothing: the cost of the harness itself",
                                  kOptions.info(),
                                  [](const nlohmann::json& options, std::string_view where) {
                                    kOptions.fill(options, where);
                                    return std::make_unique<NullDecoder>();
                                  }}};

}  // namespace
}  // namespace rtfx
