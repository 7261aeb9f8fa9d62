// One function for each file format of `rtfx export`, and what they share. A new format also needs
// a name in export_formats() and an entry in export_results().
#pragma once

#include <string>
#include <vector>

#include "harness/results/metrics.h"
#include "harness/results/tuned.h"

namespace rtfx {

std::string export_gbench(const ResultSet& results, const std::vector<Metric>& metrics);
std::string export_bmf(const ResultSet& results, const std::vector<Metric>& metrics);
std::string export_github_action(const ResultSet& results, const std::vector<Metric>& metrics,
                                 bool smaller_is_better);
std::string export_prometheus(const ResultSet& results, const std::vector<Metric>& metrics);
std::string export_csv(const ResultSet& results, const std::vector<Metric>& metrics);
std::string export_markdown(const ResultSet& results, const std::vector<Metric>& metrics);
std::string export_latex(const ResultSet& results, const std::vector<Metric>& metrics);

// Shared parts.

record::Build build_of(const record::Provenance& provenance);

/// Says that `rtfx tune` chose weights of the case; empty if it did not.
std::string tuned_text(const std::vector<TunedSearch>& searches, const CaseResult& c);

/// Returns the name of the device that measured, or `unknown`.
std::string device_name(const record::Provenance& provenance, const std::string& unknown);

}  // namespace rtfx
