// A library with the functions of NVML that are used, for one GPU that tests control.
// SPDX-License-Identifier: Apache-2.0
#include "fake_nvml.h"

#include <string>

namespace {

constexpr int kSuccess = 0, kUninitialized = 1, kNotFound = 6, kUnknown = 999;

FakeNvml fake;

}  // namespace

extern "C" {

FakeNvml* fake_nvml() {
  return &fake;
}

int nvmlInit_v2() {
  ++fake.begun;
  return kSuccess;
}

int nvmlShutdown() {
  --fake.begun;
  return kSuccess;
}

int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  if (fake.begun == 0) return kUninitialized;
  if (std::string(uuid) != FakeNvml::kUuid) return kNotFound;
  *device = &fake;
  return kSuccess;
}

int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  if (device != &fake || fake.begun == 0 || fake.is_lost) return kUnknown;
  *millijoules = fake.millijoules;
  return kSuccess;
}
}
