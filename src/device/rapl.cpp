// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/text.h"
#include "trireme/device/meter.h"

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

namespace trireme::device {
namespace {

namespace fs = std::filesystem;

/// One package's counter.
struct Counter {
  fs::path file;
  std::int64_t most = 0;  ///< microjoules, after which it begins again with 0
  std::int64_t last = 0;
};

std::optional<std::int64_t> number_in(const fs::path& file);
/// Whether this is a processor package, not a part of one or the whole machine ("psys"), which
/// would be counted twice.
bool is_package(const fs::path& zone);
std::optional<Counter> counter_in(const fs::path& zone);

class Rapl final : public Meter {
 public:
  explicit Rapl(std::vector<Counter> counters) : counters_(std::move(counters)) {}

  std::optional<Reading> read() override;
  std::string describe() const override {
    return concat("RAPL, ", count_of(counters_.size(), "package"));
  }

 private:
  std::vector<Counter> counters_;
  std::int64_t taken_ = 0;  ///< microjoules
};

std::optional<Meter::Reading> Rapl::read() {
  for (Counter& counter : counters_) {
    const std::optional<std::int64_t> now = number_in(counter.file);
    if (!now) return std::nullopt;
    taken_ += *now - counter.last + (*now < counter.last ? counter.most : 0);
    counter.last = *now;
  }
  return Reading{.taken = Joules(static_cast<double>(taken_) * 1e-6),
                 .at = to_seconds(std::chrono::steady_clock::now().time_since_epoch())};
}

}  // namespace

fs::path powercap() {
  const char* const given = std::getenv("TRIREME_POWERCAP");  // NOLINT(concurrency-mt-unsafe)
  return given == nullptr ? "/sys/class/powercap" : given;
}

std::unique_ptr<Meter> open_rapl(const fs::path& root) {
  std::vector<Counter> counters;
  std::error_code failure;
  for (auto zone = fs::directory_iterator(root, failure);
       !failure && zone != fs::directory_iterator(); zone.increment(failure)) {
    if (!is_package(*zone)) continue;
    const std::optional<Counter> counter = counter_in(*zone);
    if (!counter) return nullptr;  // the others alone would be a part of the machine
    counters.push_back(*counter);
  }
  return failure || counters.empty() ? nullptr : std::make_unique<Rapl>(std::move(counters));
}

namespace {

std::optional<std::int64_t> number_in(const fs::path& file) {
  std::int64_t number = 0;
  if (!(std::ifstream(file) >> number) || number < 0) return std::nullopt;
  return number;
}

bool is_package(const fs::path& zone) {
  const std::string folder = zone.filename().string();
  constexpr std::string_view kZone = "intel-rapl:";  // of AMD's processors, too
  if (!folder.starts_with(kZone) || folder.find(':', kZone.size()) != std::string::npos)
    return false;
  std::string name;
  std::ifstream(zone / "name") >> name;
  return name.starts_with("package-");
}

std::optional<Counter> counter_in(const fs::path& zone) {
  const fs::path file = zone / "energy_uj";
  const std::optional<std::int64_t> now = number_in(file);
  const std::optional<std::int64_t> most = number_in(zone / "max_energy_range_uj");
  if (!now || !most) return std::nullopt;
  return Counter{.file = file, .most = *most, .last = *now};
}

}  // namespace
}  // namespace trireme::device
