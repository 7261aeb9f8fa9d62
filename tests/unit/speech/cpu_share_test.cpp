#include <gtest/gtest.h>

#include "speech/runtime/device.h"
#include "tests/unit/datasets/temp_folder.h"

namespace rtfx {
namespace {

class CgroupLimitsTest : public test::TempFolder {};

TEST_F(CgroupLimitsTest, TheLeastOnTheWayUpCounts) {
  write("proc/self/cgroup", "0::/slice/job\n");
  write("sys/fs/cgroup/slice/job/cpu.max", "400000 100000\n");
  write("sys/fs/cgroup/slice/job/memory.max", "max\n");
  write("sys/fs/cgroup/slice/cpu.max", "150000 100000\n");
  write("sys/fs/cgroup/memory.max", "2147483648\n");
  const CgroupLimits limits = group_limits(path(""));
  EXPECT_EQ(limits.cpus, 1.5);
  EXPECT_EQ(limits.memory_bytes, 2147483648);
}

TEST_F(CgroupLimitsTest, OfVersionOne) {
  write("proc/self/cgroup",
        "9:name=systemd:/\n4:memory:/docker/1\n3:cpu,cpuacct:/docker/1\n0::/\n");
  write("sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "1048576\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n");  // the container's own view
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_period_us", "100000\n");
  const CgroupLimits limits = group_limits(path(""));
  EXPECT_EQ(limits.cpus, 2.0);
  EXPECT_EQ(limits.memory_bytes, 1048576);
}

TEST_F(CgroupLimitsTest, NoneWhereNothingIsSaid) {
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_FALSE(group_limits(path("")).cpus);
  EXPECT_FALSE(group_limits(path("")).memory_bytes);
}

TEST(CpuShare, RangesOfNumbers) {
  EXPECT_EQ(ranges_text({}), "");
  EXPECT_EQ(ranges_text({3}), "3");
  EXPECT_EQ(ranges_text({0, 1, 2, 3, 8, 10, 11}), "0-3,8,10-11");
}

TEST(CpuShare, ProcessesShareTheCpusOfThisOne) {
  const SharedCpus cpus{.of_this = 32, .of_all = {}, .limit = {}};
  EXPECT_EQ(cpus.threads(1), 32);
  EXPECT_EQ(cpus.threads(4), 8);
  EXPECT_EQ(cpus.threads(64), 1);
}

TEST(CpuShare, CpusOfALauncherAreDividedOnce) {
  EXPECT_EQ((SharedCpus{.of_this = 8, .of_all = 32, .limit = {}}.threads(4)), 8) << "bound";
  EXPECT_EQ((SharedCpus{.of_this = 32, .of_all = 32, .limit = {}}.threads(4)), 8) << "not bound";
  EXPECT_EQ((SharedCpus{.of_this = 2, .of_all = 32, .limit = {}}.threads(4)), 2);
}

TEST(CpuShare, TheLimitOfTheGroupIsDivided) {
  EXPECT_EQ((SharedCpus{.of_this = 32, .of_all = {}, .limit = 5.5}.threads(2)), 3);
  EXPECT_EQ((SharedCpus{.of_this = 4, .of_all = {}, .limit = 5.5}.threads(2)), 2);
}

TEST(CpuShare, ProcessesShareTheCpus) {
  const int64_t alone = fair_threads(1);
  EXPECT_GE(alone, 1);
  EXPECT_EQ(fair_threads(2), std::max<int64_t>(1, alone / 2));
  EXPECT_EQ(fair_threads(1000), 1);
}

}  // namespace
}  // namespace rtfx
