// SPDX-License-Identifier: Apache-2.0
#include "trireme/tier/memory.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace trireme::tier {
namespace {

at::Tensor bytes(std::int64_t size) {
  return at::empty({size}, at::kByte);
}

class Account : public testing::Test {
 protected:
  static void SetUpTestSuite() { install_cpu_allocator(); }

  MemoryAccount& account_ = MemoryAccount::open("rank 7");
  AccountScope scope_{account_};
};

TEST_F(Account, CountsWhatIsLiveAndTheMostThatWas) {
  at::Tensor first = bytes(1000);
  {
    const at::Tensor second = bytes(500);
    EXPECT_EQ(account_.live(), Bytes(1500));
  }
  first.reset();

  EXPECT_EQ(account_.live(), Bytes(0));
  EXPECT_EQ(account_.peak(), Bytes(1500));
}

TEST_F(Account, CountsByWhatBytesAreFor) {
  const TagScope kept(Tag::kKept);
  const at::Tensor tape = bytes(300);
  {
    const TagScope working(Tag::kWorking);
    const at::Tensor gradient = bytes(70);
    EXPECT_EQ(account_.live(Tag::kWorking), Bytes(70));
  }
  EXPECT_EQ(account_.live(Tag::kKept), Bytes(300));
  EXPECT_EQ(account_.live(Tag::kWorking), Bytes(0));
}

TEST_F(Account, TakesBytesBackOnAnyThread) {
  at::Tensor tensor = bytes(4000);
  std::thread([moved = std::move(tensor)]() mutable { moved.reset(); }).join();

  EXPECT_EQ(account_.live(), Bytes(0));
}

TEST_F(Account, RefusesWhatWouldLeadOverTheBudgetAndSaysWhoHoldsWhat) {
  account_.set_budget(Bytes(1000));
  const TagScope kept(Tag::kKept);
  const at::Tensor tape = bytes(900);
  const TagScope working(Tag::kWorking);
  try {
    bytes(101);
    FAIL() << "one byte too many";
  } catch (const c10::OutOfMemoryError& error) {
    EXPECT_THAT(error.what_without_backtrace(),
                testing::AllOf(testing::HasSubstr("rank 7"), testing::HasSubstr("101 B"),
                               testing::HasSubstr("as working with 100 B free"),
                               testing::HasSubstr("held: kept 900 B")));
  }
  EXPECT_EQ(account_.live(), Bytes(900));
  EXPECT_NO_THROW(bytes(100));
}

TEST_F(Account, CollectsGarbageOnceBeforeItRefuses) {
  static at::Tensor garbage;
  static int collections;
  garbage = bytes(600);
  collections = 0;
  account_.set_budget(Bytes(1000));
  collect_before_refusing([] {
    ++collections;
    garbage.reset();
  });

  const at::Tensor fits = bytes(900);
  EXPECT_EQ(collections, 1);
  EXPECT_THROW(bytes(200), c10::OutOfMemoryError);

  EXPECT_EQ(collections, 2);
  EXPECT_EQ(account_.live(), Bytes(900));
  EXPECT_EQ(account_.peak(), Bytes(900));
  collect_before_refusing(nullptr);
}

TEST_F(Account, ReturnsToWhatWasHeldAfterARefusalInsideABackward) {
  at::Tensor weight = at::ones({64, 64}).set_requires_grad(true);
  at::Tensor x = at::ones({64, 64});
  const Bytes before = account_.live();
  {
    const at::Tensor loss = at::matmul(at::matmul(x, weight).relu(), weight).sum();
    account_.set_budget(account_.live() + Bytes(100));
    EXPECT_THROW(loss.backward(), c10::OutOfMemoryError);
    account_.set_budget(Bytes(INT64_MAX));
  }
  weight.mutable_grad().reset();

  EXPECT_EQ(account_.live(), before);
}

TEST_F(Account, HasAPeakOfEveryIntervalBesideTheWhole) {
  bytes(800);
  EXPECT_EQ(account_.take_interval_peak(), Bytes(800));
  bytes(300);
  EXPECT_EQ(account_.take_interval_peak(), Bytes(300));
  EXPECT_EQ(account_.peak(), Bytes(800));

  account_.reset_peak();
  EXPECT_EQ(account_.peak(), Bytes(0));
}

}  // namespace
}  // namespace trireme::tier
