// Tests views of stored bytes, and which of them a storage allows.
#include "models/checkpoint/tensor_data.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "tests/support/own_path.h"

namespace rtfx {
namespace {

using Sizes = std::vector<int64_t>;

StoredBytes numbers(int count, int behind = 0) {
  auto bytes = std::make_shared<std::string>();
  bytes->append(static_cast<size_t>(behind), '\0');
  for (int i = 0; i < count; ++i) {
    const auto value = static_cast<float>(i);
    bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return {std::string_view(*bytes).substr(static_cast<size_t>(behind)), nullptr, bytes};
}

at::Tensor view(const StoredBytes& storage, int64_t offset, const Sizes& sizes,
                const Sizes& strides) {
  return stored_tensor(storage, at::kFloat, offset, sizes, strides, "file", "w");
}

TEST(MappedTensor, ViewsWithStridesAndOffsets) {
  const StoredBytes storage = numbers(12);
  const at::Tensor all = at::arange(12, at::kFloat);
  EXPECT_TRUE(at::equal(view(storage, 0, {3, 4}, {4, 1}), all.view({3, 4})));
  EXPECT_TRUE(at::equal(view(storage, 0, {4, 3}, {1, 4}), all.view({3, 4}).t()));
  EXPECT_TRUE(at::equal(view(storage, 5, {2}, {3}), at::tensor({5.0f, 8.0f})));
  EXPECT_TRUE(at::equal(view(storage, 11, {}, {}), at::scalar_tensor(11.0)));
  EXPECT_EQ(view(storage, 12, {0}, {1}).numel(), 0);
  EXPECT_TRUE(at::equal(view(storage, 2, {3, 2}, {0, 1}),
                        at::tensor({2.0f, 3.0f}).expand({3, 2})));  // repeats
}

TEST(MappedTensor, AddressesThatDoNotSuitTheTypeAreCopied) {
  EXPECT_TRUE(at::equal(view(numbers(6, 1), 1, {2, 2}, {1, 2}),
                        at::tensor({1.0f, 3.0f, 2.0f, 4.0f}).view({2, 2})));
}

TEST(MappedTensor, NothingReachesOutside) {
  const StoredBytes storage = numbers(12);
  constexpr int64_t kHuge = int64_t{1} << 62;
  EXPECT_THROW(view(storage, 0, {13}, {1}), UserError);
  EXPECT_THROW(view(storage, 1, {3, 4}, {4, 1}), UserError);
  EXPECT_THROW(view(storage, -1, {2}, {1}), UserError);
  EXPECT_THROW(view(storage, kHuge, {2}, {1}), UserError);
  EXPECT_THROW(view(storage, 4, {2}, {-1}), UserError);
  EXPECT_THROW(view(storage, 0, {2}, {kHuge}), UserError);
  EXPECT_THROW(view(storage, 0, {kHuge, kHuge}, {1, 1}), UserError);
  EXPECT_THROW(view(storage, 0, {-2}, {1}), UserError);
  EXPECT_THROW(view(storage, 0, {2, 2}, {1}), UserError);
  EXPECT_THROW(view(storage, 0, {kHuge}, {0}), UserError);  // a copy of it would be huge
}

TEST(MappedTensor, PagesComeBackFromTheFile) {
  const auto path = test::own_path("tensor");
  const StoredBytes source = numbers(100'000);
  std::ofstream(path, std::ios::binary) << source.bytes;
  const auto file = MappedFile::open(path);
  const at::Tensor tensor = view({file->bytes(), file, nullptr}, 0, {100'000}, {1});
  const double sum = tensor.sum().item<double>();
  fetch_pages(tensor);
  release_pages(tensor);
  EXPECT_EQ(tensor.sum().item<double>(), sum);
  at::Tensor own = tensor.clone();
  release_pages(own);  // nothing happens to memory that is not a file's
  EXPECT_EQ(own.sum().item<double>(), sum);
}

}  // namespace
}  // namespace rtfx
