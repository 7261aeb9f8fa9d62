#include "base/error_list.h"

#include <utility>

namespace rtfx {
namespace {

std::string lines_of(const std::vector<UserError>& errors) {
  std::string text;
  for (const UserError& e : errors) text += (text.empty() ? "" : "\n") + std::string(e.what());
  return text;
}

}  // namespace

UserErrors::UserErrors(std::vector<UserError> all)
    : UserError("", lines_of(all)), all_(std::move(all)) {}

void ErrorList::add(const UserError& error) {
  if (const auto* several = dynamic_cast<const UserErrors*>(&error)) {
    errors_.insert(errors_.end(), several->all().begin(), several->all().end());
  } else {
    errors_.push_back(error);
  }
}

void ErrorList::throw_any() const {
  if (errors_.size() == 1) throw errors_.front();
  if (!errors_.empty()) throw UserErrors(errors_);
}

}  // namespace rtfx
