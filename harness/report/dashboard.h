// `rtfx dashboard`: makes one static folder that shows how figures changed over many journals.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "harness/results/results.h"

namespace rtfx {

struct DashboardOptions {
  std::filesystem::path journals, output;  // folders
  bool pages = false;                      // makes the page of each run that has none
};

/// Returns the facts that plots/dashboard.py draws, with the runs sorted by time:
///   {"metrics": metrics_json(), "mark_meanings",
///    "runs": [{"journal" (within `folder`), "started", "revision", "dirty", "machine",
///              "cases": [{"case", "model", "dataset", "decoder", "batch", "dtype",
///                         "conditions" (conditions_of()), "grade", "failure", "marks",
///                         "figures" (figures_json())}]}]}
nlohmann::json dashboard_facts(const std::filesystem::path& folder,
                               const std::vector<ResultSet>& runs);

/// Reads every journal below a folder. Writes index.html and the pages of the runs. Throws
/// UserError.
void dashboard(const DashboardOptions& options);

}  // namespace rtfx
