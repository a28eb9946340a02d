// SPDX-License-Identifier: Apache-2.0
#include "comm/conformance.h"

#include "comm/collectives_conformance.h"
#include "comm_mpi/mpi_world.h"

#include "trireme/comm/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace trireme::comm {
namespace {

INSTANTIATE_TYPED_TEST_SUITE_P(Mpi, Conformance, MpiBackend);
INSTANTIATE_TYPED_TEST_SUITE_P(Mpi, Collectives, MpiBackend);

TEST(MpiWorld, CountsTheRanksOfThisMachine) {
  // The tests start all their ranks on one machine.
  EXPECT_EQ(world()->ranks_on_this_host(), world()->channel().size());
}

TEST(MpiWorld, IsWhatTheLauncherSaid) {
  MpiBackend::run(patient(), [](Channel& channel) {
    const Launch launch = own_launch();
    EXPECT_TRUE(launch.connected);
    EXPECT_EQ(launch.ranks, channel.size());
    EXPECT_EQ(launch.rank, channel.rank());
    std::vector<int> on_host;
    for (const auto& of_rank :
         all_gather(channel, everyone(channel), std::vector<int>{launch.rank_on_host}, "places"))
      on_host.push_back(of_rank.front());
    EXPECT_THAT(on_host, testing::UnorderedElementsAreArray(everyone(channel)));
  });
}

TEST(MpiWorld, CannotBeStartedWhileThereIsOne) {
  EXPECT_THROW(MpiWorld::start(patient()), CommError);
}

}  // namespace
}  // namespace trireme::comm
