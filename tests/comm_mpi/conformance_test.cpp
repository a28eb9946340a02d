// SPDX-License-Identifier: Apache-2.0
#include "comm/conformance.h"

#include "comm/collectives_conformance.h"
#include "comm_mpi/mpi_world.h"

#include "trireme/comm/launch.h"

#include <gtest/gtest.h>

namespace trireme::comm {
namespace {

INSTANTIATE_TYPED_TEST_SUITE_P(Mpi, Conformance, MpiBackend);
INSTANTIATE_TYPED_TEST_SUITE_P(Mpi, Collectives, MpiBackend);

TEST(MpiWorld, CountsTheRanksOfThisMachine) {
  // The tests start all their ranks on one machine.
  EXPECT_EQ(world()->ranks_on_this_host(), world()->channel().size());
}

TEST(MpiWorld, IsWhatTheLauncherSaid) {
  const Channel& channel = world()->channel();
  EXPECT_EQ(own_launch(), (Launch{.connected = true,
                                  .ranks = channel.size(),
                                  .rank = channel.rank(),
                                  .rank_on_host = channel.rank()}));
}

TEST(MpiWorld, CannotBeStartedWhileThereIsOne) {
  EXPECT_THROW(MpiWorld::start(patient()), CommError);
}

}  // namespace
}  // namespace trireme::comm
