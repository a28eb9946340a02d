// The state of the library in fake_nvml.cpp, which its function fake_nvml() gives.
// SPDX-License-Identifier: Apache-2.0
#pragma once

struct FakeNvml {
  static constexpr const char* kUuid = "GPU-00112233-4455-6677-8899-aabbccddeeff";

  int begun = 0;  ///< calls of nvmlInit_v2 without their nvmlShutdown
  unsigned long long millijoules = 0;
  bool is_lost = false;  ///< every query fails
};
