// Prints a line of JSON for each audio file that rtfx reads:
//   rtfx_read_audio FILE...
// "samples" counts samples at 16 kHz. "sounds" holds the begin and the end of each sound in
// seconds, where sounds are apart by more than 50 ms of silence. "seconds" is the length in the
// file's header, or 0 if it has none. A file that is refused has "error" instead.
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.h"
#include "datasets/media.h"

namespace {

using Sounds = std::vector<std::pair<double, double>>;

Sounds sounds_of(const rtfx::Audio& audio) {
  constexpr float kSilence = 0.05F;
  constexpr double kPause = 0.05;  // seconds
  Sounds sounds;
  for (size_t i = 0; i < audio.samples.size(); ++i) {
    if (std::abs(audio.samples[i]) < kSilence) continue;
    const double at = static_cast<double>(i) / audio.sample_rate;
    if (sounds.empty() || at - sounds.back().second > kPause) sounds.emplace_back(at, at);
    sounds.back().second = at;
  }
  return sounds;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    nlohmann::json line = {{"file", argv[i]}};
    try {
      const rtfx::Audio audio = rtfx::read_media(argv[i]);
      line["samples"] = audio.samples.size();
      line["sounds"] = sounds_of(audio);
      line["seconds"] = rtfx::media_seconds(argv[i]);
      line["notices"] = audio.notices;
    } catch (const rtfx::UserError& error) {
      line["error"] = error.what();
    }
    std::cout << line.dump() << '\n';
  }
  return 0;
}
