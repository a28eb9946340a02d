// SPDX-License-Identifier: Apache-2.0
#include "trireme/io/json.h"
#include "trireme/io/node.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>

namespace trireme::io {
namespace {

TEST(WrittenJson, KeepsTheOrderOfItsKeys) {
  Json json{{"z", 1}, {"a", Json::array({true, nullptr})}};
  json["b"] = "text";
  EXPECT_EQ(one_line(json), R"({"z":1,"a":[true,null],"b":"text"})");
}

TEST(WrittenJson, IsIndentedAsADocument) {
  EXPECT_EQ(document({{"z", 1}, {"a", {{"b", 0.5}}}}),
            "{\n  \"z\": 1,\n  \"a\": {\n    \"b\": 0.5\n  }\n}\n");
}

TEST(WrittenJson, HasNumbersThatReadBackAsTheSame) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 100'000; ++i) {
    const auto value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    const Node node = parse(one_line({{"v", value}}), "a.json");
    const double most = std::numeric_limits<double>::max();
    ASSERT_EQ(node.find("v")->number(-most, most), value);
  }
}

TEST(WrittenJson, HasAPointOrAnExponentInNumbersThatAreNotWhole) {
  EXPECT_EQ(one_line(Json::array({8.0, 8, 1e-5, 1e22})), "[8.0,8,1e-05,1e+22]");
}

TEST(WrittenJson, HasNullForNumbersThatJsonLacks) {
  EXPECT_EQ(one_line(Json::array({std::nan(""), HUGE_VAL})), "[null,null]");
}

TEST(WrittenJson, HasTextThatReadsBackAsTheSame) {
  for (int byte = 0; byte < 0x80; ++byte) {
    const std::string text{'a', static_cast<char>(byte), 'b'};
    EXPECT_EQ(parse(one_line({{"v", text}}), "a.json").find("v")->text(), text) << byte;
  }
}

TEST(WrittenJson, HasAMarkForWhatIsNotUtf8) {
  EXPECT_EQ(one_line("a\xff"), "\"a\xef\xbf\xbd\"");
}

}  // namespace
}  // namespace trireme::io
