// The message of an error, for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace rtfx::test {

/// Returns the message of the UserError that `call` throws. It is empty if there is none.
template <class Call>
std::string user_error(const Call& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace rtfx::test

#define EXPECT_HAS(text, part) EXPECT_PRED_FORMAT2(::testing::IsSubstring, part, text)
