// SPDX-License-Identifier: Apache-2.0
#include "trireme/record/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace trireme::record {
namespace {

TEST(Crc32c, GivesTheCatalogueCheckValue) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
}

// RFC 3720, appendix B.4, which lists the bytes in the order in which they are sent.
TEST(Crc32c, AgreesWithTheExamplesOfIscsi) {
  std::string rising;
  for (char c = 0; c < 32; ++c) rising.push_back(c);

  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43U);
  EXPECT_EQ(crc32c(rising), 0x46DD794EU);
  EXPECT_EQ(crc32c(std::string(rising.rbegin(), rising.rend())), 0x113FDB5CU);
}

TEST(Crc32c, OfNothingIsZero) {
  EXPECT_EQ(crc32c(""), 0U);
}

// The eight-byte length 24 and its checksum, as TensorBoard 2.21 writes them.
TEST(Crc32c, MaskIsTensorBoards) {
  EXPECT_EQ(masked_crc32c(std::string("\x18\0\0\0\0\0\0\0", 8)), 0x224B7FA3U);
}

}  // namespace
}  // namespace trireme::record
