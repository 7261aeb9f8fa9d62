#include "base/stop.h"

#include <utility>

namespace rtfx {
namespace {

thread_local const std::function<bool()>* asked = nullptr;

}  // namespace

StopScope::StopScope(std::function<bool()> stopped)
    : stopped_(std::move(stopped)), outer_(std::exchange(asked, &stopped_)) {}

StopScope::~StopScope() { asked = outer_; }

void check_stop() {
  if (asked != nullptr && (*asked)()) throw Interrupted();
}

}  // namespace rtfx
