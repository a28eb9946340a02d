// Layers that draw from the default generator, built and run by ranks that are threads.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/model/default_generator.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace trireme::model {
namespace {

constexpr std::int64_t kDraws = 50, kNumbers = 16;

/// Numbers of `kDraws` operators that draw one after the other, as the initial values of a layer.
at::Tensor drawn(std::uint64_t seed) {
  const DefaultGenerator alone(at::detail::createCPUGenerator(seed));
  std::vector<at::Tensor> draws;
  for (std::int64_t i = 0; i < kDraws; ++i) draws.push_back(at::randn({kNumbers}));
  return at::stack(draws);
}

/// The same from a generator that nobody else has.
at::Tensor expected(std::uint64_t seed) {
  const at::Generator own = at::detail::createCPUGenerator(seed);
  std::vector<at::Tensor> draws;
  for (std::int64_t i = 0; i < kDraws; ++i) draws.push_back(at::randn({kNumbers}, own));
  return at::stack(draws);
}

TEST(DefaultGenerator, GivesEveryThreadTheNumbersOfItsSeed) {
  const std::vector<std::uint64_t> seeds{3, 4};
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> threads;
  for (const std::uint64_t seed : seeds)
    threads.emplace_back([&, seed] {
      const at::Tensor want = expected(seed);
      for (int i = 0; i < 20; ++i) wrong += at::equal(drawn(seed), want) ? 0 : 1;
    });
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

TEST(DefaultGenerator, BeginsAgainWithEveryObject) {
  EXPECT_TRUE(at::equal(drawn(7), drawn(7)));
  EXPECT_FALSE(at::equal(drawn(7), drawn(8)));
}

}  // namespace
}  // namespace trireme::model
