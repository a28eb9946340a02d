// SPDX-License-Identifier: Apache-2.0
#include "trireme/tier/copy_lane.h"

#include "trireme/core/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <vector>

namespace trireme::tier {
namespace {

TEST(CopyLane, RunsInTheOrderOfPosting) {
  CopyLane lane;
  std::vector<int> ran;
  CopyLane::Ticket last = 0;
  for (int i = 0; i < 100; ++i) last = lane.post([&ran, i] { ran.push_back(i); });
  lane.wait(last);

  ASSERT_EQ(ran.size(), 100U);
  EXPECT_TRUE(std::is_sorted(ran.begin(), ran.end()));
  EXPECT_EQ(lane.take_spans().size(), 100U);
}

TEST(CopyLane, RunsBesideWhoeverPosted) {
  CopyLane lane;
  std::promise<void> go;
  bool ran = false;
  const CopyLane::Ticket ticket = lane.post([&] {
    go.get_future().wait();  // would never end on this thread
    ran = true;
  });
  go.set_value();
  lane.wait(ticket);

  EXPECT_TRUE(ran);
}

TEST(CopyLane, GivesItsErrorToEveryWaitAndRunsNothingBehindIt) {
  CopyLane lane;
  bool ran = false;
  const CopyLane::Ticket broken = lane.post([] { throw Error("the disk is gone"); });
  const CopyLane::Ticket behind = lane.post([&] { ran = true; });

  EXPECT_THROW(lane.wait(broken), Error);
  EXPECT_THROW(lane.wait(behind), Error);
  EXPECT_THROW(lane.drain(), Error);
  EXPECT_FALSE(ran);
}

TEST(CopyLane, WorksAgainAfterItWasAbandoned) {
  CopyLane lane;
  lane.post([] { throw Error("the disk is gone"); });
  EXPECT_THROW(lane.drain(), Error);

  lane.abandon();

  bool ran = false;
  lane.wait(lane.post([&] { ran = true; }));
  EXPECT_TRUE(ran);
}

TEST(CopyLane, EndsTheWorkUnderWayBeforeItIsAbandoned) {
  CopyLane lane;
  std::promise<void> begun;
  std::promise<void> go;
  bool ended = false;
  lane.post([&] {
    begun.set_value();
    go.get_future().wait();
    ended = true;
  });
  begun.get_future().wait();
  auto abandoned = std::async(std::launch::async, [&] { lane.abandon(); });
  go.set_value();
  abandoned.wait();

  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace trireme::tier
