// A plugin for the tests of isolated runs: returns nothing, until it ends its process by a signal.
#include <csignal>

#include "algorithms/registry.h"

namespace rtfx {
namespace {

struct Options {
  int64_t signal = SIGKILL;
  int64_t decodes = 0;
};
const OptionTable<Options> kOptions{{
    option("signal", &Options::signal, "which ends the process", 1, 64),
    option("decodes", &Options::decodes, "calls of decode() that go well before it", 0),
}};

class FaultyDecoder : public Decoder {
 public:
  explicit FaultyDecoder(const Options& options) : options_(options) {}

  Description describe() const override {
    return {"faulty", Head::none, Description::Exactness::approximate, {}, ""};
  }
  nlohmann::json options() const override { return kOptions.resolved(options_); }
  void prepare(std::shared_ptr<const AcousticModel> model, const Limits& limits) override {}
  Hypotheses decode(const EncodedBatch& batch) override {
    if (calls_++ == options_.decodes) std::raise(static_cast<int>(options_.signal));
    return Hypotheses::empty(batch.frames.size(0), batch.frames.device());
  }

 private:
  Options options_;
  int64_t calls_ = 0;
};

const RegisterDecoder registered{{"faulty", "ends its process", kOptions.info(),
                                  [](const nlohmann::json& options, std::string_view where) {
                                    return std::make_unique<FaultyDecoder>(
                                        kOptions.fill(options, where));
                                  }}};

}  // namespace
}  // namespace rtfx
