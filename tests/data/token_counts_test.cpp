// SPDX-License-Identifier: Apache-2.0
#include "../../src/data/token_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace trireme::data {
namespace {

/// Tokens 0, 0, 0, ... then 1, 1, 1, ...: half of each. Records which were asked for.
class Halves final : public TokenSource {
 public:
  explicit Halves(std::int64_t size) : size_(size) {}

  std::int64_t size() const override { return size_; }
  void copy(std::int64_t first, std::int64_t count, std::int64_t* out) const override {
    EXPECT_GE(first, 0);
    EXPECT_LE(first + count, size_);
    for (std::int64_t i = first; i < first + count; ++i) {
      *out++ = i < size_ / 2 ? 0 : 1;
      EXPECT_TRUE(asked_.insert(i).second) << "asked twice for " << i;
    }
  }
  std::string digest() const override { return ""; }
  std::string describe() const override { return ""; }

 private:
  std::int64_t size_;
  mutable std::set<std::int64_t> asked_;
};

constexpr std::int64_t kStretch = 65'536;

TEST(CountTokens, CountsEveryTokenOnce) {
  for (const std::int64_t size : {std::int64_t{2}, kStretch, 3 * kStretch + 2})
    EXPECT_THAT(count_tokens(Halves(size), 0, size, 3),
                testing::ElementsAre(size / 2, size / 2, 0));
}

TEST(CountTokens, CountsThePartThatIsAskedFor) {
  EXPECT_THAT(count_tokens(Halves(1000), 490, 30, 2), testing::ElementsAre(10, 20));
}

TEST(CountTokens, SamplesBothEndsOfWhatIsTooLongEvenly) {
  const auto counts = count_tokens(Halves(20 * kStretch), 0, 20 * kStretch, 2, 4 * kStretch);

  EXPECT_THAT(counts, testing::ElementsAre(2 * kStretch, 2 * kStretch));
}

}  // namespace
}  // namespace trireme::data
