// SPDX-License-Identifier: Apache-2.0
#include "nvml.h"

#include "trireme/core/text.h"
#include "trireme/device/locked_clock.h"
#include "trireme/device/meter.h"

#include <dlfcn.h>

#include <chrono>
#include <utility>

namespace trireme::device {
namespace {

using TotalEnergy = int(Nvml::Device, unsigned long long*);  // in millijoules

class NvmlMeter final : public Meter {
 public:
  NvmlMeter(std::unique_ptr<Nvml> nvml, TotalEnergy* total)
      : nvml_(std::move(nvml)), total_(total) {}

  /// Whether the GPU counts; begins to.
  bool begin() { return now(before_); }
  std::optional<Reading> read() override {
    unsigned long long millijoules = 0;
    if (!now(millijoules)) return std::nullopt;
    return Reading{.taken = Joules(static_cast<double>(millijoules - before_) * 1e-3),
                   .at = to_seconds(std::chrono::steady_clock::now().time_since_epoch())};
  }
  std::string describe() const override { return "NVML"; }

 private:
  bool now(unsigned long long& millijoules) const {
    return total_(nvml_->device(), &millijoules) == Nvml::kSuccess;
  }

  std::unique_ptr<Nvml> nvml_;
  TotalEnergy* total_;
  unsigned long long before_ = 0;
};

using LockClocks = int(Nvml::Device, unsigned least, unsigned most);
using ResetClocks = int(Nvml::Device);

class NvmlLock final : public LockedClock {
 public:
  NvmlLock(std::unique_ptr<Nvml> nvml, ResetClocks* reset)
      : nvml_(std::move(nvml)), reset_(reset) {}
  ~NvmlLock() override { reset_(nvml_->device()); }

 private:
  std::unique_ptr<Nvml> nvml_;
  ResetClocks* reset_;
};

}  // namespace

std::unique_ptr<Meter> open_nvml(const std::string& uuid, const std::string& library) {
  std::unique_ptr<Nvml> nvml = Nvml::open(uuid, library);
  if (!nvml) return nullptr;
  auto* const total = nvml->function<TotalEnergy>("nvmlDeviceGetTotalEnergyConsumption");
  if (total == nullptr) return nullptr;
  auto meter = std::make_unique<NvmlMeter>(std::move(nvml), total);
  return meter->begin() ? std::move(meter) : nullptr;
}

ClockLocking lock_clock(const std::string& uuid, int megahertz, const std::string& library) {
  std::unique_ptr<Nvml> nvml = Nvml::open(uuid, library);
  if (!nvml) return {.lock = nullptr, .problem = concat(library, " or the GPU in it is not there")};
  auto* const lock = nvml->function<LockClocks>("nvmlDeviceSetGpuLockedClocks");
  auto* const reset = nvml->function<ResetClocks>("nvmlDeviceResetGpuLockedClocks");
  if (lock == nullptr || reset == nullptr)
    return {.lock = nullptr, .problem = concat(library, " is too old to set clocks")};
  const auto frequency = static_cast<unsigned>(megahertz);
  if (const int status = lock(nvml->device(), frequency, frequency); status != Nvml::kSuccess)
    return {.lock = nullptr,
            .problem = concat("NVML refuses ", megahertz, " MHz: ", nvml->error_text(status))};
  return {.lock = std::make_unique<NvmlLock>(std::move(nvml), reset), .problem = ""};
}

std::unique_ptr<Nvml> Nvml::open(const std::string& uuid, const std::string& library) {
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return nullptr;
  std::unique_ptr<Nvml> nvml(new Nvml(handle));
  auto* const begin = nvml->function<int()>("nvmlInit_v2");
  auto* const find = nvml->function<int(const char*, Device*)>("nvmlDeviceGetHandleByUUID");
  if (begin == nullptr || find == nullptr || begin() != kSuccess) return nullptr;
  nvml->is_begun_ = true;
  return find(uuid.c_str(), &nvml->device_) == kSuccess ? std::move(nvml) : nullptr;
}

Nvml::~Nvml() {
  auto* const end = function<int()>("nvmlShutdown");
  if (is_begun_ && end != nullptr) end();
  ::dlclose(library_);
}

std::string Nvml::error_text(int status) const {
  auto* const text = function<const char*(int)>("nvmlErrorString");
  return text == nullptr ? concat("error ", status) : std::string(text(status));
}

void* Nvml::symbol(const char* name) const {
  return ::dlsym(library_, name);
}

}  // namespace trireme::device
