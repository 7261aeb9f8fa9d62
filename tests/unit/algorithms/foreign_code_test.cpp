#include "algorithms/foreign_code.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cfenv>
#include <filesystem>
#include <limits>

#include "tests/unit/datasets/temp_folder.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

namespace rtfx {
namespace {

using Changes = std::vector<std::string>;

/// Returns the changes that `work` makes, and expects that restore() undoes all of them.
template <class Work>
Changes changes_by(const Work& work) {
  const SharedSettings before;
  work();
  const Changes changes = before.restore();
  EXPECT_EQ(before.restore(), Changes());
  return changes;
}

TEST(SharedSettings, NothingHasChanged) {
  EXPECT_EQ(changes_by([] { at::ones({2}).add_(1); }), Changes());
}

TEST(SharedSettings, Threads) {
  const int threads = at::get_num_threads();
  EXPECT_EQ(changes_by([&] { at::set_num_threads(threads + 2); }),
            Changes({fmt::format("the number of threads ({} -> {})", threads, threads + 2)}));
  EXPECT_EQ(at::get_num_threads(), threads);
}

TEST(SharedSettings, Autocast) {
  const Changes changes = changes_by([] {
    at::autocast::increment_nesting();
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kHalf);
    at::autocast::set_autocast_cache_enabled(false);
  });
  EXPECT_EQ(changes, Changes({"autocast on the CPU (off -> on)", "the dtype of autocast on the CPU",
                              "the cache of autocast (on -> off)"}));
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  EXPECT_EQ(at::autocast::increment_nesting(), 1);
  at::autocast::decrement_nesting();
}

TEST(SharedSettings, Gradients) {
  const c10::InferenceMode inference;
  EXPECT_EQ(changes_by([] { c10::GradMode::set_enabled(true); }),
            Changes({"gradients (off -> on)"}));
  EXPECT_FALSE(c10::GradMode::is_enabled());
}

TEST(SharedSettings, Precision) {
  at::globalContext().setAllowTF32CuBLAS(false);  // as AcousticModel::build() does
  at::globalContext().setAllowTF32CuDNN(false);
  EXPECT_EQ(changes_by([] { c10::set_default_dtype(caffe2::TypeMeta::Make<double>()); }),
            Changes({"the default dtype"}));
  EXPECT_EQ(at::ones({1}).dtype(), at::kFloat);
  const Changes changes =
      changes_by([] { at::globalContext().setFloat32MatmulPrecision("medium"); });
  EXPECT_HAS(fmt::format("{}", fmt::join(changes, ", ")),
             "the precision of float32 products on the GPU");
  EXPECT_EQ(at::globalContext().float32MatmulPrecision(), at::Float32MatmulPrecision::HIGHEST);
}

TEST(SharedSettings, Rounding) {
  EXPECT_EQ(changes_by([] { std::fesetround(FE_TOWARDZERO); }), Changes({"the rounding mode"}));
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
}

#ifdef __SSE2__
TEST(SharedSettings, DenormalNumbers) {
  const Changes flushed = {"what denormal numbers count as"};
  EXPECT_EQ(changes_by([] { _mm_setcsr(_mm_getcsr() | 0x8000); }), flushed);  // in results
  EXPECT_EQ(changes_by([] { _mm_setcsr(_mm_getcsr() | 0x0040); }), flushed);  // in operands
}
#endif

TEST(SharedSettings, Cpus) {
  cpu_set_t all{};
  sched_getaffinity(0, sizeof all, &all);
  if (CPU_COUNT(&all) < 2) GTEST_SKIP() << "needs two CPUs";
  const Changes changes = changes_by([&] {
    cpu_set_t one{};
    for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu)
      if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
  });
  EXPECT_EQ(changes, Changes({fmt::format("the number of CPUs ({} -> 1)", CPU_COUNT(&all))}));
}

TEST(SharedSettings, WorkingDirectory) {
  const auto before = std::filesystem::current_path();
  EXPECT_EQ(changes_by([] { std::filesystem::current_path("/"); }),
            Changes({"the working directory"}));
  EXPECT_EQ(std::filesystem::current_path(), before);
}

/// NaN is compared by its bits. Memory that lies between the elements of a view is ignored.
TEST(SharedTensors, ComparesBits) {
  const at::Tensor all = at::arange(12, at::kFloat).reshape({3, 4});
  const at::Tensor view = all.t().narrow(0, 1, 2);
  view[0][0] = std::numeric_limits<float>::quiet_NaN();
  const SharedTensors shared({{"a", view}, {"b", at::zeros({2})}, {"none", at::zeros({0})}});
  EXPECT_EQ(shared.restore(), Changes());
  all[0][0] = 5;
  EXPECT_EQ(shared.restore(), Changes());
  view[1][2] = 7;
  EXPECT_EQ(shared.restore(), Changes({"a"}));
  EXPECT_EQ(all[2][2].item<float>(), 10);
  EXPECT_TRUE(view[0][0].isnan().item<bool>());
  EXPECT_EQ(shared.restore(), Changes());
}

TEST(SharedTensors, MinusZeroIsAChange) {
  const at::Tensor zeros = at::zeros({2});
  const SharedTensors shared({{"zeros", zeros}});
  zeros.neg_();
  EXPECT_EQ(shared.restore(), Changes({"zeros"}));
}

TEST(ForkGuard, OnlyTheFirstProcessGoesOn) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  pid_t child = 0;
  {
    const ForkGuard guard;
    child = fork();
  }
  if (child == 0) {
    [[maybe_unused]] const ssize_t sent = write(ends[1], "x", 1);
    _exit(1);
  }
  close(ends[1]);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  char byte = 0;
  EXPECT_EQ(read(ends[0], &byte, 1), 0);
  close(ends[0]);
}

struct Plain : Decoder {
  Description describe() const override {
    return {"plain", Head::none, Description::Exactness::approximate, {}, ""};
  }
  nlohmann::json options() const override { return nlohmann::json::object(); }
  void prepare(std::shared_ptr<const AcousticModel>, const Limits&) override {}
  Hypotheses decode(const EncodedBatch&) override { return {}; }
};

/// Returns a decoder as the registry makes those of plug-ins.
std::unique_ptr<Decoder> foreign_decoder() {
  static const RegisterDecoder registered{
      {"foreign_plain",
       "",
       {},
       [](const nlohmann::json&, std::string_view) { return std::make_unique<Plain>(); },
       /*needs_gpu=*/false,
       /*is_foreign=*/true}};
  return make_decoder("foreign_plain", {}, "");
}

TEST(CallDecoder, NamesAllChangesOfAForeignOne) {
  const at::Tensor weights = at::ones({2});
  const SharedTensors shared({{"the weights w", weights}});
  const auto decoder = foreign_decoder();
  const auto message = [&](const std::function<void()>& work) -> std::string {
    try {
      call_decoder(*decoder, {&shared}, work);
    } catch (const std::exception& e) {
      EXPECT_EQ(weights.sum().item<float>(), 2);
      EXPECT_EQ(std::fegetround(), FE_TONEAREST);
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(message([] {}), "");
  EXPECT_EQ(message([] { throw std::runtime_error("its own"); }), "its own");
  const auto spoil = [&] {
    weights.zero_();
    std::fesetround(FE_UPWARD);
  };
  const std::string expected =
      "plain: changed what all decoders share: the rounding mode, the weights w";
  EXPECT_HAS(message(spoil), expected + "; it was put back");
  EXPECT_HAS(message([&] {
               spoil();
               throw std::runtime_error("its own");
             }),
             expected + "; it also failed: its own");
}

TEST(CallDecoder, OwnDecodersAreTrusted) {
  EXPECT_FALSE(make_decoder("null", {}, "")->is_foreign());
  EXPECT_TRUE(foreign_decoder()->is_foreign());
  const at::Tensor weights = at::ones({2});
  const SharedTensors shared({{"the weights w", weights}});
  EXPECT_NO_THROW(call_decoder(Plain(), {&shared}, [&] { weights.zero_(); }));
  EXPECT_EQ(weights.sum().item<float>(), 0);
}

}  // namespace
}  // namespace rtfx
