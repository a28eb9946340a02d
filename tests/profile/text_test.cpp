// SPDX-License-Identifier: Apache-2.0
#include "trireme/profile/text.h"

#include "trireme/chain/chain.h"
#include "trireme/io/node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::profile {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

chain::LayerCost cost(const char* name, double forward, std::int64_t tape) {
  return {.name = name,
          .forward = Seconds(forward),
          .backward = Seconds(2 * forward),
          .output = Bytes(1024),
          .tape = Bytes(tape),
          .parameters = Bytes(2048)};
}

chain::Chain two_blocks() {
  return {.name = "two",
          .input = Bytes(512),
          .layers = {cost("embedding", 1e-3, 1024), cost("block0.a", 2e-3, 4096),
                     cost("block0.b", 3e-3, 8192), cost("block1.a", 2e-3, 4096),
                     cost("block1.b", 3e-3, 8192), cost("head", 5e-3, 4096)}};
}

TEST(ProfileTable, GroupsEqualLayersUnderTheFirst) {
  const std::string table = to_table(two_blocks());

  EXPECT_THAT(table, HasSubstr("block0.a x 2"));
  EXPECT_THAT(table, HasSubstr("block0.b x 2"));
  EXPECT_THAT(table, Not(HasSubstr("block1")));
  EXPECT_THAT(table, Not(HasSubstr("head x")));
}

TEST(ProfileTable, SumsOverEveryLayer) {
  const std::string table = to_table(two_blocks());

  // 1 + 2 x (2 + 3) + 5 ms forward; 1 + 2 x (4 + 8) + 4 KiB of tapes; 6 x 2 KiB of parameters.
  EXPECT_THAT(table, ContainsRegex("all 6 +16.0 ms +32.0 ms +6.00 KiB +29.0 KiB +12.0 KiB"));
}

TEST(ProfileTable, HasWhatABackwardMayLeaveForLater) {
  chain::Chain chain = two_blocks();
  chain.layers[1].split = chain.layers[3].split = {Seconds(3e-3), Bytes(2048), {}, {}};
  const std::string table = to_table(chain);

  EXPECT_THAT(table, ContainsRegex("block0.a x 2 .* 3.00 ms +2.00 KiB\n"));
  EXPECT_THAT(table, ContainsRegex("block0.b x 2 .* - +-\n"));
  EXPECT_THAT(table, ContainsRegex("all 6 .* 6.00 ms +4.00 KiB\n"));
}

TEST(ProfileJson, HasWhatABackwardMayLeaveForLater) {
  chain::Chain chain = two_blocks();
  chain.layers[1].split = {Seconds(3e-3), Bytes(2048), Bytes(1), Bytes(2)};

  EXPECT_EQ(chain::read_chain(io::parse(io::one_line(to_json(chain)), "json")), chain);
}

TEST(ProfileJson, HasTheFieldsOfAChainFile) {
  const chain::Chain chain = two_blocks();

  EXPECT_EQ(chain::read_chain(io::parse(io::one_line(to_json(chain)), "json")), chain);
}

}  // namespace
}  // namespace trireme::profile
