#include "harness/run/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"
#include "harness/run/provenance.h"
#include "harness/run/record.h"
#include "speech/runtime/build.h"
#include "speech/runtime/interrupt.h"

namespace rtfx {

Session::Session(const Config& config, const SessionOptions& options)
    : scope_(config.threads, config.device, "device"),
      workspace_(config),
      plan_(make_plan(config, workspace_.kinds())),
      options_(options),
      journal_(config.output, options.mode, options.journal),
      records_(read_journal(journal_.path())) {}

bool Session::run(const std::function<void()>& work, const char* remark) {
  try {
    if (const std::string warning = build_warning(); !warning.empty())
      fmt::print(stderr, "rtfx: warning: {}\n", warning);
    workspace_.read_audio_files();
    workspace_.keep(options_.shard);
    print_notices();
    const record::Provenance provenance = provenance_record(workspace_, device(), utc_now());
    provenance_id_ = *provenance.provenance_id;
    append(provenance);
    work();
    return true;
  } catch (const Interrupted&) {
    fmt::print(stderr, "\nrtfx: interrupted; {}\n", remark);
    return false;
  }
}

void Session::print_notices() const {
  for (size_t i = 0; i < workspace_.checkpoints().size(); ++i) {
    for (const std::string& notice : workspace_.checkpoints()[i].notices)
      fmt::print(stderr, "rtfx: notice: {}: {}\n", printable(config().models[i].path.string()),
                 printable(notice));
  }
  constexpr size_t kShown = 5;
  for (const LoadedDataset& dataset : workspace_.datasets()) {
    for (size_t i = 0; i < std::min(kShown, dataset.notices.size()); ++i)
      fmt::print(stderr, "rtfx: notice: {}\n", printable(dataset.notices[i]));
    if (dataset.notices.size() > kShown) {
      fmt::print(stderr, "rtfx: notice: ... and {} more like these\n",
                 dataset.notices.size() - kShown);
    }
  }
}

void Session::append(nlohmann::json record) {
  record.update(options_.marks);
  record["provenance_id"] = provenance_id_;
  journal_.append(record);
  records_.push_back(std::move(record));
}

void Session::append_failure(const CaseGroup& group, const Arm& arm, const std::string& stage,
                             const std::string& message) {
  append(failure_record(workspace_, group, arm, device(), stage, message));
}

}  // namespace rtfx
