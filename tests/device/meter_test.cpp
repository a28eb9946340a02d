// Meters, on a made-up sysfs and a made-up NVML.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/device/meter.h"

#include "fake_nvml.h"
#include "support/temporary_folder.h"

#include "trireme/device/locked_clock.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace trireme::device {
namespace {

namespace fs = std::filesystem;
using support::TemporaryFolder;

/// A zone as Linux shows it, whose counter is at `energy` microjoules and wraps around after 1000.
void put_zone(const fs::path& root, const std::string& folder, const std::string& name,
              const std::string& energy) {
  fs::create_directories(root / folder);
  std::ofstream(root / folder / "name") << name << "\n";
  std::ofstream(root / folder / "energy_uj") << energy << "\n";
  std::ofstream(root / folder / "max_energy_range_uj") << "1000\n";
}

double taken(Meter& meter) {
  return meter.read().value().taken.count();
}

TEST(Rapl, CountsAllPackagesAndNothingTwice) {
  const TemporaryFolder folder;
  put_zone(folder.path(), "intel-rapl:0", "package-0", "100");
  put_zone(folder.path(), "intel-rapl:1", "package-1", "7");
  put_zone(folder.path(), "intel-rapl:0:0", "core", "50");
  put_zone(folder.path(), "intel-rapl:2", "psys", "500");
  put_zone(folder.path(), "intel-rapl-mmio:0", "package-0", "100");
  const auto meter = open_rapl(folder.path());
  ASSERT_NE(meter, nullptr);
  EXPECT_EQ(meter->describe(), "RAPL, 2 packages");
  EXPECT_EQ(taken(*meter), 0);

  for (const char* const other : {"intel-rapl:0:0", "intel-rapl:2", "intel-rapl-mmio:0"})
    put_zone(folder.path(), other, other, "900");
  EXPECT_EQ(taken(*meter), 0);
  put_zone(folder.path(), "intel-rapl:0", "package-0", "130");
  put_zone(folder.path(), "intel-rapl:1", "package-1", "10");
  EXPECT_DOUBLE_EQ(taken(*meter), 33e-6);
  EXPECT_DOUBLE_EQ(taken(*meter), 33e-6);
}

TEST(Rapl, GoesOnWhereACounterBeginsAgain) {
  const TemporaryFolder folder;
  put_zone(folder.path(), "intel-rapl:0", "package-0", "900");
  const auto meter = open_rapl(folder.path());
  put_zone(folder.path(), "intel-rapl:0", "package-0", "50");
  EXPECT_DOUBLE_EQ(taken(*meter), 150e-6);
  put_zone(folder.path(), "intel-rapl:0", "package-0", "20");
  EXPECT_DOUBLE_EQ(taken(*meter), (150 + 970) * 1e-6);
}

TEST(Rapl, IsNoneWhereNotAllPackagesCanBeRead) {
  const TemporaryFolder folder;
  EXPECT_EQ(open_rapl(folder.path()), nullptr);
  EXPECT_EQ(open_rapl(folder.path() / "nothing"), nullptr);
  put_zone(folder.path(), "intel-rapl:0", "package-0", "100");
  EXPECT_NE(open_rapl(folder.path()), nullptr);
  put_zone(folder.path(), "intel-rapl:1", "package-1", "broken");
  EXPECT_EQ(open_rapl(folder.path()), nullptr);
}

TEST(Rapl, SaysNothingOnceItsCounterIsGone) {
  const TemporaryFolder folder;
  put_zone(folder.path(), "intel-rapl:0", "package-0", "100");
  const auto meter = open_rapl(folder.path());
  fs::remove(folder.path() / "intel-rapl:0" / "energy_uj");
  EXPECT_FALSE(meter->read());
}

/// The state of the library, which stays loaded as long as the test's process.
FakeNvml& fake_nvml() {
  static void* const library = ::dlopen(FAKE_NVML_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  return *reinterpret_cast<FakeNvml* (*)()>(::dlsym(library, "fake_nvml"))();
}

TEST(Nvml, CountsFromWhereItWasOpened) {
  FakeNvml& fake = fake_nvml();
  fake = {.millijoules = 5'000'000};
  {
    const auto meter = open_nvml(FakeNvml::kUuid, FAKE_NVML_LIBRARY);
    ASSERT_NE(meter, nullptr);
    EXPECT_EQ(meter->describe(), "NVML");
    fake.millijoules += 2500;
    EXPECT_DOUBLE_EQ(taken(*meter), 2.5);
    fake.is_lost = true;
    EXPECT_FALSE(meter->read());
    EXPECT_EQ(fake.begun, 1);
  }
  EXPECT_EQ(fake.begun, 0);
}

TEST(Nvml, IsNoneWithoutALibraryOrTheGpuOrItsCounter) {
  fake_nvml() = {};
  EXPECT_EQ(open_nvml(FakeNvml::kUuid, "libno-such-nvml.so.1"), nullptr);
  EXPECT_EQ(open_nvml("GPU-ffffffff-0000-0000-0000-000000000000", FAKE_NVML_LIBRARY), nullptr);
  fake_nvml().is_lost = true;
  EXPECT_EQ(open_nvml(FakeNvml::kUuid, FAKE_NVML_LIBRARY), nullptr);
  EXPECT_EQ(fake_nvml().begun, 0);
}

TEST(LockedClock, HoldsTheGpuUntilItIsDestroyed) {
  FakeNvml& fake = fake_nvml();
  fake = {};
  ClockLocking locking = lock_clock(FakeNvml::kUuid, 1590, FAKE_NVML_LIBRARY);
  ASSERT_NE(locking.lock, nullptr);
  EXPECT_EQ(locking.problem, "");
  EXPECT_EQ(fake.locked_at, 1590U);
  locking.lock.reset();
  EXPECT_EQ(fake.locked_at, 0U);
  EXPECT_EQ(fake.begun, 0);
}

TEST(LockedClock, SaysWhatIsMissing) {
  FakeNvml& fake = fake_nvml();
  fake = {.has_rights = false};
  EXPECT_EQ(lock_clock(FakeNvml::kUuid, 1590, FAKE_NVML_LIBRARY).problem,
            "NVML refuses 1590 MHz: Insufficient Permissions");
  EXPECT_EQ(fake.locked_at, 0U);
  EXPECT_EQ(lock_clock("GPU-0", 1590, "libno-such-nvml.so.1").problem,
            "libno-such-nvml.so.1 or the GPU in it is not there");
}

}  // namespace
}  // namespace trireme::device
