#include "models/settings/config_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/error.h"

namespace rtfx {

YamlView::YamlView(const std::string& text, std::string where) : where_(std::move(where)) {
  constexpr size_t kMostBytes = size_t{32} << 20;
  if (text.size() > kMostBytes)
    throw UserError(where_, "has a YAML of more than 32 MiB", "the checkpoint is damaged");
  try {
    root_ = YAML::Load(text);
  } catch (const YAML::Exception& e) {
    throw UserError(where_, fmt::format("not YAML ({})", e.what()), "the checkpoint is damaged");
  }
}

namespace {

/// Returns the path that the interpolation `value` of the key at `path` names. "${a.b}" counts from
/// the root, "${.b}" from the map that holds the key, and "${..b}" from the map around that. The
/// path is empty if the interpolation names nothing.
std::string target_of(const std::string& path, const std::string& value) {
  const std::string name = value.substr(2, value.size() - 3);
  const size_t dots = std::min(name.find_first_not_of('.'), name.size());
  if (dots == 0 || dots == name.size()) return name.substr(dots);
  std::string base = path;
  for (size_t i = 0; i < dots; ++i) {
    const size_t end = base.rfind('.');
    base.resize(end == std::string::npos ? 0 : end);
  }
  return base.empty() ? name.substr(dots) : base + "." + name.substr(dots);
}

}  // namespace

YAML::Node YamlView::find(const std::string& path) const {
  int left = kMostInterpolations;
  const std::optional<YAML::Node> found = follow(path, left);
  return found ? *found : YAML::Node(YAML::NodeType::Null);
}

std::optional<YAML::Node> YamlView::follow(const std::string& path, int& left) const {
  YAML::Node node = root_;
  std::string here;
  std::istringstream keys(path);
  for (std::string key; std::getline(keys, key, '.');) {
    if (!node.IsMap()) return std::nullopt;
    // The node is constant, since a look-up in another one would create a missing key.
    const YAML::Node child = std::as_const(node)[key];
    if (!child.IsDefined()) return std::nullopt;
    node.reset(child);
    here += here.empty() ? key : "." + key;
    const std::string value = node.IsScalar() ? node.Scalar() : "";
    if (!value.starts_with("${") || !value.ends_with("}")) continue;
    if (left-- == 0)
      throw UserError(where_, fmt::format("{}: interpolations run in a circle", here),
                      "the YAML is damaged");
    const std::string to = target_of(here, value);
    const auto target = to.empty() ? std::nullopt : follow(to, left);
    if (!target)
      throw UserError(where_, fmt::format("{} is {}, which names no key of the YAML", here, value),
                      "write the value itself, as NeMo's save_to() does");
    node.reset(*target);
  }
  return node;
}

template <class T>
std::optional<T> YamlView::as(const std::string& path, const char* type) const {
  const YAML::Node node = find(path);
  if (node.IsNull()) return std::nullopt;
  try {
    return node.as<T>();
  } catch (const YAML::Exception&) {
    throw UserError(where_, fmt::format("{} is not {}", path, type),
                    "the YAML is not of a supported model");
  }
}

std::optional<std::string> YamlView::text(const std::string& path) const {
  return as<std::string>(path, "text");
}
std::optional<int64_t> YamlView::integer(const std::string& path) const {
  return as<int64_t>(path, "an integer");
}
std::optional<double> YamlView::number(const std::string& path) const {
  return as<double>(path, "a number");
}
std::optional<bool> YamlView::boolean(const std::string& path) const {
  return as<bool>(path, "a boolean");
}
std::optional<std::vector<int64_t>> YamlView::integers(const std::string& path) const {
  return as<std::vector<int64_t>>(path, "a list of integers");
}
std::optional<std::vector<std::string>> YamlView::texts(const std::string& path) const {
  return as<std::vector<std::string>>(path, "a list of texts");
}

std::vector<std::string> YamlView::keys(const std::string& path) const {
  const YAML::Node node = find(path);
  std::vector<std::string> all;
  if (!node.IsMap()) return all;
  for (const auto& entry : node) all.push_back(entry.first.Scalar());
  return all;
}

std::optional<std::vector<double>> YamlView::numbers(const std::string& path) const {
  return as<std::vector<double>>(path, "a list of numbers");
}
std::optional<std::vector<std::vector<int64_t>>> YamlView::integer_lists(
    const std::string& path) const {
  const YAML::Node node = find(path);
  if (node.IsSequence() && node.size() > 0 && node[0].IsScalar()) return {{*integers(path)}};
  return as<std::vector<std::vector<int64_t>>>(path, "a list of lists of integers");
}
bool YamlView::has(const std::string& path) const { return !find(path).IsNull(); }
bool YamlView::is_list(const std::string& path) const { return find(path).IsSequence(); }

bool YamlView::has_content(const std::string& path) const {
  const YAML::Node node = find(path);
  return node.IsScalar() ? !node.Scalar().empty() : node.size() > 0;
}

bool YamlView::states_null(const std::string& path) const {
  const size_t dot = path.rfind('.');
  const YAML::Node parent = find(dot == std::string::npos ? "" : path.substr(0, dot));
  return parent.IsMap() && std::as_const(parent)[path.substr(dot + 1)].IsDefined() && !has(path);
}

void YamlView::require(const std::string& path, const std::vector<std::string>& supported) const {
  const YAML::Node node = find(path);
  if (node.IsNull()) return;
  const std::string value = node.IsScalar() ? node.Scalar() : YAML::Dump(node);
  if (std::find(supported.begin(), supported.end(), value) == supported.end()) {
    throw UserError(
        where_, fmt::format("unsupported setting {}: {}", path, value),
        fmt::format("rtfx supports: {}",
                    supported.empty() ? "null" : fmt::format("{}", fmt::join(supported, ", "))));
  }
}

bool ConfigSource::has_prefix(const std::string& prefix) const {
  const auto found = weights.lower_bound(prefix);
  return found != weights.end() && found->first.starts_with(prefix);
}

const at::Tensor& ConfigSource::tensor(const std::string& name) const {
  const auto found = weights.find(name);
  if (found == weights.end()) {
    refuse(fmt::format("tensor '{}' is missing", name),
           "not a CTC, RNN-T or TDT model with a Conformer encoder, or incomplete");
  }
  return found->second;
}

int64_t ConfigSource::extent(const std::string& name, int64_t axes, int64_t axis) const {
  const at::Tensor& t = tensor(name);
  if (t.dim() != axes || t.numel() == 0) {
    refuse(fmt::format("tensor '{}' has shape [{}], expected {} extents, none of them 0", name,
                       fmt::join(t.sizes(), ", "), axes),
           "the checkpoint is damaged");
  }
  return t.size(axis);
}

int64_t ConfigSource::decide(const std::string& path, int64_t from_tensors) const {
  const auto from_yaml = yaml.integer(path);
  if (from_yaml && *from_yaml != from_tensors) {
    notices.push_back(fmt::format("{}: the YAML says {}, the tensors {}; the tensors decide", path,
                                  *from_yaml, from_tensors));
  }
  return from_tensors;
}

int64_t ConfigSource::count(const std::string& prefix, const std::string& suffix) const {
  int64_t n = 0;
  while (has(fmt::format("{}{}{}", prefix, n, suffix))) ++n;
  return n;
}

int64_t ConfigSource::integer(const std::string& path, int64_t otherwise, int64_t least,
                              int64_t most) const {
  const int64_t value = yaml.integer(path).value_or(otherwise);
  if (value < least || value > most) {
    refuse(fmt::format("{} is {}", path, value), fmt::format("{} to {} is possible", least, most));
  }
  return value;
}

void ConfigSource::refuse(const std::string& problem, const std::string& remedy) const {
  throw UserError(yaml.where(), problem, remedy);
}

}  // namespace rtfx
