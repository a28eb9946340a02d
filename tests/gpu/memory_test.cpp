// SPDX-License-Identifier: Apache-2.0
#include "gpu.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>

#include <vector>

namespace trireme::device {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

class GpuMemory : public Gpu {
 protected:
  at::Tensor bytes(std::int64_t size) const {
    return at::empty({size}, at::TensorOptions(at::kByte).device(on_gpu()));
  }
};

TEST_F(GpuMemory, LiveAndPeakBytesAreThoseOfTheTensors) {
  const auto memory = cuda().open_memory("rank 0");
  memory->reset_peak();
  const Bytes before = memory->live();

  at::Tensor first = bytes(kMiB);
  {
    const at::Tensor second = bytes(3 * kMiB);
    EXPECT_EQ(memory->live() - before, Bytes(4 * kMiB));
  }
  EXPECT_EQ(memory->live() - before, Bytes(kMiB));
  EXPECT_EQ(memory->peak() - before, Bytes(4 * kMiB));
  EXPECT_GE(memory->reserved(), memory->live());
  EXPECT_GE(memory->peak_reserved(), memory->peak());

  memory->reset_peak();
  EXPECT_EQ(memory->peak() - before, Bytes(kMiB));
}

TEST_F(GpuMemory, AnIntervalHasItsOwnPeakAndTheWholeKeepsIts) {
  const auto memory = cuda().open_memory("rank 0");
  memory->reset_peak();
  const Bytes before = memory->live();

  bytes(5 * kMiB);
  EXPECT_EQ(memory->take_interval_peak() - before, Bytes(5 * kMiB));
  bytes(2 * kMiB);
  EXPECT_EQ(memory->take_interval_peak() - before, Bytes(2 * kMiB));
  EXPECT_EQ(memory->peak() - before, Bytes(5 * kMiB));
}

TEST_F(GpuMemory, AnAllocationOverTheBudgetSaysWhatWasAskedFreeAndHeld) {
  const auto memory = cuda().open_memory("rank 0");
  ASSERT_EQ(memory->reserved(), Bytes(0)) << "each test runs in a process of its own";
  memory->set_budget(Bytes(256 * kMiB));
  EXPECT_EQ(memory->budget(), Bytes(256 * kMiB));

  // 20 pages of the allocator's large segments, 12 MiB each; another one could exceed the budget.
  std::vector<at::Tensor> held;
  for (int i = 0; i < 6; ++i) held.push_back(bytes(40 * kMiB));
  try {
    bytes(32 * kMiB);
    FAIL() << "the budget is spent";
  } catch (const c10::OutOfMemoryError& error) {
    EXPECT_THAT(
        error.what_without_backtrace(),
        AllOf(HasSubstr("rank 0: the memory budget of 256 MiB"), HasSubstr("asked for 32.0 MiB"),
              HasSubstr("with 4.00 MiB free"), HasSubstr("held: tensors 240 MiB")));
  }
  EXPECT_EQ(memory->live(), Bytes(240 * kMiB));

  EXPECT_GE(memory->gathered(), 1);

  held.pop_back();
  bytes(32 * kMiB);  // there is room again
  EXPECT_LE(memory->peak_reserved(), Bytes(256 * kMiB));
}

TEST_F(GpuMemory, PagesThatAreBegunNeverLeadOverTheBudget) {
  const auto memory = cuda().open_memory("rank 0");
  memory->set_budget(Bytes(256 * kMiB));
  for (const std::int64_t size : {13 * kMiB, 31 * kMiB, 5 * kMiB / 2}) {
    std::vector<at::Tensor> held;
    EXPECT_THROW(for (;;) held.push_back(bytes(size)), c10::OutOfMemoryError) << size;
    EXPECT_LE(memory->reserved(), Bytes(256 * kMiB)) << size;
    EXPECT_GE(memory->live(), Bytes(256 * kMiB) - Bytes(2 * 12 * kMiB + size)) << size;
  }
}

TEST_F(GpuMemory, ABudgetBeyondTheDeviceIsRefused) {
  const auto memory = cuda().open_memory("rank 0");
  EXPECT_THROW(memory->set_budget(cuda().total_memory() + Bytes(1)), DeviceError);
  EXPECT_FALSE(memory->has_budget());
}

TEST_F(GpuMemory, TheLeastBudgetForSomeTensorsIsTheLeastThatLeavesThemRoom) {
  const auto memory = cuda().open_memory("rank 0");
  for (const Bytes tensors : {Bytes(1), Bytes(100 * kMiB), Bytes(100 * kMiB + 17)}) {
    const Bytes budget = memory->budget_for(tensors);
    EXPECT_GE(memory->for_tensors(budget), tensors);
    EXPECT_LT(memory->for_tensors(budget - Bytes(2)), tensors);
  }
}

TEST_F(GpuMemory, ABudgetEndsWithItsOwner) {
  { cuda().open_memory("rank 0")->set_budget(Bytes(64 * kMiB)); }
  EXPECT_EQ(bytes(128 * kMiB).numel(), 128 * kMiB);
}

}  // namespace
}  // namespace trireme::device
