// Tests how utterances are divided into requests.
#include "harness/stream/requests.h"

#include <gtest/gtest.h>

namespace rtfx {
namespace {

TEST(Requests, BringAPeriodEachAndTheLastOneTheRest) {
  StreamSettings o;  // 400 ms without overlap
  EXPECT_EQ(request_ends(o, 12, 0.08, 0.95), std::vector<int64_t>({5, 10, 12}));
  EXPECT_EQ(request_ends(o, 10, 0.08, 0.8), std::vector<int64_t>({5, 10}));
  EXPECT_EQ(request_ends(o, 3, 0.08, 0.2), std::vector<int64_t>({3}));
  EXPECT_EQ(request_ends(o, 0, 0.08, 0.0), std::vector<int64_t>({0}));
  // Chunks of 600 ms come every 400 ms. So the second request holds 0.4 to 1.0 s, which is the end.
  o.chunk_ms = 600;
  EXPECT_EQ(request_ends(o, 12, 0.08, 0.95), std::vector<int64_t>({5, 12}));
  EXPECT_EQ(request_ends(o, 14, 0.08, 1.05), std::vector<int64_t>({5, 10, 14}));
  // With a period of half a frame, some requests bring no frame.
  o.period_ms = o.chunk_ms = 40;
  EXPECT_EQ(request_ends(o, 2, 0.08, 0.16), std::vector<int64_t>({0, 1, 1, 2}));
}

}  // namespace
}  // namespace rtfx
