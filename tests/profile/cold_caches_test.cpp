// The substitute for the rest of a step between two runs of a layer.
// SPDX-License-Identifier: Apache-2.0
#include "cold_caches.h"

#include "trireme/tier/memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace trireme::profile {
namespace {

TEST(ColdCaches, TakeWhatAStepTouchesUpToABound) {
  tier::install_cpu_allocator();
  tier::MemoryAccount& account = tier::MemoryAccount::open("caches");
  const tier::AccountScope scope(account);
  const Bytes before = account.live();
  {
    const ColdCaches few(Bytes(4000), at::kCPU);
    EXPECT_EQ(account.live() - before, Bytes(4000));
  }
  {
    const ColdCaches many(ColdCaches::kMost * 3, at::kCPU);
    EXPECT_EQ(account.live() - before, ColdCaches::kMost);
  }
  EXPECT_EQ(account.live(), before);
}

TEST(ColdCaches, ChangeNothingOfWhatIsHot) {
  ColdCaches caches(Bytes(1 << 16), at::kCPU);
  const at::Tensor value = at::arange(100, at::kFloat).requires_grad_();
  const at::Tensor numbers = at::arange(100, at::kLong);
  for (int k = 0; k < 3; ++k) caches.pass({value, numbers});
  EXPECT_TRUE(value.detach().equal(at::arange(100, at::kFloat)));
  EXPECT_TRUE(numbers.equal(at::arange(100, at::kLong)));
}

}  // namespace
}  // namespace trireme::profile
