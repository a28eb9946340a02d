// Classes of equal sub-chains.
// SPDX-License-Identifier: Apache-2.0
#include "tables/equal_layers.h"

#include "solve/chains.h"

#include <gtest/gtest.h>

namespace trireme::solve {
namespace {

// Layers a b a b, of which the last has a longer backward.
chain::Chain two_blocks() {
  chain::Chain chain{.name = "blocks", .input = Bytes(1), .layers = {}};
  for (const double backward : {3, 4, 3, 5}) {
    const bool even = chain.layers.size() % 2 == 0;
    chain.layers.push_back(layer(even ? 1 : 2, backward, even ? 2 : 1, 4));
  }
  return chain;
}

TEST(EqualLayers, AreTheLastOfThoseWithEqualForwardsAndSizes) {
  const EqualLayers equal(two_blocks(), 1, 4);

  EXPECT_EQ(equal.twin(1, 1), 3);
  EXPECT_EQ(equal.twin(2, 2), 4);
  EXPECT_EQ(equal.twin(1, 2), 3);
  EXPECT_EQ(equal.twin(2, 3), 2);
  EXPECT_EQ(equal.twin(1, 4), 1);
  EXPECT_EQ(equal.different(), 7u);  // a, b, ab, ba, aba, bab, abab
}

TEST(EqualLayers, WithBackwardsAreThoseWhoseBackwardsTakeAsLongToo) {
  const EqualLayers equal(two_blocks(), 1, 4, EqualLayers::Backwards::kOfEqualTime);

  EXPECT_EQ(equal.twin(1, 1), 3);
  EXPECT_EQ(equal.twin(2, 2), 2);
  EXPECT_EQ(equal.twin(1, 2), 1);
  EXPECT_EQ(equal.different(), 9u);  // a, b, b', ab, ba, ab', aba, bab', abab'
}

}  // namespace
}  // namespace trireme::solve
