// For benchmarks on a machine that others use, too: preloaded (LD_PRELOAD), it lets a process of
// one computing thread measure its own processor time where it asks the monotonic clock, so that
// time in which somebody else had the core does not count. Trireme and Python both ask that clock.
//
// Not for runs that wait for copies, threads or other ranks: waiting would be free.
// SPDX-License-Identifier: Apache-2.0
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

extern "C" int clock_gettime(clockid_t id, timespec* time) noexcept {
  const clockid_t asked = id == CLOCK_MONOTONIC ? CLOCK_PROCESS_CPUTIME_ID : id;
  return static_cast<int>(syscall(SYS_clock_gettime, asked, time));
}
