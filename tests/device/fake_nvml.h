// The state of the library in fake_nvml.cpp, which its function fake_nvml() gives. The library's
// GPU is the first emulated one (tests/emulated_gpu). It writes "lock MHZ" and "reset" to the file
// FAKE_NVML_LOG, and has no rights where FAKE_NVML_WITHOUT_RIGHTS is set.
// SPDX-License-Identifier: Apache-2.0
#pragma once

struct FakeNvml {
  static constexpr const char* kUuid = "GPU-656d756c-6174-6564-0000-000000000000";

  int begun = 0;  ///< calls of nvmlInit_v2 without their nvmlShutdown
  unsigned long long millijoules = 0;
  bool is_lost = false;    ///< every query fails
  bool has_rights = true;  ///< to set clocks
  unsigned locked_at = 0;  ///< MHz; 0: not locked
};
