// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/cores.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

// The file's form: the kernel's accounting/psi.rst.
TEST(CpuPressure, IsTheShareOfTheLastTenSeconds) {
  EXPECT_DOUBLE_EQ(cpu_pressure("some avg10=97.96 avg60=95.74 avg300=74.29 total=747307457\n"
                                "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
                       .value(),
                   0.9796);
  EXPECT_EQ(cpu_pressure("some avg10=0.00 avg60=1.00 avg300=0.00 total=0\n"), 0.0);
}

TEST(CpuPressure, IsNotKnownWhereTheKernelDoesNotSay) {
  for (const char* const text : {"", "some", "some avg10=", "some avg10=x", "some avg10=-1"})
    EXPECT_FALSE(cpu_pressure(text).has_value()) << text;
}

TEST(UsableProcessors, AreOneAtLeast) {
  EXPECT_GE(usable_processors(), 1);
}

}  // namespace
}  // namespace trireme
