// Replaces fsync() and fdatasync() of the C library (LD_PRELOAD): files whose path contains
// SLOW_FSYNC take SLOW_SECONDS, as on a busy disk.
// SPDX-License-Identifier: Apache-2.0
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

void be_slow(int descriptor) {
  const char* const slow = std::getenv("SLOW_FSYNC");
  const char* const seconds = std::getenv("SLOW_SECONDS");
  if (slow == nullptr || seconds == nullptr) return;
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "/proc/self/fd/%d", descriptor);
  std::array<char, 4096> path{};
  if (readlink(name.data(), path.data(), path.size() - 1) < 0) return;
  if (std::strstr(path.data(), slow) != nullptr)
    std::this_thread::sleep_for(std::chrono::duration<double>(std::atof(seconds)));
}

}  // namespace

extern "C" int fsync(int descriptor) {
  be_slow(descriptor);
  return static_cast<int>(syscall(SYS_fsync, descriptor));
}

extern "C" int fdatasync(int descriptor) {
  be_slow(descriptor);
  return static_cast<int>(syscall(SYS_fdatasync, descriptor));
}
