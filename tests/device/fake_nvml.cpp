// A library with the functions of NVML that are used, for one GPU that tests control.
// SPDX-License-Identifier: Apache-2.0
#include "fake_nvml.h"

#include <cstdlib>
#include <fstream>
#include <string>

namespace {

constexpr int kSuccess = 0, kUninitialized = 1, kNotFound = 6, kUnknown = 999, kNoPermission = 4,
              kNotSupported = 3;

FakeNvml fake;

void log(const std::string& line) {
  const char* const file = std::getenv("FAKE_NVML_LOG");  // NOLINT(concurrency-mt-unsafe)
  if (file != nullptr) std::ofstream(file, std::ios::app) << line << "\n";
}

bool has_rights() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe)
  return fake.has_rights && std::getenv("FAKE_NVML_WITHOUT_RIGHTS") == nullptr;
}

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

int nvmlDeviceSetGpuLockedClocks(void* device, unsigned least, unsigned most) {
  if (device != &fake || fake.begun == 0 || least != most) return kUnknown;
  if (!has_rights()) return kNoPermission;
  fake.locked_at = least;
  log("lock " + std::to_string(least));
  return kSuccess;
}

int nvmlDeviceResetGpuLockedClocks(void* device) {
  if (device != &fake || fake.begun == 0) return kUnknown;
  fake.locked_at = 0;
  log("reset");
  return kSuccess;
}

// LibTorch looks these up where there is an NVML.
int nvmlDeviceGetComputeRunningProcesses() {
  return kNotSupported;
}
int nvmlDeviceGetGpuFabricInfoV() {
  return kNotSupported;
}
int nvmlDeviceGetHandleByPciBusId_v2() {
  return kNotSupported;
}
int nvmlDeviceGetNvLinkRemoteDeviceType() {
  return kNotSupported;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2() {
  return kNotSupported;
}
int nvmlSystemGetCudaDriverVersion_v2() {
  return kNotSupported;
}

const char* nvmlErrorString(int status) {
  return status == kNoPermission ? "Insufficient Permissions" : "Unknown Error";
}
}
