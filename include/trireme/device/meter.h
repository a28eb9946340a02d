// Meters of energy: RAPL for a machine's processors, NVML for a GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace trireme::device {

/// Counts the energy that a device takes, whichever program makes it work. Used by one thread.
class Meter {
 public:
  virtual ~Meter() = default;
  Meter() = default;
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  struct Reading {
    Joules taken{0};  ///< since the meter was opened
    Seconds at{0};    ///< when that was read, by any steady clock
  };
  /// Nothing where the counter cannot be read any longer.
  virtual std::optional<Reading> read() = 0;
  /// What counts, in words: "RAPL, 2 packages".
  virtual std::string describe() const = 0;
};

/// The folder in which Linux shows RAPL counters: /sys/class/powercap, or TRIREME_POWERCAP where a
/// container has the machine's elsewhere.
std::filesystem::path powercap();

/// The counters of all processor packages of this machine (RAPL, of Intel and AMD). Null where
/// there are none, or one may not be read: since Linux 5.10 only root may. A counter wraps around,
/// after minutes at full load (`max_energy_range_uj`), and is then to be read more often than that.
/// https://docs.kernel.org/power/powercap/powercap.html
std::unique_ptr<Meter> open_rapl(const std::filesystem::path& root = powercap());

/// The library of NVIDIA's driver that knows a GPU's energy.
inline constexpr const char* kNvml = "libnvidia-ml.so.1";

/// The energy counter of the GPU with this UUID, as NVML writes it ("GPU-8f3c..."). Null where
/// library, driver or GPU are not there, or the GPU has no counter (before Volta). The GPU counts
/// anew some ten times a second.
/// https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html
std::unique_ptr<Meter> open_nvml(const std::string& uuid, const std::string& library = kNvml);

}  // namespace trireme::device
