// Tests the models and data sets of a configuration.
#include "harness/run/loaded_inputs.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "speech/runtime/stages.h"

namespace rtfx {
namespace {

TEST(LoadedInputs, ReadingOfAudioCanBeInterrupted) {
  const auto here = std::filesystem::current_path().string();
  const nlohmann::json document = {
      {"question", "does it stop?"},
      {"models", {here + "/models/quickstart/quickstart-rnnt.nemo"}},
      {"datasets", {{{"id", "d"}, {"manifest", here + "/datasets/quickstart/manifest.jsonl"}}}},
      {"decoders", {"label_looping"}},
      {"batch_sizes", {1}},
      {"device", "cpu"}};
  LoadedInputs inputs(parse_config({document, "c.json"}));
  const auto interrupted = [&] {
    const InterruptWatch watch;
    std::raise(SIGINT);
    try {
      inputs.read_audio_files();
    } catch (const Interrupted&) {
      std::_Exit(0);
    }
    std::_Exit(1);
  };
  EXPECT_EXIT(interrupted(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace rtfx
